"""Many prompts: a job that can be killed and goes on, with its books in SQLite.

`rows` reads what is to be answered, `table` keeps which rows there are and the result of each, `job` goes from the
one to the other and says by its `events` how far it has come, `answering` asks a pipeline at the `pace` that its provider allows, `records` and `output` say how a
result is written, `fingerprint` tells whether a pipeline is still the same, `named` finds one by its name, `command` is
the command line, `ray` answers rows on other machines.

Take its names by ``from streamval.batch import …``: ``streamval.batch`` itself is the function
``sv.batch(...)`` in `streamval`.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
