"""streamval judges a language model's output while it is being written."""

import lazy_loader as _lazy

from streamval.types.notebook import Viewer as _Viewer
from streamval.types.notebook import register_viewer as _register_viewer

__version__ = "0.1.0"

_get, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name not in __all__ and not name.startswith("_"):
        from streamval.errors import unknown_name

        raise unknown_name(__name__, name, __all__)
    return _get(name)


@_register_viewer
def _load_view() -> _Viewer:
    from streamval import view  # only when a notebook shows something

    return view
