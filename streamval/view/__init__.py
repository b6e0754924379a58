"""A run, folded into what a display shows; the drawings, and the page.

Every display draws a `RunView` and keeps no state of a run itself: the console in `streamval.sinks`, the
widget and the pictures of notebooks, the page of ``--watch`` and the marble diagrams::

    events ─▶ RunView.apply ─▶ snapshot (JSON) ─┬─▶ Console, LiveRun, the page: text, rows, attempts
                                                └─▶ draw: marbles (SVG, HTML)

`RunView` and `Timeline` are pure: they know no clock and do no input or output. `patch` makes a
message of the changes between two snapshots, so that a long text is not sent again and again.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
