"""Tests of `streamval.structured.json_schema.nodes`."""

import pytest

from streamval.structured.json_schema.compiler import Compiler
from streamval.structured.json_schema.nodes import written


def test_equal_values_are_written_alike():
    assert written({"a": [1.0, True], "b": None}) == written({"b": None, "a": [1, True]})
    assert written(1) != written(True)
    assert written("1") != written(1)


@pytest.mark.parametrize(
    ("choices", "begins", "does_not"),
    [
        ([10, 20], ["1", "10", "2", "1e", "100e-1", "0.1", "0"], ["3", "12", "-", "0.3"]),
        ([-5], ["-", "-5", "-0.5"], ["5", "-6"]),
        ([0], ["0", "-0", "0.0"], ["1", "0.1"]),
        ([0.25, 1e30], ["0.2", "25e-2", "1", "10"], ["3", "0.3"]),
        (["x", 7], ["7"], ["8"]),
        (["x"], [], ["1"]),
    ],
)  # fmt: skip
def test_a_number_can_become_a_choice_with_its_digits(choices, begins, does_not):
    node = Compiler({"enum": choices}).root
    assert [head for head in begins if not node.may_begin_number(head)] == []
    assert [head for head in does_not if node.may_begin_number(head)] == []


def test_branches_are_chosen_by_the_value_of_a_key_or_by_the_keys_that_they_allow():
    kinds = [{"properties": {"kind": {"const": f"k{n}"}}} for n in range(8)]
    (group,) = Compiler({"oneOf": [*kinds, {"type": "null"}]}).root.one_of
    assert group.switch.key == "kind"
    assert group.switch.chosen("k3") == [group[3], group[8]]
    closed = [{"properties": {f"k{n}": {}}, "additionalProperties": False} for n in range(8)]
    (group,) = Compiler({"anyOf": [*closed, {}]}).root.any_of
    assert group.switch.key is None
    assert group.switch.allowing("k3") == [group[3], group[8]]
    (group,) = Compiler({"anyOf": [{"minProperties": n} for n in range(8)]}).root.any_of
    assert group.switch is None
