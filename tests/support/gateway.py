"""A gateway on a real socket, before an upstream."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext

import openai

from streamval.serve.config_file import parse_configuration
from streamval.serve.gateway import Gateway
from streamval.serve.server import Server, config_for, listen

ASK = [{"role": "user", "content": "Say it."}]

FILE = """
upstreams:
  main: {{model: openai/m, api_base: "{url}", api_key: sk-of-the-upstream, stall_timeout: 30}}
  goes_on: {{model: openai/m, api_base: "{url}", continues: message}}
models:
  plain: {{upstream: main}}
  judged: {{upstream: main, requirements: [{{forbidden_words: [forbidden]}}]}}
  careful:
    upstream: goes_on
    requirements: [{{forbidden_words: [forbidden]}}]
    repair: {{loop_budget: 3}}
  whole:
    upstream: main
    requirements: [{{forbidden_words: [forbidden]}}]
    repair: {{loop_budget: 2}}
    release: all
  strict:
    upstream: main
    requirements: [{{forbidden_words: [forbidden]}}]
    on_failure: error
server: {{port: 0{server}}}
"""


@asynccontextmanager
async def gateway(url, *, server="", file=FILE):
    """A running gateway; `url` is its address, `server` what is added to the file's server settings."""
    configuration = parse_configuration(file.format(url=url, server=server), "test.yaml", {})
    made = Gateway(configuration)
    listening = listen("127.0.0.1", 0, configuration.server.ping_seconds)
    serving = Server(made, config_for(made.app, configuration))
    serving.capture_signals = nullcontext
    task = asyncio.ensure_future(serving.serve([listening]))
    while not serving.started:
        await asyncio.sleep(0.005)
    made.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    made.server = serving
    try:
        yield made
    finally:
        serving.should_exit = True
        await task


def client_of(serving, key="x"):
    """OpenAI's own client of a gateway."""
    return openai.AsyncOpenAI(base_url=f"{serving.url}/v1", api_key=key, max_retries=0)


async def chat(client, model, **options):
    """Text, finish reason, refusal and usage of a streamed chat."""
    text, reason, refusal, usage = "", None, None, None
    stream = await client.chat.completions.create(
        model=model, messages=ASK, stream=True, stream_options={"include_usage": True}, **options
    )
    async for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            refusal = choice.delta.refusal or refusal
            reason = choice.finish_reason or reason
        usage = chunk.usage or usage
    return text, reason, refusal, usage
