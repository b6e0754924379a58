"""Tests of `streamval.validation.shared_state`."""

from collections import OrderedDict
from copy import copy

import pytest

import streamval as sv
from streamval.validation.shared_state import SharedState
from tests.support.sources import Spoken

CHANGES = {
    "list": ([1], lambda it: it.append(2)),
    "an item in its place": ([1], lambda it: it.__setitem__(0, 2)),
    "dict": ({"a": 1}, lambda it: it.update(a=2)),
    "key": ({"a": 1}, lambda it: it.update(b=1)),
    "set": ({1}, lambda it: it.add(2)),
    "bytearray": (bytearray(b"a"), lambda it: it.extend(b"b")),
    "ordered": (OrderedDict(a=1), lambda it: it.clear()),
    "long": (list(range(5000)), lambda it: it.append(2)),
}


class Keeps(sv.Requirement):
    """Keeps something, and does to it what it is told, at each chunk."""

    judge_whole = False

    def __init__(self, kept, change=lambda it: None):
        self.kept = kept
        self.change = change

    def stream_validate(self, chunk, *, backend, ctx):
        self.change(self.kept)
        return sv.PartialValidationResult("pass")


@pytest.mark.parametrize(("kept", "change"), CHANGES.values(), ids=CHANGES)
async def test_a_change_of_what_copies_share_is_told(kept, change):
    with pytest.warns(sv.errors.SharedStateWarning, match="copies of Keeps share 'kept'"):
        await sv.Pipeline(Spoken("One. Two."), requirements=[Keeps(copy(kept), change)]).run("go")


@pytest.mark.parametrize("kept", [pair[0] for pair in CHANGES.values()])
async def test_what_stays_as_it_is_is_no_trap(kept):  # warnings are errors here
    await sv.Pipeline(Spoken("One."), requirements=[Keeps(kept)]).run("go")


class AtTheClass(sv.Requirement):
    seen = []

    def stream_validate(self, chunk, *, backend, ctx):
        self.seen.append(chunk)
        return sv.PartialValidationResult("pass")

    judge_whole = False


async def test_what_the_class_holds_is_shared_too():
    with pytest.warns(sv.errors.SharedStateWarning, match="share 'seen'"):
        await sv.Pipeline(Spoken("One."), requirements=[AtTheClass()]).run("go")


async def test_an_item_inside_is_shared_too():
    def change(kept):
        kept["a"].append(1)

    with pytest.warns(sv.errors.SharedStateWarning):
        await sv.Pipeline(Spoken("One."), requirements=[Keeps({"a": []}, change)]).run("go")


async def test_an_equal_value_is_no_change():
    def change(kept):
        kept[0] = (kept[0] + " ").strip()  # another object of the same value

    await sv.Pipeline(Spoken("One."), requirements=[Keeps(["abc"], change)]).run("go")


async def test_reassigning_is_right():
    class Reassigns(Keeps):
        def stream_validate(self, chunk, *, backend, ctx):
            self.kept = [*self.kept, chunk]
            return sv.PartialValidationResult("pass")

    original = Reassigns([])
    await sv.Pipeline(Spoken("One. Two."), requirements=[original]).run("go")
    assert original.kept == []


async def test_each_attempt_is_looked_at():
    class Fails(Keeps):
        def stream_validate(self, chunk, *, backend, ctx):
            self.kept.append(chunk)
            return sv.PartialValidationResult("fail")

    with pytest.warns(sv.errors.SharedStateWarning) as told:
        await sv.Pipeline(
            sv.ScriptedBackend("One."), requirements=[Fails([])], retry=sv.Repair()
        ).run("go")
    assert len(told) == 2


def test_a_copy_of_ones_own_says_what_is_shared():
    class Shares(Keeps):
        def __copy__(self):
            return Shares(self.kept)

    original = Shares([])
    shared = SharedState(original)
    original.kept.append(1)
    assert shared.changed() == []
