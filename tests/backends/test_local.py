"""Tests of `streamval.backends.local`."""

import asyncio
from pathlib import Path

import httpx
import pytest
from pydantic import BaseModel, Field

import streamval as sv
from streamval.backends.local import model_path
from streamval.errors import BackendError, UsageError
from streamval.requirements.judge import _say_that_it_cannot
from streamval.types.messages import Message


class City(BaseModel):
    name: str
    people: int = Field(ge=0)
    rivers: list[str] = []


@pytest.mark.local_model
async def test_the_embedded_model_writes_by_a_grammar(local_backend):
    pipeline = sv.Pipeline(local_backend, format=City)
    result = await pipeline.run("The city of Rome, as JSON:\n", max_tokens=120)
    assert isinstance(result.parsed, City) or "cut off at" in result.failures[0].reason


pytestmark = pytest.mark.local_model
PROMPT = "Facts about water:\n\nWater is"


def keyed(backend):
    return {"Authorization": f"Bearer {backend.key}"}


async def metric(backend, name):
    async with httpx.AsyncClient(headers=keyed(backend)) as client:
        lines = (await client.get(f"{await backend.address()}/metrics")).text.splitlines()
    return float(next(ln.split()[1] for ln in lines if ln.startswith(f"llamacpp:{name} ")))


async def idle(backend):
    async with asyncio.timeout(60):
        while await metric(backend, "requests_processing"):
            await asyncio.sleep(0.05)


async def test_it_is_seeded_and_counts_its_tokens(local_backend):
    pipeline = sv.Pipeline(local_backend, options={"max_tokens": 12})
    first, second = await pipeline.run(PROMPT), await pipeline.run(PROMPT)
    assert first.text == second.text != ""
    assert (first.usage.completion_tokens, first.usage.source) == (12, "backend")
    assert first.usage.prompt_tokens > 3


async def test_a_fail_stops_the_server_from_generating(local_backend):
    await idle(local_backend)
    before = await metric(local_backend, "tokens_predicted_total")
    first = sv.stream_check(lambda _: (False, "no"), "fails at once")
    result = await sv.Pipeline(
        local_backend, requirements=[first], options={"max_tokens": 400}
    ).run(PROMPT)
    await idle(local_backend)
    generated = await metric(local_backend, "tokens_predicted_total") - before
    assert not result.success
    assert generated < 60  # a sentence and what was on its way, of the 400 asked for


async def test_cancelling_the_task_stops_it_too(local_backend):
    before = await metric(local_backend, "tokens_predicted_total")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await sv.Pipeline(local_backend, options={"max_tokens": 2000}).run(PROMPT)
    await idle(local_backend)
    assert await metric(local_backend, "tokens_predicted_total") - before < 500


async def test_it_breaks_a_rule_is_cancelled_continues_and_finishes(local_backend):
    pipeline = sv.Pipeline(
        local_backend,
        requirements=[sv.requirements.NoRepetition()],
        retry=sv.Repair(loop_budget=4),
        options={"max_tokens": 60},
    )
    events = [event async for event in pipeline.start(PROMPT)]
    retries = [event for event in events if event.type == "retry"]
    assert retries[0].mode == "continue"
    assert retries[0].keep_chunks > 0
    assert "again" in retries[0].reason
    assert events[-1].success
    assert events[-1].usage.reused_tokens > 0
    first = [e.text for e in events if e.type == "chunk" and e.attempt == 1]
    assert all(text in events[-1].full_text for text in first)


async def test_it_judges_when_asked_as_a_plain_string_and_says_once_that_it_cannot(local_backend):
    _say_that_it_cannot.cache_clear()
    pipeline = sv.Pipeline(
        local_backend, requirements=["It is about water."], options={"max_tokens": 10}
    )
    with pytest.warns(UserWarning, match="gemma-3-270m is a model that cannot judge"):
        result = await pipeline.run(PROMPT)
    await pipeline.run(PROMPT)  # a second warning would be an error
    (verdict,) = result.validations
    assert isinstance(verdict.thunk.value, str)
    assert verdict.as_bool() is result.success


CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "My name is Ann."},
    {"role": "assistant", "content": "Hello, Ann."},
    {"role": "user", "content": "How many legs has a dog"},
]


@pytest.mark.parametrize("prompt", ["What is the capital of France?", CONVERSATION])
async def test_a_question_is_answered_and_not_repeated(local_backend, prompt):
    """It answered, and repeated the question until a rule failed."""
    result = await sv.Pipeline(local_backend).run(prompt)
    assert result.finish_reason == "stop"
    assert 0 < len(result.text) < 100
    assert "?" not in result.text
    assert "Question" not in result.text


async def test_an_answer_goes_on_where_it_was_cut_and_a_prompt_as_it_was_begun(local_backend):
    asked = (Message("user", "What is the capital of France?"),)
    request = sv.GenerationRequest(asked, "The capital of France is", options={"temperature": 0})
    written = "".join([delta.text async for delta in local_backend.stream(request)])
    assert "Paris" in written
    plain = sv.LocalBackend(chat=False, max_tokens=12)
    assert (await sv.Pipeline(plain).run("Who wrote Hamlet?")).finish_reason == "length"


async def test_what_the_server_refuses_is_a_clear_error(local_backend):
    with pytest.raises(BackendError, match="refused"):
        await sv.Pipeline(local_backend).run("word " * 6000)


def test_a_model_file_that_is_damaged_is_put_together_again(tmp_path, monkeypatch):
    # Not the one that a running server has mapped into its memory.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = model_path()
    good = path.read_bytes()
    path.write_bytes(good[:1000])
    assert model_path().read_bytes() == good


@pytest.mark.parametrize("bias", [{"255999": 100}, [[255_999, 100], [256_000, 100], [6, 100]]])
async def test_it_never_writes_a_special_token(local_backend, bias):
    result = await sv.Pipeline(local_backend).run(PROMPT, logit_bias=bias, max_tokens=8)
    assert result.text
    assert "<" not in result.text  # nothing of <start_of_image>, which the bias makes certain
    assert result.finish_reason == "length"


def test_misspelt_options_are_refused():
    with pytest.raises(UsageError, match="no option 'thread'; did you mean 'threads'"):
        sv.LocalBackend(thread=2)
    with pytest.raises(UsageError, match="did you mean 'temperature'"):
        sv.Pipeline(sv.LocalBackend()).start("go", temprature=3)


async def test_no_web_page_can_use_the_server(local_backend):
    """It took any Host, needed no key, and answered CORS with credentials."""
    address = await local_backend.address()
    origin = {"Origin": "https://evil.test"}
    body = {"prompt": "Water", "n_predict": 1}
    async with httpx.AsyncClient(base_url=address) as client:
        for path in ("/completion", "/v1/chat/completions", "/metrics", "/props", "/slots"):
            asked = client.post if path != "/metrics" else client.get
            kwargs = {"json": body} if path != "/metrics" else {}
            answer = await asked(path, headers=origin, **kwargs)
            assert answer.status_code == 401, path
            assert answer.headers.get("access-control-allow-origin") != "https://evil.test"
            assert answer.headers.get("access-control-allow-credentials") != "true"
        said = await client.post(
            "/completion", headers={**origin, **keyed(local_backend)}, json=body
        )
        assert said.status_code == 200
    processes = Path("/proc").glob("[0-9]*/cmdline")
    lines = [path.read_bytes() for path in processes if path.exists()]
    assert not any(local_backend.key.encode() in line for line in lines)


@pytest.mark.parametrize("bias", [[1], 5, [[1]], {"a": "b"}, [[1, None]]])
def test_a_logit_bias_of_another_shape_is_refused(local_backend, bias):
    """A client of the gateway got a 500."""
    with pytest.raises(UsageError, match="logit_bias must be"):
        local_backend.check_options({"logit_bias": bias})
