from .configuration import Configuration as Configuration
from .gateway import Gateway as Gateway
from .reading import ConfigurationError as ConfigurationError
from .reading import read_configuration as read_configuration
from .server import serve as serve
