import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import textwrap

import pytest

import streamval as sv
from streamval.errors import UsageError
from streamval.sinks import JSONL, Callback, Collect, Console, read_events
from tests.support.sources import Judge, Spoken, fails_on, types, watch


async def test_collect():
    seen = Collect()
    run = sv.Pipeline(Spoken("One. Two.")).start("go")
    run.subscribe(seen)
    await run
    assert len(seen) == 5
    assert [event.text for event in seen.of(sv.ChunkEvent)] == ["One.", "Two."]
    assert types(seen) == ["started", "chunk", "chunk", "streaming_done", "completed"]


async def test_callback_is_for_some_events_and_may_be_async():
    plain, later = [], []

    async def slow(event):
        later.append(event.text)

    run = sv.Pipeline(Spoken("One. Two.")).start("go")
    run.subscribe(Callback(lambda event: plain.append(event.text), sv.ChunkEvent))
    run.subscribe(Callback(slow, sv.ChunkEvent))
    await run
    assert plain == later == ["One.", "Two."]
    with pytest.raises(UsageError):
        Callback("x")


# JSONL


async def test_jsonl_reads_back_what_was_sent(tmp_path):
    path = tmp_path / "run.jsonl"
    record = JSONL(path)
    pipeline = sv.Pipeline(Spoken("One é. Two."), requirements=[Judge()], emit_tokens=True)
    events = []
    for _ in range(2):
        run = pipeline.start("go")
        run.subscribe(record)
        events += await watch(run)
    assert list(read_events(path)) == events
    assert record._file is None  # closed with the last run


def test_jsonl_wants_a_folder_that_exists(tmp_path):
    with pytest.raises(UsageError, match="no folder"):
        JSONL(tmp_path / "none" / "run.jsonl")


def test_every_line_is_whole_even_if_the_process_dies(tmp_path):
    path = tmp_path / "run.jsonl"
    code = textwrap.dedent(f"""
        import asyncio, itertools, streamval as sv
        async def endless(prompt):
            for n in itertools.count():
                yield f"Sentence {{n}} is here. "
        run = sv.Pipeline(sv.IterableBackend(endless)).start("go")
        run.subscribe(sv.sinks.JSONL({str(path)!r}))
        async def main():
            await run
        asyncio.run(main())
    """)
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        while not path.exists() or path.stat().st_size < 50_000:
            assert process.poll() is None
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    data = path.read_bytes()
    assert data.endswith(b"\n")
    lines = data.splitlines()
    assert len(lines) > 100
    assert all(json.loads(line)["type"] for line in lines)


# Console


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
    assert "attempt 1 cancelled (stay calm: it shouts), went on from there" in last
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
    assert "attempt 1 cancelled: be good: about Bad." in out
    assert "valid after 2 attempts" in out
    assert "\x1b[" not in out


async def test_console_shows_an_error(capsys):
    run = sv.Pipeline(Spoken("One. ", OSError("no line"))).start("go")
    run.subscribe(Console())
    with pytest.raises(OSError, match="no line"):
        await run
    assert "OSError: no line" in capsys.readouterr().out
