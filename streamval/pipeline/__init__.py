"""The pipeline and its runs: settings, attempts, repair, events, subscribers, delivered output.

In the order to read them: `pipeline` (what a user writes), `settings` (the same, checked and
frozen), `run` (attempts, events, and who drives them), `attempt` (one generation, as one chain of
operators).
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
