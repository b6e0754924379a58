"""Operators: plain functions from observable to observable, to compose with `pipe`."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
