"""Tests of `streamval.backends.litellm` with LiteLLM's own stream, around providers with other APIs."""

import asyncio
from datetime import datetime

import pytest

import streamval as sv
from streamval.backends.litellm import import_litellm
from streamval.errors import StreamBrokenError

pytestmark = [
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def answered_by(monkeypatch, provider, stream, *, late=False):
    """Let LiteLLM answer from a provider's stream, as it wraps it."""
    litellm = import_litellm()
    from litellm.litellm_core_utils.litellm_logging import Logging

    async def make_call(client=None):
        return stream

    async def acompletion(**_):
        logged = Logging(
            model="m",
            messages=[{"role": "user", "content": "x"}],
            stream=True,
            call_type="acompletion",
            start_time=datetime.now(),
            litellm_call_id="1",
            function_id="1",
        )
        logged.model_call_details |= {"custom_llm_provider": provider, "litellm_params": {}}
        logged.optional_params = {}
        return litellm.CustomStreamWrapper(
            completion_stream=None if late else stream,
            make_call=make_call if late else None,
            model="m",
            custom_llm_provider=provider,
            logging_obj=logged,
        )

    monkeypatch.setattr(litellm, "acompletion", acompletion)


async def gemini(*, cut):
    from litellm.types.utils import Delta, ModelResponseStream, StreamingChoices

    def piece(text, finish_reason=None):
        choice = StreamingChoices(
            index=0, delta=Delta(content=text, role="assistant"), finish_reason=finish_reason
        )
        return ModelResponseStream(choices=[choice], model="m")

    yield piece("Hello ")
    yield piece("world")
    if not cut:
        yield piece(None, "stop")


async def replicate():
    yield {"output": "Hello ", "status": "processing"}
    yield {"output": "world", "status": "succeeded"}


@pytest.mark.parametrize("cut", [False, True])
async def test_a_stream_that_is_made_late_and_then_cut_is_an_error(monkeypatch, cut):
    answered_by(monkeypatch, "vertex_ai_beta", gemini(cut=cut), late=True)
    run = sv.Pipeline(sv.LiteLLMBackend("gemini/gemini-2.0-flash", api_key="k")).start("go")
    if cut:
        with pytest.raises(StreamBrokenError, match="without a finish reason"):
            await run
    else:
        result = await run
        assert (result.success, result.text, result.finish_reason) == (True, "Hello world", "stop")
    await asyncio.sleep(0)


async def test_the_end_of_a_stream_in_another_format_is_found(monkeypatch):
    answered_by(monkeypatch, "replicate", replicate())
    result = await sv.Pipeline(sv.LiteLLMBackend("replicate/meta/llama", api_key="k")).run("go")
    assert (result.success, result.text) == (True, "Hello world")
