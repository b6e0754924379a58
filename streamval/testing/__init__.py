"""For tests of your own requirements, chunkers, operators and pipelines: virtual time, marbles, faults, laws.

Nothing here needs pytest, and nothing waits: seconds are virtual where a test says so (`run_virtually`).
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
