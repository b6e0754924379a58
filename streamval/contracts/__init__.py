"""Design by Contract over a typed output: conditions before and after, and a model in between.

A contracted class defines a condition on its input (`pre`), a change of the input (`act`), a condition
on the model's output (`post`), and the use of that output, or of a fallback (`forward`).
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
