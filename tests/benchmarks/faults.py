"""Counts what is left of an answer whose stream breaks: `make bench-faults`.

One server breaks its answers at every frame (closed, reset, closed within a frame, an error within the stream), stalls,
repeats itself, or answers 429, 500, 502, 503 and 529, in four protocols, with text, reasoning, calls of tools and JSON. A
request that goes on from a part of the answer, by a prefix or in words, gets the rest. Each contender asks the same
cases one after another:

- `streamval`: the gateway, with a rule, before a server that continues a prefix, and before one that is asked in words;
- `SDK`: OpenAI's and Anthropic's own packages, with their two retries;
- `LiteLLM`: its router with two deployments, two retries and a fallback (chat, without tools and reasoning beyond its own);
- `l0`: reliable-ai-streams-py, with two retries that go on from the last good token (chat, text).

Counted: answers that are complete; characters lost and doubled in the others and in these; characters delivered that no rule
has seen; frames that the server sent, beside those of the answers; seconds, beside an answer without a fault.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import time
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path

STALL_SECONDS = 0.5
CASE = re.compile(r"case (\d+)")
TOOL = {
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def asked(number):
    return [{"role": "user", "content": f"case {number}: say it."}]


class Got:
    """What a client has of an answer."""

    def __init__(self):
        self.text = self.thought = ""
        self.calls = {}
        self.ended = False

    def call(self, at, name="", arguments=""):
        known = self.calls.setdefault(at, ["", ""])
        known[0] += name or ""
        known[1] += arguments or ""

    def flat(self):
        calls = [f"{name}({arguments})" for name, arguments in self.calls.values()]
        return "\n".join([self.thought.strip(), self.text.rstrip(), *calls])


# What each contender does with a case


async def by_sdk(got, port, protocol, kind, number):
    """OpenAI's or Anthropic's package, with its two retries."""
    url = f"http://127.0.0.1:{port}/v1"
    if protocol == "messages":
        import anthropic

        more = {"tools": [{"name": "weather", "input_schema": TOOL["parameters"]}]}
        client = anthropic.AsyncAnthropic(
            base_url=url[:-3], api_key="x", timeout=STALL_SECONDS * 10
        )
        stream = await client.messages.create(
            model="m",
            max_tokens=99,
            messages=asked(number),
            stream=True,
            **(more if kind == "tools" else {}),
        )
        async for event in stream:
            note_message(got, event.model_dump())
        return
    import openai

    client = openai.AsyncOpenAI(base_url=url, api_key="x", timeout=STALL_SECONDS)
    more = {"tools": [{"type": "function", "function": TOOL}]} if kind == "tools" else {}
    if protocol == "responses":
        more = {"tools": [{"type": "function", **TOOL}]} if more else {}
        stream = await client.responses.create(model="m", input=asked(number), stream=True, **more)
        async for event in stream:
            note_response(got, event.model_dump())
    elif protocol == "text":
        stream = await client.completions.create(model="m", prompt=f"case {number}: ", stream=True)
        async for frame in stream:
            for choice in frame.choices:
                got.text += choice.text or ""
                got.ended = got.ended or choice.finish_reason is not None
    else:
        stream = await client.chat.completions.create(
            model="m", messages=asked(number), stream=True, **more
        )
        async for frame in stream:
            note_chat(got, frame.model_dump())


def note_chat(got, frame):
    for choice in frame.get("choices") or ():
        delta = choice["delta"]
        got.text += delta.get("content") or ""
        got.thought += delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls") or ():
            function = call.get("function") or {}
            got.call(call.get("index", 0), function.get("name"), function.get("arguments"))
        got.ended = got.ended or choice.get("finish_reason") is not None


def note_response(got, event):
    kind, at = event["type"], event.get("output_index")
    if kind == "response.output_text.delta":
        got.text += event["delta"]
    elif kind == "response.reasoning_summary_text.delta":
        got.thought += event["delta"]
    elif kind == "response.output_item.added" and event["item"]["type"] == "function_call":
        got.call(at, event["item"]["name"])
    elif kind == "response.function_call_arguments.delta":
        got.call(at, arguments=event["delta"])
    elif kind == "response.completed":
        got.ended = True


def note_message(got, event):
    if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
        got.call(event["index"], event["content_block"]["name"])
    elif event["type"] == "content_block_delta":
        delta = event["delta"]
        got.text += delta.get("text") or ""
        got.thought += delta.get("thinking") or ""
        if delta.get("partial_json"):
            got.call(event["index"], arguments=delta["partial_json"])
    elif event["type"] == "message_stop":
        got.ended = True


_ROUTERS = {}


async def by_litellm(got, port, protocol, kind, number):
    """LiteLLM's router: two deployments, two retries, a fallback from one to the other."""
    import litellm

    litellm.suppress_debug_info = True
    if port not in _ROUTERS:
        deployment = {
            "api_base": f"http://127.0.0.1:{port}/v1",
            "api_key": "x",
            "model": "openai/m",
        }
        _ROUTERS[port] = litellm.Router(
            model_list=[
                {"model_name": name, "litellm_params": {**deployment}} for name in ("main", "spare")
            ],
            fallbacks=[{"main": ["spare"]}],
            num_retries=2,
            retry_after=0,
            allowed_fails=100_000,
            stream_timeout=STALL_SECONDS,
        )
    more = {"tools": [{"type": "function", "function": TOOL}]} if kind == "tools" else {}
    stream = await _ROUTERS[port].acompletion(
        model="main", messages=asked(number), stream=True, timeout=STALL_SECONDS * 10, **more
    )
    async for frame in stream:
        note_chat(got, frame.model_dump())


async def by_gateway(got, port, protocol, kind, number):
    """A client of the gateway, in the upstream's own protocol where it has one."""
    import httpx

    turns = asked(number)
    path, body = {
        "chat": ("chat/completions", {"messages": turns}),
        "text": ("completions", {"prompt": f"case {number}: "}),
        "responses": ("responses", {"input": turns}),
        "messages": ("messages", {"messages": turns, "max_tokens": 99}),
    }[protocol]
    body |= {"model": "m", "stream": True}
    if kind == "tools":
        body["tools"] = {
            "chat": [{"type": "function", "function": TOOL}],
            "responses": [{"type": "function", **TOOL}],
            "messages": [{"name": "weather", "input_schema": TOOL["parameters"]}],
        }[protocol]
    note = {"responses": note_response, "messages": note_message}.get(protocol, note_chat)
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.post(f"http://127.0.0.1:{port}/v1/{path}", json=body)
    for line in answer.text.splitlines():
        if line.startswith("data: {"):
            frame = json.loads(line[6:])
            if protocol == "text":
                for choice in frame.get("choices") or ():
                    choice["delta"] = {"content": choice["text"]}
            note(got, frame)


async def by_l0(got, port, protocol, kind, number):
    """reliable-ai-streams-py: two retries, each from the last good token."""
    import l0
    import openai
    from l0.types import CheckIntervals

    class Plain:
        name = "plain"

        def detect(self, stream):
            return True

        async def wrap(self, stream, options=None):
            async for text in stream:
                yield l0.AdaptedEvent(
                    event=l0.Event(type=l0.EventType.TOKEN, text=text), raw_chunk=text
                )
            yield l0.AdaptedEvent(event=l0.Event(type=l0.EventType.COMPLETE))

    kept = ""
    client = openai.AsyncOpenAI(
        base_url=f"http://127.0.0.1:{port}/v1", api_key="x", timeout=STALL_SECONDS, max_retries=0
    )

    def prompt(text):
        nonlocal kept
        kept = text
        return text

    async def ask():
        turns = asked(number)
        if kept:
            turns += [
                {"role": "assistant", "content": kept},
                {"role": "user", "content": "Go on from its last words."},
            ]
        ended = False
        async for frame in await client.chat.completions.create(
            model="m", messages=turns, stream=True
        ):
            for choice in frame.choices:
                if choice.delta.content:
                    yield choice.delta.content
                ended = ended or choice.finish_reason is not None
        if not ended:
            raise ConnectionResetError("the stream broke off")

    async def stream():
        return ask()

    running = await l0.run(
        stream=stream,
        adapter=Plain(),
        check_intervals=CheckIntervals(guardrails=1, checkpoint=1),
        retry=l0.Retry(attempts=2, max_retries=2, base_delay=0.001),
        continue_from_last_good_token=True,
        build_continuation_prompt=prompt,
    )
    async for event in running:
        if event.is_token:
            got.text += event.text
        elif event.is_complete:
            got.ended = True


SIDES = {"SDK": by_sdk, "LiteLLM": by_litellm, "l0": by_l0, "streamval": by_gateway}


async def one(side, port, protocol, kind, number):
    """A case: what is delivered, and how long it took."""
    began, got = time.perf_counter(), Got()
    problem = ""
    try:
        await asyncio.wait_for(SIDES[side](got, port, protocol, kind, number), 90)
    except Exception as error:  # whatever it raises, its caller has what came before
        problem = f"{type(error).__name__}: {error}"
    return {
        "flat": got.flat(),
        "ended": got.ended,
        "problem": problem[:200],
        "seconds": time.perf_counter() - began,
    }


async def apart(side, port, cases):
    """In the environment of a peer: answers as lines of JSON."""
    for number, (protocol, kind) in cases:
        print(json.dumps(await one(side, port, protocol, kind, number)), flush=True)


# The server, and the table


def all_cases(protocol, frames, *, prefix):
    """Faults: for each request to the case in turn, a kind of fault and where."""
    ends = 2 if protocol in ("chat", "text") else 1
    faults = [
        [(fault, at)]
        for at in range(frames - ends)
        for fault in ("cut", "reset", "half", *(["error"] if protocol != "text" else []))
    ]
    faults += [[("stall", at)] for at in (0, frames // 3, 2 * frames // 3)]
    if not prefix:  # a chat repeats its last words; what continues a text does not
        faults += [[("repeat", at)] for at in (frames // 3, frames // 2, 2 * frames // 3)]
    faults += [[(status, 0)] for status in (429, 500, 502, 503, 529)]
    faults += [[("cut", frames // 2), (status, 0)] for status in (429, 503)]
    return [[], [], *faults]  # the first loads what is needed


class Recorder:
    """A rule that sees every chunk of one case after another."""

    def __init__(self):
        self.seen = []

    def __call__(self, text):
        self.seen.append(text)
        return True


RECORDER = Recorder()

GATEWAY = """
upstreams:
  main: {{model: %(model)s, api_base: "{url}", completion: %(protocol)s%(continues)s, stall_timeout: %(stall)s}}
models:
  m:
    upstream: [main, main]
    reasoning: deliver
    requirements: [{{"python": "tests.benchmarks.faults:RULE"}}]
    repair: {{loop_budget: 1, resume: 3}}
server: {{port: 0{server}}}
"""


def __getattr__(name):
    if name != "RULE":  # made where it is asked for: a peer's environment has no streamval
        raise AttributeError(name)
    import streamval as sv

    return sv.stream_check(RECORDER, "see it").on("text", "reasoning", "tool")


class Server:
    """Breaks answers by the number of the case in the prompt."""

    def __init__(self, protocol, kind, cases):
        from tests.support.faults import ANSWERS, frames_of

        self.protocol, self.said, self.cases = protocol, ANSWERS[kind], cases
        self.frames = frames_of(protocol, self.said)
        self.counts, self.sent = Counter(), Counter()

    def script(self, body, _):
        from tests.support.faults import FaultyServer, kept_in, text_of

        number = int(CASE.search(json.dumps(body))[1])
        faults, count = self.cases[number], self.counts[number]
        self.counts[number] += 1
        kind, at = faults[count] if count < len(faults) else (None, 0)
        server = FaultyServer(self.protocol, self.said, [(kind, at)] if kind else [])
        if faults and faults[0][0] == "repeat":
            server.faults = [("cut", at)] if kind else []
            server.repeats = True
        kept = kept_in(body, text_of(self.said))
        if not text_of(self.said).startswith(kept):
            return 400, "Content-Type: application/json", b'{"error": {"message": "not my answer"}}'
        answer = server.script(body, 0)
        self.sent[number] += server.tokens
        return answer


async def measure(side, protocol, kind, peer, ways):
    """Counts of a contender for one protocol and kind of answer."""
    from tests.benchmarks.faults import RECORDER as recorder  # noqa: N811  that of the rule: this is __main__
    from tests.support.faults import ANSWERS, frames_of
    from tests.support.gateway import gateway
    from tests.support.upstream import upstream

    frames = len(frames_of(protocol, ANSWERS[kind]))
    cases = all_cases(protocol, frames, prefix=bool(ways) or protocol == "text")
    server = Server(protocol, kind, cases)
    results, unjudged = [], 0
    async with upstream(server.script) as listening:
        port = int(listening.url.split(":")[2].split("/")[0])
        if side == "streamval":
            file = GATEWAY % {
                "model": "anthropic/m" if protocol == "messages" else "openai/m",
                "protocol": protocol,
                "continues": ways,
                "stall": STALL_SECONDS,
            }
            async with gateway(listening.url, file=file) as serving:
                own = int(serving.url.rsplit(":", 1)[1])
                for number in range(len(cases)):
                    recorder.seen.clear()
                    results.append(await one(side, own, protocol, kind, number))
                    judged = "".join("".join(recorder.seen).split())
                    shown = "".join(results[-1]["flat"].split())
                    if kind != "tools":
                        unjudged += 0 if shown in judged else len(shown) - same(shown, judged)
        elif peer is None:
            for number in range(len(cases)):
                results.append(await one(side, port, protocol, kind, number))
        else:
            numbered = [(number, (protocol, kind)) for number in range(len(cases))]
            done = await asyncio.create_subprocess_exec(
                peer,
                str(Path(__file__)),
                "--side",
                side,
                str(port),
                json.dumps(numbered),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            out, _ = await done.communicate()
            results = [json.loads(line) for line in out.splitlines()]
    whole = results[1]["flat"] if results else ""
    counts = Counter(unjudged=unjudged, frames=0, ideal=0)
    for number, result in enumerate(results):
        if number < 2:
            continue
        matched = same(whole, result["flat"])
        counts["cases"] += 1
        complete = result["ended"] and result["flat"] == whole
        counts["complete"] += complete
        if side == "streamval" and not complete:
            print("incomplete:", protocol, kind, cases[number], result, file=sys.stderr)
        counts["lost"] += len(whole) - matched
        counts["doubled"] += len(result["flat"]) - matched
        counts["frames"] += server.sent[number]
        counts["ideal"] += server.sent[1]
        counts["seconds"] += result["seconds"] - results[1]["seconds"]
    return counts


def same(one_text, other):
    """Characters that two texts have in common, in order."""
    blocks = SequenceMatcher(None, one_text, other, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks)


CONTENDERS = [
    ("streamval, prefix", "streamval", ", continues: message", {"chat", "text", "messages"}, None),
    ("streamval, asked", "streamval", "", {"chat", "responses", "messages"}, None),
    ("SDK retries", "SDK", "", {"chat", "text", "responses", "messages"}, None),
    ("LiteLLM router", "LiteLLM", "", {"chat"}, None),
    ("reliable-ai-streams", "l0", "", {"chat"}, {"text", "JSON"}),
]
KINDS = ("text", "reasoning", "tools", "JSON")


async def main(peers):
    rows = {}
    for name, side, ways, protocols, kinds in CONTENDERS:
        peer = peers.get("reliable-ai-streams-py") if side == "l0" else None
        if side == "l0" and peer is None:
            continue
        for protocol in ("chat", "text", "responses", "messages"):
            for kind in KINDS:
                if protocol not in protocols or (kinds and kind not in kinds):
                    continue
                if protocol == "text" and kind in ("reasoning", "tools"):
                    continue
                continues = "" if protocol == "text" else ways
                counts = await measure(side, protocol, kind, peer, continues)
                rows.setdefault((name, protocol), Counter()).update(counts)
                rows.setdefault((name, "all"), Counter()).update(counts)
                print(name, protocol, kind, dict(counts), file=sys.stderr, flush=True)
    print("| | protocol | cases | complete | lost | doubled | unjudged | frames | seconds added |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (name, protocol), one_row in rows.items():
        cases = one_row["cases"]
        unjudged = one_row["unjudged"] if name.startswith("streamval") else "all"
        print(
            f"| {name} | {protocol} | {cases} | {one_row['complete']} | {one_row['lost']} | "
            f"{one_row['doubled']} | {unjudged} | {one_row['frames'] / one_row['ideal']:.2f} | "
            f"{one_row['seconds'] / cases:.3f} |"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", nargs=3)
    parser.add_argument("--peer", action="append", default=[])
    given = parser.parse_args()
    if given.side:
        asyncio.run(apart(given.side[0], int(given.side[1]), json.loads(given.side[2])))
    else:
        asyncio.run(main(dict(one.split("=", 1) for one in given.peer)))
