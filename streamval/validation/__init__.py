"""The verdicts: lanes that judge chunks, the merge, the release order, and checkpoints for repairs.

`verdicts` and `release` are plain objects without tasks; `lane` asks one requirement; `fan` asks
all of them side by side and is the only file here that starts tasks.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
