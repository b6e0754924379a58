from .base import Backend as Backend
from .base import Delta as Delta
from .base import GenerationRequest as GenerationRequest
from .iterable import IterableBackend as IterableBackend
from .litellm import LiteLLMBackend as LiteLLMBackend
from .local import LocalBackend as LocalBackend
from .replay import ReplayBackend as ReplayBackend
from .scripted import ScriptedBackend as ScriptedBackend

def default_backend(model: str | None = None) -> Backend: ...
