"""Tests of `streamval.types.context`."""

import pytest

import streamval as sv
from streamval.errors import RunError, UsageError


def test_a_context_grows_and_never_changes():
    first = sv.types.Context().add("Hi")
    second = first.add(sv.types.ModelOutputThunk("Hello."))
    third = second.add("How are you?")
    assert [len(ctx.messages) for ctx in (first, second, third)] == [1, 1, 3]
    assert str(second.last_output()) == "Hello."
    assert third.last_output() is None
    assert third.messages[1] == sv.types.Message("assistant", "Hello.")


def test_each_kind_shows_a_generation_its_own_part():
    turns = [sv.types.Message("system", "Be brief."), "one", "two", "three"]
    plain, simple, chat, window = (
        sv.types.Context(),
        sv.types.SimpleContext(),
        sv.types.ChatContext(),
        sv.types.ChatContext(window_size=2),
    )
    for turn in turns:
        plain, simple, chat, window = (ctx.add(turn) for ctx in (plain, simple, chat, window))
    said = lambda ctx: [turn.content for turn in ctx.history()]
    assert said(plain) == said(chat) == ["Be brief.", "one", "two", "three"]
    assert said(simple) == []
    assert said(window) == ["Be brief.", "two", "three"]
    assert type(window.add("four")) is sv.types.ChatContext


def test_an_output_that_is_not_there_yet_cannot_be_built_upon():
    waiting = sv.types.Context().add(sv.types.ModelOutputThunk())
    with pytest.raises(RunError, match=r"avalue\(\)"):
        waiting.add("more")
    with pytest.raises(RunError, match=r"avalue\(\)"):
        waiting.history()


def test_a_window_needs_room():
    with pytest.raises(UsageError, match="at least 1"):
        sv.types.ChatContext(window_size=0)


def test_a_block_is_what_the_user_says_and_anything_else_is_refused():
    chat = sv.types.ChatContext().add(sv.types.CBlock("Hi"))
    assert chat.history() == (sv.types.Message("user", "Hi"),)
    with pytest.raises(UsageError, match="not int"):
        chat.add(5)  # type: ignore[arg-type]
