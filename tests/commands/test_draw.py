"""Tests of `streamval.commands.draw`."""

import asyncio

import streamval as sv
from tests.support.command_line import streamval


def test_a_recording_is_drawn_as_a_picture_or_a_page(tmp_path):
    path = tmp_path / "run.jsonl"
    run = sv.Pipeline(sv.ScriptedBackend("Fine. So."), emit_tokens=True).start("x")
    run.subscribe(sv.sinks.JSONL(path))

    async def drive():
        await run

    asyncio.run(drive())
    for suffix, begins in (("svg", "<svg"), ("html", "<!doctype html>")):
        drawing = tmp_path / f"run.{suffix}"
        done = streamval("draw", str(path), "-o", str(drawing))
        assert done.returncode == 0, done.stderr
        assert drawing.read_text().startswith(begins)
    for arguments, says in (
        ((str(path), "-o", "run.png"), "saved as .svg or .html"),
        (("nothing.jsonl", "-o", "run.svg"), "cannot read the recording"),
    ):
        done = streamval("draw", *arguments)
        assert done.returncode == 2
        assert says in " ".join(done.stderr.split())
