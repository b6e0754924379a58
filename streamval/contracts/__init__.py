"""Design by Contract over a typed output: conditions before and after, and a model in between.

A contracted class says what must hold of its input (`pre`), what to make of it (`act`), what must
hold of the model's output (`post`), and what to do with that, or without it (`forward`).
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
