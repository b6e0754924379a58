from .pipeline import Pipeline as Pipeline
from .repair import Repair as Repair
from .run import Run as Run
