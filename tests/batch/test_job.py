"""Tests of `streamval.batch.job`."""

import asyncio
import contextlib
import json
import math
import os
import subprocess
import sys
import time

import pydantic
import pytest

import streamval as sv
from streamval.batch import Job, RowEvent, Slowed, answering, fingerprint, status
from streamval.batch.answering import Answering
from streamval.batch.table import Kept, Table
from streamval.errors import AuthenticationError, UsageError
from tests.support.breaking import Breaking
from tests.support.upstream import words


class Counted(sv.Backend):
    """Answers by a function of the prompt; counts who is asked, and how many at once."""

    model = "counted"

    def __init__(self, answer=lambda prompt: f"{prompt} is fine."):
        self.answer = answer
        self.asked = []
        self.now = self.most = 0

    def stream(self, request):
        async def said():
            prompt = request.messages[-1].content
            self.asked.append(prompt)
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                await asyncio.sleep(0)
                text = self.answer(prompt)
                if isinstance(text, BaseException):
                    raise text
                if asyncio.iscoroutine(text):
                    text = await text
                yield text
            finally:
                self.now -= 1

        return said()


def pipeline_of(backend):
    return sv.Pipeline(backend, requirements=[sv.forbidden_words(["bad"])])


def rows_of(count, prompt="row {}"):
    return [{"id": f"r{n}", "prompt": prompt.format(n), "n": n} for n in range(count)]


def results_in(out):
    return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.jsonl"


async def test_one_result_a_row_in_the_order_of_the_rows(out):
    backend = Counted(lambda prompt: asyncio.sleep(0.002 * (hash(prompt) % 5), f"{prompt}."))
    result = await sv.batch(rows_of(200), out, pipeline_of(backend), task_limit=16)
    assert result.success
    assert (result.ended, result.this_time.valid, result.in_all.valid) == ("done", 200, 200)
    assert [(one["id"], one["n"], one["text"]) for one in results_in(out)] == [
        (f"r{n}", n, f"row {n}.") for n in range(200)
    ]
    assert 2 < backend.most <= 16
    again = await sv.batch(rows_of(200), out, pipeline_of(backend))
    assert (again.this_time.done, again.this_time.earlier, len(backend.asked)) == (0, 200, 200)


async def test_a_row_that_raises_or_fails_is_a_row_and_can_be_asked_again(out):
    answers = {"row 1": "This is bad.", "row 2": RuntimeError("oh no")}
    backend = Counted(lambda prompt: answers.get(prompt, "Fine."))
    result = await sv.batch(rows_of(4), out, pipeline_of(backend))
    assert (result.success, result.in_all.valid, result.in_all.failed, result.in_all.errors) == (
        False,
        2,
        1,
        1,
    )
    one, two = results_in(out)[1:3]
    assert one["failures"][0]["requirement"] == 'never say "bad"'
    assert two["error"] == "RuntimeError: oh no"
    answers.clear()
    backend.asked.clear()
    assert not (await sv.batch(rows_of(4), out, pipeline_of(backend))).success
    assert backend.asked == []
    assert (await sv.batch(rows_of(4), out, pipeline_of(backend), retry_failed=True)).success
    assert sorted(backend.asked) == ["row 1", "row 2"]
    assert all(one["success"] for one in results_in(out))


async def test_limits_end_it_and_it_goes_on(out):
    backend = Counted(lambda prompt: "bad" if int(prompt[4:]) % 2 else "One two three.")
    result = await sv.batch(rows_of(50), out, pipeline_of(backend), limit=5, task_limit=2)
    assert (result.ended, result.this_time.done, len(results_in(out))) == ("limit", 5, 5)
    result = await sv.batch(rows_of(50), out, pipeline_of(backend), max_failures=3, task_limit=1)
    assert result.ended == "failures"
    assert 3 <= result.this_time.failed <= 5  # those that had begun
    tokens = result.in_all.tokens
    result = await sv.batch(
        rows_of(50), out, pipeline_of(backend), token_budget=tokens + 4, task_limit=1
    )
    assert result.ended == "tokens"
    assert result.in_all.tokens < tokens + 10
    result = await sv.batch(rows_of(50), out, pipeline_of(backend))
    assert (result.ended, result.in_all.done) == ("done", 50)
    assert sorted(backend.asked) == sorted(f"row {n}" for n in range(50))


async def test_a_budget_that_is_spent_already_begins_nothing(out):
    backend = Counted()
    await sv.batch(rows_of(50), out, pipeline_of(backend), limit=5)
    result = await sv.batch(rows_of(50), out, pipeline_of(backend), token_budget=1)
    assert (result.ended, result.this_time.done, len(backend.asked)) == ("tokens", 0, 5)


async def test_rows_that_change_under_a_job_end_it_before_they_are_paid(out, tmp_path):
    rows = tmp_path / "rows.jsonl"

    def written(prompt):  # more than is read at once
        lines = (json.dumps(row) + "\n" for row in rows_of(2000, f"{prompt} {{}} {'x' * 300}"))
        rows.write_text("".join(lines))

    written("row")
    backend = Counted()

    def change(event):
        if event.progress.done == 1:
            written("abc")

    with pytest.raises(
        UsageError, match=r"has changed since the rows were checked; the results so far"
    ):
        await sv.batch(rows, out, pipeline_of(backend), on_event=change, task_limit=2)
    assert 0 < status(out).valid < 2000
    assert not [prompt for prompt in backend.asked if prompt.startswith("abc")]
    assert (await sv.batch(rows, out, pipeline_of(backend))).in_all.valid == 2000


async def test_what_is_no_longer_there_is_not_called_done(out, tmp_path):
    rows = tmp_path / "rows.jsonl"
    lines = [json.dumps({"prompt": f"row {n} {'x' * 500}"}) + "\n" for n in range(1000)]
    rows.write_text("".join(lines))

    is_cut = asyncio.Event()

    def cut(event):
        os.truncate(rows, len("".join(lines[:600])))
        is_cut.set()

    class Waits(Counted):
        """Answers the first rows, and the others once the file has been cut."""

        async def stream(self, request):
            if len(self.asked) > 100:
                await is_cut.wait()
            async for delta in super().stream(request):
                yield delta

    with pytest.raises(UsageError, match=r"\d+ rows are no longer there since they were checked"):
        await sv.batch(rows, out, pipeline_of(Waits()), on_event=cut, task_limit=2)
    assert status(out).valid >= 600


async def test_rows_that_come_once_keep_their_results_and_their_budget(out):
    backend = Counted()
    for spent in (30, 30, 30):
        result = await sv.batch(
            iter(rows_of(100)), out, pipeline_of(backend), token_budget=30, task_limit=1
        )
        assert (result.ended, result.in_all.tokens) == ("tokens", spent)
    result = await sv.batch(iter(rows_of(100)), out, pipeline_of(backend))
    assert (result.success, len(backend.asked)) == (True, 100)
    changed = [*rows_of(5), {"id": "r5", "prompt": "changed"}, *rows_of(100)[6:]]
    result = await sv.batch(iter(changed), out, pipeline_of(backend), limit=1)
    assert result.this_time.earlier >= 99
    assert len(results_in(out)) == result.in_all.rows == 100
    assert status(out) == result.in_all


async def test_what_was_allowed_may_be_enough(out):
    result = await sv.batch(rows_of(3), out, pipeline_of(Counted()), token_budget=3, task_limit=1)
    assert (result.ended, result.success, result.in_all.tokens) == ("done", True, 3)


async def test_there_are_no_more_tasks_than_rows(out):
    made = pipeline_of(Counted())
    result = await asyncio.wait_for(sv.batch(rows_of(3), out, made, task_limit=10**7), 60)
    assert result.success


async def test_cancelled_at_any_moment_it_leaves_the_table_to_the_next_one(out):
    for turns in range(0, 60, 3):
        running = asyncio.ensure_future(sv.batch(rows_of(50), out, pipeline_of(Counted())))
        for _ in range(turns):
            await asyncio.sleep(0.0005)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        await sv.batch(rows_of(50), out, pipeline_of(Counted()), limit=1)


async def test_cancelled_while_it_closes_it_has_closed_afterwards(out, monkeypatch):
    closing = Table.close

    def slowly(table):
        running.get_loop().call_soon_threadsafe(running.cancel)
        time.sleep(0.1)
        closing(table)

    monkeypatch.setattr(Table, "close", slowly)
    running = asyncio.ensure_future(sv.batch(rows_of(2), out, pipeline_of(Counted())))
    with contextlib.suppress(asyncio.CancelledError):
        await running
    monkeypatch.undo()
    await sv.batch(rows_of(2), out, pipeline_of(Counted()))


async def test_who_watches_is_told_of_what_is_on_the_disk(out):
    told = []

    def watch(event):
        assert isinstance(event, RowEvent)
        told.append((json.loads(event.record)["id"], event.outcome, event.progress.done))
        assert status(out).done >= len(told)

    result = await sv.batch(rows_of(30), out, pipeline_of(Counted()), on_event=watch)
    assert [done for *_, done in told] == list(range(1, 31))
    assert {one for one, *_ in told} == {f"r{n}" for n in range(30)}
    assert result.this_time.total == 30

    def broken(event):
        raise KeyError("watch")

    with pytest.raises(KeyError):
        await sv.batch(rows_of(3), out.with_name("other"), pipeline_of(Counted()), on_event=broken)


async def test_a_slow_provider_is_an_event(out):
    refused = []

    def answer(prompt):
        if not refused:
            error = sv.errors.RateLimitError("too many")
            error.retry_after = 0.05
            refused.append(prompt)
            return error
        return "Fine."

    told = []
    result = await sv.batch(rows_of(5), out, pipeline_of(Counted(answer)), on_event=told.append)
    assert result.success
    (slowed,) = [event for event in told if isinstance(event, Slowed)]
    assert (slowed.pause, slowed.reason) == (0.05, "too many")


async def test_a_refused_key_ends_the_job_and_what_was_answered_is_kept(out):
    held = asyncio.Event()

    async def later():
        await held.wait()
        raise AuthenticationError("the key was refused")

    def answer(prompt):
        if prompt == "row 5":
            return later()
        if prompt == "row 9":
            held.set()
        return "Fine."

    with pytest.raises(AuthenticationError, match="the key was refused"):
        await sv.batch(rows_of(500), out, pipeline_of(Counted(answer)), task_limit=4)
    kept = status(out)
    assert kept.valid >= 8
    assert kept.errors == 0
    assert not out.exists()
    backend = Counted()
    assert (await sv.batch(rows_of(500), out, pipeline_of(backend))).success
    assert len(backend.asked) == 500 - kept.valid
    assert not list(out.parent.glob(".out*"))


async def test_bad_rows_are_named_before_anything_is_paid(out, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": 1, "prompt": "Hi"}\n' * 3 + '{"prompt": "Hi"}\n')
    backend = Counted()
    with pytest.raises(UsageError, match="rows 1 and 2 have the same id, 1"):
        await sv.batch(rows, out, pipeline_of(backend))
    rows.write_text('{"id": 1, "prompt": "Hi"}\n' * 1 + '{"text": "Hi"}\n')
    with pytest.raises(UsageError, match="line 2: a row has a `prompt`"):
        await sv.batch(rows, out, pipeline_of(backend))
    assert backend.asked == []
    rows.write_text('{"id": 1, "prompt": "Hi"}\n')
    assert (await sv.batch(rows, out, pipeline_of(backend))).success


async def test_rows_that_change_are_answered_anew_and_rows_that_go_are_left_out(out, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in rows_of(4)))
    backend = Counted()
    await sv.batch(rows, out, pipeline_of(backend))
    changed = [*rows_of(4)[2:], {"id": "r0", "prompt": "another"}, {"id": "new", "prompt": "new"}]
    rows.write_text("".join(json.dumps(row) + "\n" for row in changed))
    backend.asked.clear()
    result = await sv.batch(rows, out, pipeline_of(backend))
    assert backend.asked == ["another", "new"]
    assert [one["id"] for one in results_in(out)] == ["r2", "r3", "r0", "new"]
    assert (result.in_all.rows, result.in_all.valid) == (4, 4)


async def test_another_pipeline_is_refused_before_anything_is_paid(out):
    await sv.batch(rows_of(2), out, sv.Pipeline(sv.ScriptedBackend("Fine.")))
    other = sv.Pipeline(Counted())
    with pytest.raises(UsageError, match=r"the pipeline has changed .*\(the backend was"):
        await sv.batch(rows_of(2), out, other)
    assert [one["text"] for one in results_in(out)] == ["Fine.", "Fine."]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"task_limit": 0}, "task_limit must be a whole number of at least 1, not 0"),
        ({"limit": -1}, "limit must be"),
        ({"max_failures": 1.5}, "max_failures must be"),
        ({"token_budget": "9"}, "token_budget must be"),
        ({"limit": True}, "limit must be"),
        ({"on_event": asyncio.sleep}, "on_event must be a plain function"),
        ({"pipeline": pipeline_of}, "pipeline must be a Pipeline, not function"),
    ],
)
async def test_what_cannot_work_is_refused(out, options, says):
    with pytest.raises(UsageError, match=says):
        await sv.batch(rows_of(2), out, **{"pipeline": pipeline_of(Counted()), **options})
    assert list(out.parent.iterdir()) == []


async def test_stopping_lets_rows_under_way_end(out):
    release = asyncio.Event()

    async def held():
        await release.wait()
        return "Fine."

    backend = Counted(lambda prompt: held())
    made = pipeline_of(backend)
    job = Job(rows_of(100), out, fingerprint(made), task_limit=8)
    running = asyncio.ensure_future(job.run(Answering(made)))
    while backend.now < 8:
        await asyncio.sleep(0.001)
    job.stop()
    release.set()
    result = await running
    assert result.ended == "stopped"
    assert 8 <= result.in_all.valid <= 9
    assert len(results_in(out)) == result.in_all.valid


async def test_a_cancelled_job_closes_its_backends_and_its_table(out):
    backend = Counted(lambda prompt: asyncio.sleep(60, "Fine."))
    running = asyncio.ensure_future(sv.batch(rows_of(100), out, pipeline_of(backend), task_limit=8))
    while backend.now < 8:
        await asyncio.sleep(0.001)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert backend.now == 0
    assert (await sv.batch(rows_of(100), out, pipeline_of(Counted()))).success


async def test_a_pipe_is_answered_while_it_speaks_and_can_be_stopped_while_it_says_nothing(
    out, monkeypatch
):
    reading, writing = os.pipe()
    with os.fdopen(reading) as file, os.fdopen(writing, "wb", buffering=0) as pipe:
        monkeypatch.setattr(sys, "stdin", file)
        told = asyncio.Event()
        made = pipeline_of(Counted())
        job = Job("-", out, fingerprint(made), on_event=lambda _: told.set())
        running = asyncio.ensure_future(job.run(Answering(made)))
        pipe.write(b'{"id": "a", "prompt": "one"}\n')
        await told.wait()
        job.stop()
        result = await running
    assert (result.ended, result.in_all.valid, result.this_time.total) == ("stopped", 1, None)
    assert [one["id"] for one in results_in(out)] == ["a"]


async def test_memory_does_not_grow_with_the_rows(out):
    """No more rows are there at once than are under way and wait to be written."""
    there = most = 0

    class Watched(dict):
        def __init__(self, number):
            nonlocal there, most
            super().__init__(prompt=f"row {number}")
            there += 1
            most = max(most, there)

        def __del__(self):
            nonlocal there
            there -= 1

    class Rows:
        def __iter__(self):
            return map(Watched, range(20_000))

    class At:
        ahead = 0

        async def answer(self, row):
            return Kept(row, "valid", 1, b'{"id": %d}' % row.id)

    result = await Job(Rows(), out, {}, task_limit=16).run(At())
    assert result.in_all.valid == 20_000
    assert most < 5_000
    assert len(out.read_bytes().splitlines()) == 20_000


@pytest.mark.parametrize(
    ("limits", "most"), [({}, 6), ({"token_budget": 10}, 4), ({"limit": 20}, 6)]
)
async def test_rows_wait_where_they_are_answered_unless_a_limit_ends_the_job(
    tmp_path, limits, most
):
    given = []

    class Elsewhere:
        ahead = 2

        def stop(self):
            raise AssertionError("nobody has stopped it")

        async def answer(self, row):
            given.append(row)
            at_once.append(len(given))
            await asyncio.sleep(0.01)
            given.remove(row)
            return Kept(row, "valid", 1, b'{"id": %d}' % row.id)

    at_once = []
    rows = [{"prompt": f"row {n}"} for n in range(30)]
    result = await Job(rows, tmp_path / "out.jsonl", {}, task_limit=4, **limits).run(Elsewhere())
    assert max(at_once) == most
    assert result.in_all.valid == len(at_once)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_job_that_is_killed_at_200_moments_has_one_result_a_row(tmp_path):
    command = [sys.executable, "-m", "tests.support.killed_job", str(tmp_path), "500", "200"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["wrong"], found["lives"]) == ([], 201)
    assert found["before_the_last"] > 0


def reporting(tokens):
    """A backend that reports these tokens, and then breaks off where the prompt says so."""

    async def said(request):
        yield sv.Delta("Fine.", usage=sv.types.Usage(1, tokens, source="backend"))
        if "break" in request.messages[-1].content:
            raise sv.errors.StreamBrokenError("gone")

    return sv.IterableBackend(said)


@pytest.mark.parametrize("tokens", [10**20, 2**62, -5, 2**63 - 1])
async def test_what_no_model_can_have_written_is_one_row_and_no_end(out, tokens):
    """10²⁰ tokens killed the job, which paid again at each start; 2⁶² made its status impossible."""
    made = pipeline_of(reporting(tokens))
    for _ in range(2):
        result = await sv.batch(rows_of(20), out, made)
        assert (result.success, result.in_all.valid) == (True, 20)
    assert status(out).tokens <= 20 * 2**40
    assert len(results_in(out)) == 20


class Unwritable(pydantic.BaseModel):
    name: str

    @pydantic.field_serializer("name")
    def broken(self, name):
        raise KeyError("of the user's own type")


async def test_a_parsed_value_that_cannot_be_written_is_a_row_with_an_error(out):
    """It ended the job at each start."""
    backend = Counted(lambda prompt: '{"name": "Rome"}')
    made = sv.Pipeline(backend, format=Unwritable)
    for _ in range(2):
        result = await sv.batch(rows_of(3), out, made)
    assert (result.in_all.errors, len(backend.asked)) == (3, 3)
    assert "of the user's own type" in results_in(out)[0]["error"]


async def test_rows_that_broke_off_count_for_the_budget(out):
    """40 rows of 5,000 tokens passed a budget of 1,000."""
    made = pipeline_of(reporting(5000))
    result = await sv.batch(rows_of(40, "break off"), out, made, token_budget=12_000, task_limit=1)
    assert (result.ended, result.in_all.errors, result.in_all.tokens) == ("tokens", 3, 15_000)


async def test_what_json_cannot_say_stays_as_text(out):
    rows = [{"id": 1, "prompt": "Hi", "score": math.nan, "most": math.inf}]
    await sv.batch(rows, out, pipeline_of(Counted()))
    (record,) = results_in(out)
    assert (record["score"], record["most"]) == ("NaN", "Infinity")


class Repaired(sv.Backend):
    """Breaks the rule, then is refused for a while, then goes on well."""

    model = "repaired"
    supports_prefix = True

    def __init__(self, refusals):
        self.refusals, self.asked = refusals, []

    async def stream(self, request):
        self.asked.append(request.prefix)
        if request.attempt == 1:
            yield "One is fine. Two is bad."
            return
        if self.refusals:
            self.refusals -= 1
            error = sv.errors.RateLimitError("too many")
            error.retry_after = 0.01
            raise error
        yield " Two is fine."


async def test_a_repair_that_is_refused_goes_on_where_it_was(out):
    """It began the row anew: 20 requests with 10 full generations, recorded as 0 tokens."""
    backend = Repaired(2)
    made = sv.Pipeline(
        backend, requirements=[sv.forbidden_words(["bad"])], retry=sv.Repair(loop_budget=2)
    )
    result = await sv.batch(rows_of(1), out, made)
    (record,) = results_in(out)
    assert (result.success, record["text"]) == (True, "One is fine. Two is fine.")
    assert backend.asked == [None] + ["One is fine."] * 3
    assert record["usage"]["completion_tokens"] > 0


async def test_a_repair_that_is_refused_for_good_is_an_error_that_counts(out, monkeypatch):
    monkeypatch.setattr(answering, "TRIES", 2)
    backend = Repaired(10**6)
    made = sv.Pipeline(
        backend, requirements=[sv.forbidden_words(["bad"])], retry=sv.Repair(loop_budget=2)
    )
    result = await sv.batch(rows_of(1), out, made)
    assert (result.in_all.errors, result.in_all.tokens > 0) == (1, True)
    assert backend.asked == [None, "One is fine.", "One is fine."]


async def test_a_row_whose_stream_breaks_off_is_resumed_and_its_tokens_are_counted(out):
    said = words("One is fine. Two is good. Three ends.")
    backend, spare = Breaking(said, [5]), Breaking(said)
    made = sv.Pipeline([backend, spare], retry=sv.Repair(loop_budget=1))
    result = await sv.batch(rows_of(1), out, made)
    (record,) = results_in(out)
    assert (result.success, record["text"]) == (True, "One is fine. Two is good. Three ends.")
    assert record["attempts"] == 2
    assert record["usage"]["completion_tokens"] == len(said) + 3
    assert record["usage"]["discarded_tokens"] == 3
    assert len(spare.requests) == 0
