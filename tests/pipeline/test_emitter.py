"""Tests of `streamval.pipeline.emitter`."""

import pytest
from pydantic import ValidationError

from streamval.aio.gate import Gate
from streamval.events import ChunkEvent, TokenEvent
from streamval.pipeline.emitter import Emitter
from streamval.pipeline.subscribers import Subscribers


def test_without_a_subscriber_no_event_is_made():
    subscribers, seen = Subscribers(Gate()), []
    emitter = Emitter(subscribers, "run")
    assert not emitter.wanted(TokenEvent)
    emitter.emit(TokenEvent, 1, text=object())  # which would be refused
    remove = subscribers.add(seen.append, events=(ChunkEvent,))
    assert emitter.wanted(ChunkEvent)
    assert not emitter.wanted(TokenEvent)
    emitter.emit(TokenEvent, 1, text=object())
    remove()
    assert not emitter.wanted(ChunkEvent)
    assert seen == []


def test_an_event_has_the_runs_id_and_the_attempt():
    subscribers, seen = Subscribers(Gate()), []
    subscribers.add(seen.append)
    emitter = Emitter(subscribers, "run")
    emitter.emit(TokenEvent, 3, text="Hi")
    assert [(event.run_id, event.attempt, event.text) for event in seen] == [("run", 3, "Hi")]


def test_fields_are_validated():
    subscribers = Subscribers(Gate())
    subscribers.add(lambda event: None)
    with pytest.raises(ValidationError):
        Emitter(subscribers, "run").emit(TokenEvent, 1, text=5)
