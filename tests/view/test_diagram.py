"""Tests of `streamval.view.diagram`."""

from xml.etree import ElementTree as ET

from streamval.view.diagram import LANES, pipeline_diagram

SVG = "{http://www.w3.org/2000/svg}"


def said(*arguments):
    root = ET.fromstring(pipeline_diagram(*arguments))
    return [text.text for text in root.iter(f"{SVG}text")]


def test_a_box_for_each_lane_and_the_way_back():
    assert said("m", "sentence", ["calm", "brief"], "restart") == [
        *("m", "sentence", "merge", "release", "subscribers"),
        *("calm", "brief"),
        "fail: cancel, then restart",
    ]
    assert "fail: cancel" in said("m", "word", [], None)


def test_of_many_lanes_their_number_is_said():
    names = said("m", "word", [f"lane {n}" for n in range(30)], None)
    assert f"lane {LANES - 1}" in names
    assert f"and {30 - LANES} more" in names
    assert f"lane {LANES}" not in names


def test_names_are_data():
    assert "<b>&'\"" in said("<b>&'\"", "word", ["</svg><script>"], None)
