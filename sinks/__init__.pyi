from .callback import Callback as Callback
from .collect import Collect as Collect
from .console import Console as Console
from .jsonl import JSONL as JSONL
from .opentelemetry import OpenTelemetry as OpenTelemetry
from .piped import Piped as Piped
from .progress import ProgressBar as ProgressBar
from .sse import sse as sse
