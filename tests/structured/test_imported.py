"""Tests of `streamval.structured.imported`."""

import pytest

from streamval.errors import UsageError
from streamval.structured.imported import type_in


def test_a_type_of_a_file_whose_annotations_find_their_names(tmp_path):
    file = tmp_path / "city.py"
    file.write_text(
        "from __future__ import annotations\nfrom pydantic import BaseModel\n"
        "class Place(BaseModel):\n    name: str\nclass City(Place):\n    near: list[Place]\n"
    )
    made = type_in(f"{file}:City").model_validate({"name": "Rome", "near": [{"name": "Ostia"}]})
    assert made.near[0].name == "Ostia"


@pytest.mark.parametrize(
    ("content", "name", "says"),
    [
        ("x = 1", "City", "there is no 'City'"),
        ("City = 1", "City", "is no class, but of type int"),
        ("1 / 0", "City", "cannot be imported: ZeroDivisionError"),
        ("", "", "--format is FILE.py:Model"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, content, name, says):
    file = tmp_path / "city.py"
    file.write_text(content)
    with pytest.raises(UsageError, match=says):
        type_in(f"{file}:{name}")
