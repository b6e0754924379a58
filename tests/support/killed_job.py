"""A job that is killed over and over, until it is done: run as a process of its own.

Each life is a fork that answers rows and is killed by SIGKILL at a random moment, while the table is opened, rows
are registered, answered and kept, or the results are written. Between two lives the table is looked at. Prints
JSON: how many lives there were, and what was found wrong.
"""

import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
import time
from contextlib import suppress
from pathlib import Path

import streamval as sv
from streamval.batch import RowEvent


class Slow(sv.Backend):
    """Says a word that nobody says twice, after some milliseconds."""

    model = "slow"

    async def stream(self, request):
        await asyncio.sleep(random.uniform(0, 0.012))
        yield f"{os.urandom(8).hex()} it is."


def live(rows, out, told):
    """One life: reports each result that is kept in a file, as a watcher would see it."""
    random.seed()
    reports = os.open(told, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def watch(event):
        if isinstance(event, RowEvent):
            os.write(reports, event.record + b"\n")

    result = asyncio.run(sv.batch(rows, out, sv.Pipeline(Slow()), task_limit=4, on_event=watch))
    os._exit(0 if result.success else 1)


def looked_at(table, told):
    """What is wrong with the table."""
    connection = sqlite3.connect(table)
    try:
        if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
            return ["the table is corrupt"]
        there = set()
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'result'").fetchone():
            there = {record for (record,) in connection.execute("SELECT record FROM result")}
    finally:
        connection.close()
    *reported, rest = told.read_bytes().split(b"\n") if told.exists() else [b""]
    if rest:
        return ["a report was torn"]
    return [f"{record!r} was reported, and is lost" for record in set(reported) - there]


def has_more_reports(told, child):
    """Wait until a life has reported a row, or is over."""
    before = told.stat().st_size if told.exists() else 0
    while not told.exists() or told.stat().st_size == before:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(0.002)


def main(folder, count, kills):
    random.seed(int(os.environ.get("SEED", "14")))
    rows, out, told = (Path(folder, name) for name in ("rows.jsonl", "out.jsonl", "told"))
    with rows.open("w") as file:
        for number in range(count):
            file.write(json.dumps({"id": f"r{number}", "prompt": f"Say {number}"}) + "\n")
    for _ in range(2):  # everything is loaded, and it is known how long a life needs
        began = time.monotonic()
        asyncio.run(sv.batch([{"prompt": "Hi"}], Path(folder, "first.jsonl"), sv.Pipeline(Slow())))
        needs = time.monotonic() - began
    wrong, lives, before, done = [], 0, 0, False
    while not done:
        lives += 1
        if lives == kills + 1:
            before = told.read_bytes().count(b"\n")
        if not (child := os.fork()):
            try:
                live(rows, out, told)
            finally:
                os._exit(2)
        if lives <= kills:
            # Short lives see the beginning of a job, longer ones its middle, on a slow machine too.
            if lives % 20 == 0:
                has_more_reports(told, child)
            time.sleep(random.uniform(0, needs * (5 if lives % 4 else 1)))
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        done = os.waitstatus_to_exitcode(status) == 0 and lives > kills
        if lives > kills and not done:
            wrong.append(f"the last life ended with {status}")
            break
        table = Path(f"{out}.sqlite")
        wrong += looked_at(table, told) if table.exists() else []
    results = [json.loads(line) for line in out.read_text().splitlines()]
    if [one["id"] for one in results] != [f"r{number}" for number in range(count)]:
        wrong.append("not one result a row")
    reported = [json.loads(line)["id"] for line in told.read_text().splitlines()]
    if len(reported) != len(set(reported)):
        wrong.append("a row was reported twice")
    print(json.dumps({"lives": lives, "wrong": wrong, "before_the_last": before}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
