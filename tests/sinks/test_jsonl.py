"""Tests of `streamval.sinks.jsonl`."""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

import streamval as sv
from streamval.backends import read_events
from streamval.errors import UsageError
from streamval.sinks import JSONL
from tests.support.sources import Judge, Spoken, watch


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


def test_a_folder_is_no_recording(tmp_path):
    with pytest.raises(UsageError, match="it is a folder; name a file in it"):
        JSONL(tmp_path)


def test_on_a_full_disk_no_half_line_stays(tmp_path, monkeypatch):
    path = tmp_path / "run.jsonl"
    event = sv.TokenEvent(run_id="r", attempt=1, text="x" * 100)
    write, room = os.write, [1000]

    def little_room(file, data):
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        size = min(len(data), room[0], 60)  # the system may take less than it is given
        room[0] -= size
        return write(file, bytes(data)[:size])

    with JSONL(path) as record:
        monkeypatch.setattr(os, "write", little_room)
        written = 0
        with pytest.raises(OSError, match="No space"):
            while True:
                record(event)
                written += 1
        room[0] = 10_000
        record(event)
    assert written > 1
    assert list(read_events(path)) == [event] * (written + 1)


async def test_a_recording_is_for_its_owner(tmp_path):
    run = sv.Pipeline(sv.ScriptedBackend("Yours.")).start("go")
    run.subscribe(sv.sinks.JSONL(tmp_path / "run.jsonl"))
    await run
    assert (tmp_path / "run.jsonl").stat().st_mode & 0o777 == 0o600
