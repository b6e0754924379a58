"""Requirements: they judge chunks and whole outputs."""

import lazy_loader as _lazy

_get, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name not in __all__ and not name.startswith("_"):
        from streamval.errors import unknown_name

        raise unknown_name(__name__, name, __all__)
    return _get(name)
