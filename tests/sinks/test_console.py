"""Tests of `streamval.sinks.console`."""

import io
import os
import pty
import re
import select
import sys

import pytest
from rich.console import Console as RichConsole
from rich.text import Text

import streamval as sv
from streamval.sinks import Console
from tests.support.sources import Judge, Spoken, fails_on

SHOWN = """
import asyncio, streamval as sv
async def main():
    calm = sv.stream_check(lambda text: (text[-1] != "!", "it shouts"), "stay calm")
    backend = sv.ScriptedBackend(
        ["Water is wet. It is clear. Help! Never.", " It is cold."], delay=0.02, supports_prefix=True
    )
    pipeline = sv.Pipeline(backend, requirements=[calm], retry=sv.Repair(), emit_tokens=True)
    run = pipeline.start("Water")
    run.subscribe(sv.sinks.Console())
    await run
asyncio.run(main())
"""


def in_terminal(code):
    """What a program writes to a real terminal of 100 by 30."""
    pid, terminal = pty.fork()
    if not pid:
        os.environ.update(TERM="xterm-256color", COLUMNS="100", LINES="30")
        os.execv(sys.executable, [sys.executable, "-c", code])
    written = b""
    while select.select([terminal], [], [], 60)[0]:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # how a terminal says that the program has ended
            break
        if not piece:
            break
        written += piece
    os.close(terminal)
    assert os.waitpid(pid, 0)[1] == 0
    return written.decode()


def test_console_in_a_real_terminal():
    written = in_terminal(SHOWN)
    frames = written.count("\x1b[2K")
    assert frames > 20  # it was redrawn while the model wrote
    assert "\x1b[2;3m" in written  # dim italic: what is not checked yet
    assert re.search("\x1b\\[9;31m[^\x1b]*Help!", written)  # struck out: what was rejected
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written).split("╭")[-1]
    assert "Water is wet. It is clear. It is cold." in last
    assert "Never" not in last
    assert "✓ stay calm" in last
    assert "attempt 1 rejected (stay calm: it shouts), went on from there" in last
    assert "✓ valid after 2 attempts" in last
    assert "saved from rejected attempts" in last


async def test_console_without_a_terminal_says_it_in_lines(capsys):
    pipeline = sv.Pipeline(
        Spoken(["One. ", "Bad. ", "x"], ["Two."]),
        requirements=[Judge(fails_on("Bad."), "be good")],
        retry=sv.Repair(),
    )
    run = pipeline.start("go")
    run.subscribe(Console())
    await run
    out = capsys.readouterr().out
    assert "attempt 1 rejected: be good: about Bad." in out
    assert "valid after 2 attempts" in out
    assert "\x1b[" not in out


async def test_console_shows_an_error(capsys):
    run = sv.Pipeline(Spoken("One. ", OSError("no line"))).start("go")
    run.subscribe(Console())
    with pytest.raises(OSError, match="no line"):
        await run
    assert "OSError: no line" in capsys.readouterr().out


async def test_what_others_wrote_is_no_markup_and_no_control_sequence():
    out = io.StringIO()
    console = Console(RichConsole(file=out, width=100, force_terminal=True, color_system=None))
    evil = "[/b][link=x]\x1b]0;owned\x07"
    judge = sv.stream_check(lambda text: (False, evil), evil)
    backend = sv.IterableBackend(lambda _: [f"Text {evil}. ", "More. "], model=evil)
    run = sv.Pipeline(backend, requirements=[judge], emit_tokens=True).start("go")
    run.subscribe(console)
    assert not (await run).success
    shown = out.getvalue()
    assert "[/b][link=x]" in shown
    assert "\x1b]0;" not in shown
    assert "\x07" not in shown


def events_of_a_long_run(count):
    head = {"run_id": "r", "attempt": 1}
    yield sv.StartedEvent(**head, model="m", requirements=("a",), chunking="word")
    for n in range(count):
        yield sv.TokenEvent(**head, text="word " * 20)
        yield sv.ChunkEvent(
            **head, text="word " * 20, chunk_index=n, start=n * 100, end=n * 100 + 100, separator=""
        )


def test_what_a_frame_costs_does_not_grow_with_the_text(monkeypatch):
    """Of a long text only the end is laid out."""
    laid_out = []
    wrap = Text.wrap
    monkeypatch.setattr(
        Text, "wrap", lambda self, *a, **o: laid_out.append(len(self)) or wrap(self, *a, **o)
    )
    console = Console(RichConsole(file=io.StringIO(), width=80, height=24, force_terminal=True))
    for event in events_of_a_long_run(3000):
        console(event)
    assert len(laid_out) > 1
    assert max(laid_out) < 6000
    console.close()


def test_frames_take_a_tenth_of_the_time_at_most(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("streamval.sinks.console.time.monotonic", lambda: now[0])
    console = Console(RichConsole(file=io.StringIO(), width=80, height=24, force_terminal=True))
    frames = []

    def slow(*_, **__):
        now[0] += 1.0  # a frame takes a second
        frames.append(now[0])
        return Text()

    monkeypatch.setattr("streamval.sinks.console._rendered", slow)
    for event in events_of_a_long_run(500):
        now[0] += 0.01
        console(event)
    console.close()
    assert len(frames) <= 4


def test_a_recording_that_begins_twice_and_a_very_narrow_terminal():
    before = sys.stdout
    console = Console(RichConsole(file=io.StringIO(), width=4, height=5, force_terminal=True))
    for _ in range(2):
        for event in events_of_a_long_run(2):
            console(event)
    console.close()
    assert sys.stdout is before
