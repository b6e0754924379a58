from .draw import Drawing as Drawing
from .draw import draw as draw
from .patch import patch as patch
from .patch import patched as patched
from .run_view import RunView as RunView
