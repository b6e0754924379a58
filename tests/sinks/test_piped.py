"""Tests of `streamval.sinks.piped`; what a shell sees of it is in `tests/test_cli.py`."""

import json

import streamval as sv
from streamval.sinks import Piped
from tests.support.sources import Judge, Spoken, fails_on


async def piped(capsys, pipeline, **options):
    run = pipeline.start("x")
    run.subscribe(Piped(run.cancel, **options))
    await run
    return capsys.readouterr().out


async def test_json_comes_as_a_whole(capsys):
    """What a restart takes back would spoil it."""
    said = ['{"name": "Rome", "people": "many"}', '{"name": "Rome", "people": 3}']
    pipeline = sv.Pipeline(
        sv.ScriptedBackend(said),
        format=dict[str, int | str],
        requirements=[sv.forbidden_words(["many"], chunking="json")],
        retry=sv.Repair(mode="restart"),
    )
    assert json.loads(await piped(capsys, pipeline, whole=True)) == {"name": "Rome", "people": 3}


async def test_text_comes_as_it_is_and_what_a_restart_takes_back_stays_on_a_line_of_its_own(capsys):
    judge = Judge(fails_on("Bad."))
    said = [["Good. ", "Bad. ", "x"], ["Better. ", "Best."]]
    pipeline = sv.Pipeline(Spoken(*said), requirements=[judge], retry=sv.Repair())
    assert await piped(capsys, pipeline) == "Good.\nBetter. Best.\n"
    said = [["Good. ", "Bad. ", "x"], [" Better."]]
    backend = Spoken(*said, supports_prefix=True)
    pipeline = sv.Pipeline(backend, requirements=[judge], retry=sv.Repair())
    assert await piped(capsys, pipeline) == "Good. Better.\n"
