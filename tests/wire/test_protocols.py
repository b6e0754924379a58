"""Tests of `streamval.wire.protocols`: what holds for the writers of all protocols."""

import json

import pytest

from streamval.types import Usage
from streamval.wire.answers import Answer, frames
from streamval.wire.protocols import WRITERS

ERROR = {"error": {"message": "it broke off", "type": "server_error", "code": None, "param": None}}


@pytest.mark.parametrize("protocol", WRITERS)
def test_events_and_the_whole_answer_say_the_same(protocol):
    def begun():
        return WRITERS[protocol]("r1", "m", 7, {})

    writer = begun()
    ends = writer.end("length", Usage(5, 2), "Withheld.")
    events = [*writer.begin(), *writer.text("One. "), *writer.text("Two."), *ends]
    said = frames(events)
    whole = json.dumps(begun().whole(Answer("One. Two.", "length", Usage(5, 2))))
    for one in ("r1", '"m"', "Two."):
        assert one in said.replace('":"', '": "')
        assert one in whole
    assert all(frame.count("\n\n") == 1 for frame in map(frames, [[one] for one in events]))


@pytest.mark.parametrize("protocol", WRITERS)
def test_an_error_ends_the_answer_and_not_as_if_it_were_whole(protocol):
    writer = WRITERS[protocol]("r1", "m", 7, {})
    said = frames([*writer.begin(), *writer.text("One. "), *writer.fail(ERROR)])
    assert "it broke off" in said
    for regular in ("[DONE]", "message_stop", "response.completed", '"finish_reason":"stop"'):
        assert regular not in said
