"""Tests of `streamval.batch.ray`, on a real cluster: `make test-ray`."""

import asyncio
import json
import os
import signal

import pytest

import streamval as sv
from streamval.batch import Job, fingerprint, status
from streamval.errors import UsageError

ray = pytest.importorskip("ray", reason="Ray is not installed: `make test-ray` tests it")

from streamval.batch.pipeline_by_name import pipeline_named  # noqa: E402
from streamval.batch.ray import RowsOfJob, ValidateRows, on_cluster  # noqa: E402
from streamval.batch.rows import row_of  # noqa: E402

MADE = """
import asyncio, os
import streamval as sv

class Slow(sv.Backend):
    model = "slow"

    async def stream(self, request):
        said = request.messages[-1].content
        with open({told!r}, "a") as told:
            told.write(f"{{os.getpid()}} {{said}}\\n")
        await asyncio.sleep({pause})
        if "raise" in said:
            raise RuntimeError("oh no")
        yield f"{{said}} is {{'bad' if 'fail' in said else 'fine'}}."

def make():
    return sv.Pipeline(Slow(), requirements=[sv.forbidden_words(["bad"])])
"""


@pytest.fixture
def made(tmp_path):
    def write(pause=0.0):
        path = tmp_path / "made.py"
        path.write_text(MADE.format(told=str(tmp_path / "told"), pause=pause))
        return f"{path}:make"

    return write


def asked(tmp_path):
    return [line.split(" ", 1) for line in (tmp_path / "told").read_text().splitlines()]


def test_map_batches_answers_every_row_and_never_raises(tmp_path, made):
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        rows = [{"id": f"r{n}", "prompt": f"row {n}", "n": n} for n in range(40)]
        rows[3]["prompt"] = "raise"
        rows[4]["prompt"] = "fail"
        rows[5]["prompt"] = None
        done = (
            ray.data.from_items(rows)
            .map_batches(
                ValidateRows,
                fn_constructor_args=[made()],
                batch_size=8,
                batch_format="pyarrow",
                concurrency=2,
            )
            .take_all()
        )
        by_id = {one["id"]: one for one in done}
        assert len(done) == len(by_id) == 40
        assert {one["n"] for one in done} == set(range(40))
        assert by_id["r0"]["text"] == "row 0 is fine."
        assert by_id["r3"]["error"] == "RuntimeError: oh no"
        assert (by_id["r4"]["success"], len(by_id["r4"]["failures"])) == (False, 1)
        assert "a row has a `prompt`" in by_id["r5"]["error"]
        assert sum(one["success"] for one in done) == 37
        # What cannot be made is an error of each row, and no row is lost.
        done = (
            ray.data.from_items(rows[:3])
            .map_batches(ValidateRows, fn_constructor_args=["nothing:here"], concurrency=1)
            .take_all()
        )
        assert len(done) == 3
        assert all("nothing cannot be imported" in one["error"] for one in done)
    finally:
        ray.shutdown()


async def test_a_job_on_a_cluster_outlives_its_workers(tmp_path, made):
    place, out = made(1.0), tmp_path / "out.jsonl"
    rows = [{"id": f"r{n}", "prompt": f"row {n}"} for n in range(60)]
    told = []

    def watch(event):
        told.append(event)
        if len(told) == 10:  # in the midst of the next rows
            first = int(asked(tmp_path)[0][0])
            asyncio.get_running_loop().call_later(0.4, os.kill, first, signal.SIGKILL)

    pipeline = pipeline_named(place)
    job = Job(rows, out, fingerprint(pipeline), on_event=watch, task_limit=8)
    async with on_cluster(place) as answers:
        result = await job.run(answers)
    assert result.success
    results = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["id"] for one in results] == [f"r{n}" for n in range(60)]
    workers = {worker for worker, _ in asked(tmp_path)}
    assert len(workers) >= 2
    assert len(asked(tmp_path)) > 60  # the rows of the one that was killed
    assert status(out).valid == 60
    # The same job goes on without a cluster.
    again = await sv.batch(rows, out, pipeline)
    assert again.this_time.done == 0


async def test_a_row_that_nobody_can_answer_ends_the_job(tmp_path):
    async with on_cluster("nothing:here") as answers:
        rows = (row_of(n, "a row", {"prompt": f"row {n}"}) for n in range(1, 7))
        found = await asyncio.gather(*map(answers.answer, rows), return_exceptions=True)
        job = Job([{"prompt": "One?"}], tmp_path / "out.jsonl", {"made": "on Ray"})
        with pytest.raises(Exception, match="nothing cannot be imported"):
            await job.run(answers)
    assert len(found) == 6
    assert all("nothing cannot be imported" in str(one) for one in found)


async def test_rows_whose_caller_has_gone_do_not_stop_the_others(made):
    async with on_cluster(made(0.2)) as answers:
        rows = [row_of(n, "a row", {"prompt": f"row {n}"}) for n in range(1, 41)]
        tasks = [asyncio.ensure_future(answers.answer(row)) for row in rows]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in done[::2])
    assert [json.loads(one.record)["text"] for one in done[1::2]] == [
        f"row {n} is fine." for n in range(2, 41, 2)
    ]


async def test_a_worker_begins_with_its_next_row_as_soon_as_one_ends():
    at_once, most, asked = 0, 0, []

    class Counts(sv.Backend):
        model = "counts"

        async def stream(self, request):
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            asked.append(request.messages[-1].content)
            await asyncio.sleep(0.01)
            at_once -= 1
            yield "Fine."

    worker = RowsOfJob(lambda: sv.Pipeline(Counts()), 3)
    await worker.take([(n, row_of(n, "a row", {"prompt": f"row {n}"})) for n in range(1, 10)])
    done = []
    while len(done) < 9:
        done += await worker.done()
    assert most == 3
    assert asked == [f"row {n}" for n in range(1, 10)]


async def test_a_cluster_that_is_not_there_is_said():
    with pytest.raises(UsageError, match=r"there is no Ray cluster at 127\.0\.0\.1:1"):
        async with on_cluster("a:b", address="127.0.0.1:1"):
            pass
