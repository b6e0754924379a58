"""What clients see through a peer's library: run by `exposure.py` in an environment of the peer's own.

Needs nothing but the standard library and the peer. Reads from its input which cases to ask for, and which of them
are harmless; prints what was seen, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass


@dataclass
class Seen:
    """What a client saw of a case, as `streamval.exposure.client.Seen`."""

    text: str = ""
    first: float = 0.0
    seconds: float = 0.0
    end: str = "torn"


FORBIDDEN = ["acme", "globex", "initech", "hooli", "umbrella-corp", "soylent"]
PATTERNS = [
    r"(?i)\b(?:" + "|".join(FORBIDDEN) + r")\b",
    r"(?i)project x-[0-9]+",
    r"AKIA[0-9A-Z]{16}",
    r"ghp_[0-9A-Za-z]{36}",
    r"sk_live_[0-9A-Za-z]{24}",
    r"xoxb-[0-9]{10,}-[0-9]{10,}-[0-9A-Za-z]{20,}",
    r"\b(?:\d[ -]?){12,15}\d\b",
]
"""For a peer that takes patterns: the words, and what the gateway's ready rules look for."""


async def deltas(port, number, also=""):
    """What the upstream says; closing it closes the connection."""
    asked = {"role": "user", "content": f"case {number}{also}"}
    body = json.dumps({"messages": [asked], "stream": True}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    try:
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        async for line in reader:
            if line.startswith(b"data: {"):
                for choice in json.loads(line[6:])["choices"]:
                    if text := choice["delta"].get("content"):
                        yield text
    finally:
        writer.close()


async def by_stream_guard(ask, seen, note):
    """Forbidden words; it has nothing else."""
    from llm_stream_guard import BlockedEvent, DeltaEvent, StreamGuard

    async for event in StreamGuard(FORBIDDEN).wrap(ask()):
        if isinstance(event, DeltaEvent):
            note(event.text)
        elif isinstance(event, BlockedEvent):
            seen.end = "blocked"
            return
    seen.end = "stop"


async def by_tripwire(ask, seen, note):
    """Its detector that needs no key, as it comes."""
    from tripwire import Guard, HeuristicDetector

    async for chunk in Guard(HeuristicDetector()).supervise(ask(), user="case"):
        if chunk.type == "token":
            note(chunk.text)
        elif chunk.type == "intervention" and chunk.intervention.decision == "abort":
            seen.end = "blocked"
            return
    seen.end = "stop"


async def by_l0(ask, seen, note):
    """Its rules for patterns and repetitions after each token, and one more attempt from the last good one."""
    import l0
    from l0.guardrails import custom_pattern_rule, repetition_rule
    from l0.types import CheckIntervals

    class Plain:
        """Text as it comes."""

        name = "plain"

        def detect(self, stream):
            return True

        async def wrap(self, stream, options=None):
            async for text in stream:
                token = l0.Event(type=l0.EventType.TOKEN, text=text)
                yield l0.AdaptedEvent(event=token, raw_chunk=text)
            yield l0.AdaptedEvent(event=l0.Event(type=l0.EventType.COMPLETE))

    asked = 0

    async def stream():
        nonlocal asked
        asked += 1
        return ask("" if asked == 1 else ", and go on from there")

    rules = [custom_pattern_rule(PATTERNS), repetition_rule(sentence_repeat_count=2)]
    running = await l0.run(
        stream=stream,
        adapter=Plain(),
        guardrails=rules,
        check_intervals=CheckIntervals(guardrails=1, checkpoint=1),
        retry=l0.Retry(attempts=2, max_retries=2, base_delay=0.001),
        continue_from_last_good_token=True,
    )
    try:
        async for event in running:
            if event.is_token:
                note(event.text)
            elif event.is_error:
                seen.end = "error"
            elif event.is_complete:
                seen.end = "stop"
    except Exception:  # whatever it raises, a client sees an error
        seen.end = "error"


async def by_langchain(seen, note, port, number):
    """`PIIMiddleware` for what the model says, blocking, around an agent whose messages are streamed."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import PIIMiddleware
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(
        model="m", base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0
    )
    rules = {"credit_card": None, **{f"pattern_{n}": one for n, one in enumerate(PATTERNS[:-1])}}
    middleware = [
        PIIMiddleware(
            name, detector=pattern, strategy="block", apply_to_input=False, apply_to_output=True
        )
        for name, pattern in rules.items()
    ]
    agent = create_agent(model, tools=[], middleware=middleware)
    asked = {"messages": [{"role": "user", "content": f"case {number}"}]}
    try:
        async for message, _ in agent.astream(asked, stream_mode="messages"):
            if message.type == "AIMessageChunk" and isinstance(message.content, str):
                note(message.content)
    except Exception:  # whatever it raises, a client sees an error
        seen.end = "error"
    else:
        seen.end = "stop"


PEERS = {
    "llm-stream-guard": by_stream_guard,
    "tripwire-llm": by_tripwire,
    "reliable-ai-streams-py": by_l0,
}


async def one(peer, port, number):
    seen, began = Seen(), time.perf_counter()

    def note(text):
        seen.first = seen.first or time.perf_counter() - began
        seen.text += text

    sources = []

    def ask(also=""):
        sources.append(deltas(port, number, also))
        return sources[-1]

    try:
        if peer == "langchain":
            await by_langchain(seen, note, port, number)
        else:
            await PEERS[peer](ask, seen, note)
    finally:
        for source in sources:
            await source.aclose()
    seen.seconds = time.perf_counter() - began
    return seen


async def main(peer, port, cases):
    """Ten violations at a time, then one harmless text after the other, for their times."""
    together = asyncio.Semaphore(10)

    async def limited(number):
        async with together:
            return number, await one(peer, port, number)

    bad = await asyncio.gather(*(limited(number) for number, harmless in cases if not harmless))
    answers = bad + [await limited(number) for number, harmless in cases if harmless]
    print(json.dumps([[number, vars(seen)] for number, seen in answers]))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), json.load(sys.stdin)))
