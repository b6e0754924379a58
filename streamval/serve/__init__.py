"""The gateway: any client of OpenAI's shape gets only text that has been judged.

A request's way through these files::

    completions ─ wire: the request ─ limiter: a slot ─ Pipeline over an upstream's relay
         ▲                                                            │ events
         └──────── exchange: frames of released chunks ◀──────────────┘

`configuration` is the schema of the file and `config_file` reads it, `gateway` is the ASGI application,
`service` is the state that its endpoints share, `endpoints` has the connections to models, `upstream`
relays one request, `tools` judges tool calls, `metrics` counts, `server` starts, drains and stops. README
and `gateway` list the guarantees.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
