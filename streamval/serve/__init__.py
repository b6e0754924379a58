"""The gateway: any client of OpenAI's shape gets only text that has been judged.

A request's way through these files::

    completions ─ wire: what is asked ─ places: one to run in ─ Pipeline over an upstream's relay
         ▲                                                            │ events
         └──────── exchange: frames of what was released ◀────────────┘

`configuration` is what the file may say and `reading` reads it, `gateway` is the application with all its
pages, `service` what they share, `endpoints` has the connections to the models behind and `upstream` speaks to
one, `tools` judges tool calls, `metrics` counts, `server` starts, drains and stops. What may be relied on stands
in README, and in `gateway`.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
