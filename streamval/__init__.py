"""streamval judges a language model's output while it is being written."""

import lazy_loader as _lazy

from streamval.types.notebook import Viewer as _Viewer
from streamval.types.notebook import register_viewer as _register_viewer

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)


@_register_viewer
def _load_view() -> _Viewer:
    from streamval import view  # only when a notebook shows something

    return view
