from .configuration import Configuration as Configuration
from .configuration import ConfigurationError as ConfigurationError
from .configuration import read_configuration as read_configuration
from .gateway import Gateway as Gateway
from .server import serve as serve
