"""`make bench-batch`: what the table of a job costs, at 10,000 rows and at a million, and beside Ray Data on the same rows.

Each figure comes from a process of its own. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import streamval as sv
from streamval.batch import Job, fingerprint
from streamval.batch.answering import Answering
from streamval.batch.rows import row_of
from streamval.batch.table import Kept

PAUSE = 0.05
AT_ONCE = 64
RESULT_BYTES = 500


class Scripted(sv.Backend):
    """A sentence, after 50 ms."""

    model = "scripted"

    async def stream(self, request):
        del request
        await asyncio.sleep(PAUSE)
        yield "All is well."


def pipeline():
    return sv.Pipeline(Scripted(), requirements=[sv.forbidden_words(["acme"])])


def write_rows(path, count):
    with path.open("w") as file:
        for number in range(count):
            file.write(json.dumps({"id": f"row-{number}", "prompt": f"Say {number}."}) + "\n")


class AtOnce:
    """Answers a row without a pipeline: what is left is the table."""

    ahead = 0

    async def answer(self, row):
        record = {"id": row.id, "success": True, "text": "x" * (RESULT_BYTES - 45)}
        return Kept(row, "valid", 3, json.dumps(record).encode())


def memory():
    """The most that this process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def waiting(rows, out):
    """Rows of 50 ms: seconds, and times the ideal."""
    made = pipeline()
    await made.run("everything is loaded")
    began = time.perf_counter()
    job = Job(rows, out, fingerprint(made), task_limit=AT_ONCE)
    result = await job.run(Answering(made))
    return {"seconds": time.perf_counter() - began, "valid": result.in_all.valid}


async def table_only(rows, out):
    """Rows that are answered at once: seconds to the last result on the disk, and in all."""
    began = time.perf_counter()
    job = Job(rows, out, {"made": "at once"}, task_limit=AT_ONCE)
    result = await job.run(AtOnce())
    return {
        "answering": result.this_time.seconds,
        "seconds": time.perf_counter() - began,
        "valid": result.in_all.valid,
        "memory": memory(),
    }


async def by_map(rows, _):
    """The same rows without a table: `Pipeline.map`."""
    prompts = [json.loads(line)["prompt"] for line in Path(rows).read_text().splitlines()]
    made = pipeline()
    await made.run("everything is loaded")
    began = time.perf_counter()
    valid = 0
    async for _, result in made.map(prompts, task_limit=AT_ONCE, ordered=False):
        valid += result.success
    return {"seconds": time.perf_counter() - began, "valid": valid}


def by_ray(rows, out):
    """The same rows by Ray Data, two workers of 32 at once."""
    import ray

    from streamval.batch.ray import ValidateRows

    began = time.perf_counter()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    ready = time.perf_counter()
    answers = (
        ray.data.read_json(str(rows), lines=True)
        .repartition(16)
        .map_batches(
            ValidateRows,
            fn_constructor_args=[f"{Path(__file__).resolve()}:pipeline", AT_ONCE // 2],
            batch_size=128,
            concurrency=2,
            num_cpus=0.5,
            max_concurrency=2,  # a batch ends with its slowest row, while the next ones go on
        )
    )
    answers.write_json(str(out))
    done = time.perf_counter()
    valid = sum(
        json.loads(line)["success"]
        for path in Path(out).glob("*.json")
        for line in path.read_text().splitlines()
    )
    ray.shutdown()
    return {"init": ready - began, "seconds": done - ready, "valid": valid}


def by_cluster(rows, out):
    """The same rows by `streamval batch --ray`: each row is sent to one of two workers."""
    from streamval.batch.ray import on_cluster

    async def work():
        async with on_cluster(
            f"{Path(__file__).resolve()}:pipeline", task_limit=AT_ONCE
        ) as workers:
            given = (row_of(n, "a row", {"prompt": f"warm {n}"}) for n in range(1, 9))
            await asyncio.gather(*map(workers.answer, given))  # everything is loaded
            began = time.perf_counter()
            job = Job(rows, f"{out}.jsonl", {"made": "on Ray"}, task_limit=AT_ONCE)
            result = await job.run(workers)
            return {"seconds": time.perf_counter() - began, "valid": result.in_all.valid}

    return asyncio.run(work())


def measured(kind, rows, out, python=sys.executable):
    done = subprocess.run(
        [python, __file__, "--kind", kind, "--rows", str(rows), "--out", str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{kind}:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main(many, ray):
    few, ideal = 10_000, 10_000 / AT_ONCE * PAUSE
    table = []
    with tempfile.TemporaryDirectory() as folder:
        rows, all_rows = Path(folder, "rows.jsonl"), Path(folder, "many.jsonl")
        write_rows(rows, few)
        write_rows(all_rows, many)

        def timed(name, found):
            assert found["valid"] == few, found
            seconds = found["seconds"]
            table.append((name, f"{seconds:.2f} s, {seconds / ideal:.2f} times the ideal"))

        times = f"{few:,} rows of {PAUSE * 1000:.0f} ms, {AT_ONCE} at once ({ideal:.2f} s at best)"
        waits = [measured("waiting", rows, Path(folder, f"w{n}.jsonl")) for n in range(3)]
        timed(times, min(waits, key=lambda one: one["seconds"]))
        timed("… by `Pipeline.map`, without a table", measured("map", rows, folder))
        if ray:
            found = measured("ray", rows, Path(folder, "ray"), ray)
            timed("… by Ray Data, two workers of 32, which it starts", found)
            first = Path(folder, "first.jsonl")
            write_rows(first, AT_ONCE)
            start = measured("ray", first, Path(folder, "first"), ray)["seconds"]
            behind = (found["seconds"] - start) / (ideal - PAUSE)
            beside = f"{start:.2f} s; the others {behind:.2f} times the ideal"
            table.append((f"… of it the first {AT_ONCE} rows", beside))
            on_two = measured("cluster", rows, Path(folder, "cluster"), ray)
            timed("… by `streamval batch --ray`, two workers that have started", on_two)
        small = measured("table_only", rows, Path(folder, "small.jsonl"))
        cost = small["seconds"] / few * 1e6
        table.append(
            (f"the cost a row of a table of {few:,} rows, answered at once", f"{cost:.0f} µs")
        )
        big = measured("table_only", all_rows, Path(folder, "big.jsonl"))
        assert big["valid"] == many, big
        cost = big["seconds"] / many * 1e6
        table.append((f"… of {many:,} rows, results of {RESULT_BYTES} bytes", f"{cost:.0f} µs"))
        sizes = f"{small['memory']:.0f} and {big['memory']:.0f} MiB"
        table.append((f"most memory, {few:,} and {many:,} rows", sizes))
        again = measured("table_only", all_rows, Path(folder, "big.jsonl"))
        said = f"{again['seconds']:.1f} s, results written anew; {again['memory']:.0f} MiB"
        table.append((f"starting again with {many:,} results kept", said))
        all_rows.touch()
        again = measured("table_only", all_rows, Path(folder, "big.jsonl"))
        table.append(("… where the file of rows has been touched", f"{again['seconds']:.1f} s"))
    print("| | |\n|---|---|")
    for name, value in table:
        print(f"| {name} | {value} |")


KINDS = {"waiting": waiting, "table_only": table_only, "map": by_map}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--many", type=int, default=1_000_000)
    parser.add_argument("--ray", help="a Python that has Ray")
    parser.add_argument("--kind")
    parser.add_argument("--rows")
    parser.add_argument("--out")
    given = parser.parse_args()
    if given.kind in ("ray", "cluster"):
        by = by_ray if given.kind == "ray" else by_cluster
        print(json.dumps(by(given.rows, given.out)))
    elif given.kind:
        print(json.dumps(asyncio.run(KINDS[given.kind](Path(given.rows), Path(given.out)))))
    else:
        main(given.many, given.ray)
