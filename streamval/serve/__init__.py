"""The gateway: any client of OpenAI's shape gets only text that has been judged.

A request's way through these files::

    gateway ─ wire: what the client asks ─ limits: a place to run ─ Pipeline over a relay: the upstream
       ▲                                                                   │ events
       └───────── wire: frames of what was released ◀─────────────────────┘

`configuration` reads the file, `upstream` speaks to the model behind, `tools` judges tool calls,
`metrics` counts, `server` starts, drains and stops. What may be relied on stands in README, and in
`gateway`.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
