"""What stands on a pipeline: sessions, sampling strategies, generative functions, one attempt by hand."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
