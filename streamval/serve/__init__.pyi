from .config_file import read_configuration as read_configuration
from .configuration import Configuration as Configuration
from .gateway import Gateway as Gateway
from .server import serve as serve
