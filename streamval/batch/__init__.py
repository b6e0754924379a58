"""Many prompts: a job that can be killed and resumed, with its ledger table in SQLite.

`rows` reads the input, `table` keeps rows and results in SQLite, `job` answers the missing rows and reports
`events`, `answering` asks a pipeline at the `pace` that its provider allows, `records` and `output` write
results, `fingerprint` detects changed settings of a pipeline, `pipeline_by_name` finds a pipeline, and
`ray` answers rows on other machines.

Take its names by ``from streamval.batch import …``: ``streamval.batch`` itself is the function
``sv.batch(...)`` in `streamval`.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
