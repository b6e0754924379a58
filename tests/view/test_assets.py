"""Tests of `streamval.view.assets`."""

import re
from pathlib import Path

import pytest

import streamval.view
from streamval.view.assets import asset

FOLDER = Path(streamval.view.__file__).parent / "assets"


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_they_fetch_nothing_and_put_nothing_in_as_markup(path):
    text = asset(path.name)
    assert not re.search(r"https?://|//cdn|@import|url\(", text)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
