"""What flows: chunks, verdicts, results, usage, messages and contexts, components, sound.

Plain values. Nothing here knows of a task or an observable.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
