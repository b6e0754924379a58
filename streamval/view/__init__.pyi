from .draw import Drawing as Drawing
from .draw import draw as draw
from .live import LiveRun as LiveRun
from .patch import patch as patch
from .patch import patched as patched
from .run_view import RunView as RunView
from .run_view import Snapshot as Snapshot
from .watch import Watch as Watch
