"""The value types: chunks, verdicts, results, usage, messages and contexts, components, sound.

They depend on neither tasks nor observables.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
