"""Tests of `streamval.types.notebook`."""

import subprocess
import sys

import pytest

from streamval.types.notebook import html_of


def test_what_flows_does_not_load_how_it_looks_until_something_is_shown():
    code = """
import sys
from streamval import Chunk, Pipeline, StreamResult
assert not any(name.startswith("streamval.view") for name in sys.modules), "loaded"
assert "One." in Chunk("One.", 0, 0, 4)._repr_html_()
assert "streamval.view.html" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_what_has_no_picture_says_so():
    with pytest.raises(TypeError, match="str has no picture"):
        html_of("text")
