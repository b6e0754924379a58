"""Tests of reasoning and calls of tools, through the whole chain of a pipeline."""

import json

import pytest

import streamval as sv
from streamval.chunkers.tool import ToolChunk
from streamval.errors import UsageError
from streamval.testing import FaultyBackend, run_virtually
from streamval.types import Chunk, ToolCallDelta
from streamval.validation.release import ReleaseOrder
from streamval.validation.verdicts import Check
from tests.support.sources import Spoken

D = sv.Delta
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": CITY}}
SECRET = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"


def call(arguments='{"city": "Rome"}', name="weather", index=0):
    return D(tool_call=ToolCallDelta(index, f"c{index}", name, arguments))


async def events_of(script, **options):
    run = sv.Pipeline(FaultyBackend(*script), **options).start("Go.")
    events = []
    run.subscribe(events.append)
    return events, await run


async def test_everything_is_delivered_in_the_order_in_which_it_was_written():
    script = [D(reasoning="Let me see. Ro"), D(reasoning="me."), "I will ask. ", call(), "Done."]
    events, result = await events_of(script, tools=[TOOL])
    delivered = [
        (event.type, getattr(event, "text", None) or event.name)
        for event in events
        if event.type in ("chunk", "reasoning", "tool_call")
    ]
    assert delivered == [
        ("reasoning", "Let me see."),
        ("reasoning", "Rome."),
        ("chunk", "I will ask."),
        ("tool_call", "weather"),
        ("chunk", "Done."),
    ]
    assert (result.text, result.reasoning) == ("I will ask. Done.", "Let me see. Rome.")
    assert [(one.id, one.arguments) for one in result.tool_calls] == [("c0", {"city": "Rome"})]
    assert result.usage.reasoning_tokens == 2
    assert result.attempts[0].tool_calls == result.tool_calls
    assert result.message.as_dict()["tool_calls"][0]["function"]["name"] == "weather"


async def test_a_requirement_judges_the_text_and_no_other_channel():
    seen = []
    look = sv.stream_check(lambda text: seen.append(text) or True, "look")
    script = [D(reasoning="Hm."), "Yes.", call()]
    events, _ = await events_of(script, requirements=[look], tools=[TOOL])
    assert seen == ["Yes."]
    checks = [event for event in events if event.type == "quick_check"]
    assert [
        (one.channel, [r if r is None else r.success for r in one.results]) for one in checks
    ] == [
        ("reasoning", [None, None]),
        ("text", ["pass", None]),
        ("tool", [None, "pass"]),
        ("tool", [None, "unknown"]),
        ("tool", [None, "pass"]),
    ]
    seen.clear()
    await events_of(script, requirements=[look.on("reasoning", "tool")], tools=[TOOL])
    assert seen == ["Hm.", "weather", "city", "Rome"]


async def test_each_channel_has_a_clone_and_a_state_of_its_own():
    limit = sv.word_limit(at_most=3).on("text", "reasoning")
    script = [D(reasoning="One two three."), "One two three.", D(reasoning=" Four.")]
    _, result = await events_of(script, requirements=[limit])
    (failure,) = result.failures
    assert (failure.channel, failure.lane, result.text) == ("reasoning", 0, "One two three.")


@pytest.mark.parametrize("channels", [(), ("speech",), ("text", "speech")])
def test_channels_that_are_none_are_refused(channels):
    with pytest.raises(UsageError, match="channels are 'text', 'reasoning' and 'tool'"):
        sv.no_loop().on(*channels)


PLANTED = [
    ("a word in the reasoning", [D(reasoning="Hm. I think Acme is it. So.")], "reasoning"),
    ("a word in the text", ["Hm. I think Acme is it. So."], "text"),
    ("a word in a value", [call('{"city": "in \\u0041cme town"}')], "tool"),
    ("a word in a key", [call('{"city": "x", "acme": 1}')], "tool"),
    ("a name", [call(name="acme")], "tool"),
    ("another tool", [call(name="nothing")], "tool"),
    ("a wrong type", [call('{"city": 5}')], "tool"),
    ("a missing argument", [call('{"town": "Rome"}')], "tool"),
    ("no arguments", [call("")], "tool"),
    ("a key twice", [call('{"city": "Rome", "city": "Oslo"}')], "tool"),
    ("a secret in the reasoning", [D(reasoning=f"The key is {SECRET} here.")], "reasoning"),
    ("a secret in an argument", [call(json.dumps({"city": f"at {SECRET} st"}))], "tool"),
    ("a loop", [D(reasoning="I go round and round. " * 9)], "reasoning"),
    ("too much of it", [D(reasoning="hm " * 60)], "reasoning"),
]


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize(("script", "channel"), [pytest.param(s, c, id=n) for n, s, c in PLANTED])
async def test_nothing_of_a_planted_fault_is_delivered_and_the_model_is_closed(
    script, channel, size
):
    rules = [
        sv.forbidden_words(["acme"]),
        sv.no_secrets(),
        sv.no_loop().on("reasoning"),
        sv.reasoning_limit(50),
    ]
    good = (D(reasoning="Let me see."), "Fine.", call())
    scripted = sv.ScriptedBackend(
        [(*script, "And more.", D(reasoning="More.")), good], token_size=size
    )
    closed = []

    class Watched(sv.Backend):
        model = "watched"

        async def stream(self, request):
            try:
                async for delta in scripted.stream(request):
                    yield delta
            except GeneratorExit:
                closed.append(request.attempt)
                raise

    pipeline = sv.Pipeline(
        Watched(), requirements=rules, tools=[TOOL], retry=sv.Repair(loop_budget=2)
    )
    run = pipeline.start("Go.")
    events = []
    run.subscribe(events.append)
    result = await run
    first = [event for event in events if event.attempt == 1]
    said = "".join(
        event.model_dump_json()
        for event in first
        if event.type in ("chunk", "reasoning", "tool_call")
    )
    assert "acme" not in said.lower()
    assert SECRET not in said
    assert '"tool_call"' not in said
    assert result.attempts[0].failures[0].channel == channel
    if size < 1000:
        assert closed == [1]
    assert result.success
    assert (result.text, result.reasoning) == ("Fine.", "Let me see.")
    assert [one.name for one in result.tool_calls] == ["weather"]


async def test_a_repair_says_which_argument_was_wrong():
    backend = FaultyBackend([call('{"town": "Rome"}')], [call()])
    result = await sv.Pipeline(backend, tools=[TOOL], retry=sv.Repair()).run("Go.")
    assert result.success
    words, _ = backend.requests[1].messages
    assert "a call of weather: $.city: it is missing" in words.content
    assert backend.requests[1].tools == (TOOL,)


async def test_several_calls_at_once_are_judged_each_by_its_own_schema():
    both = [call(index=0), call('{"city": "Oslo"}', index=1)]
    mixed = [
        D(tool_call=ToolCallDelta(0, "c0", "weather", '{"city": ')),
        D(tool_call=ToolCallDelta(1, "c1", "weather", '{"city": ')),
        D(tool_call=ToolCallDelta(0, arguments='"Rome"}')),
        D(tool_call=ToolCallDelta(1, arguments='"Oslo"}')),
    ]
    for script in (both, mixed):
        _, result = await events_of(script, tools=[TOOL])
        assert [one.arguments["city"] for one in result.tool_calls] == ["Rome", "Oslo"]
    _, result = await events_of([call(), call("{}", index=1)], tools=[TOOL])
    assert not result.success
    assert [one.index for one in result.tool_calls] == [0]


async def test_without_tools_a_call_fails():
    _, result = await events_of(["Well. ", call(), "More."])
    assert (result.text, result.tool_calls) == ("Well.", ())
    assert "no tools were offered" in str(result.failures[0])


async def test_tools_may_come_with_the_run():
    backend = FaultyBackend(call())
    pipeline = sv.Pipeline(backend)
    result = await pipeline.run("Go.", tools=[TOOL], tool_choice="required")
    assert result.success
    assert (backend.requests[0].tools, backend.requests[0].tool_choice) == ((TOOL,), "required")
    assert "tools" not in backend.requests[0].options


async def test_an_answer_of_calls_alone_is_not_judged_as_text():
    rules = [sv.word_limit(at_least=3), sv.Requirement("ends well", lambda ctx: False)]
    _, result = await events_of([call()], requirements=rules, tools=[TOOL], format=int)
    assert result.success
    assert result.parsed is None


async def test_a_rule_on_calls_that_judges_only_the_whole_holds_them_to_the_end():
    whole = sv.Requirement("no Rome", lambda ctx: "Rome" not in str(ctx.last_output())).on("tool")
    _, result = await events_of([call()], requirements=[whole], tools=[TOOL])
    assert not result.success
    assert (result.failures[0].channel, result.failures[0].requirement) == ("tool", "no Rome")


# Reasoning


async def test_reasoning_that_is_dropped_is_judged_by_the_rules_that_ask_for_it():
    script = [D(reasoning=f"I know Acme. {'So I go round. ' * 9}"), "Yes."]
    acme = sv.forbidden_words(["acme"])
    events, result = await events_of(script, requirements=[acme], reasoning="drop")
    assert (result.success, result.reasoning, result.text) == (True, "", "Yes.")
    assert "reasoning" not in {event.type for event in events}
    assert result.usage.reasoning_tokens == 1
    loop = sv.no_loop().on("reasoning")
    events, result = await events_of(script, requirements=[loop], reasoning="drop")
    assert result.failures[0].channel == "reasoning"
    assert "reasoning" not in {event.type for event in events}


TAGS = ("<think>", "</think>")


async def test_good_thinking_is_kept_and_closed_where_the_backend_can_continue():
    backend = Spoken(
        ["<thi", "nk>Let me see. ", "I go round. " * 9, "</think>Never said."],
        ["It rains. ", "Really."],
        supports_prefix=True,
    )
    backend.reasoning_tags = TAGS
    run = sv.Pipeline(
        backend, requirements=[sv.no_loop().on("reasoning")], retry=sv.Repair()
    ).start("Weather?")
    events = []
    run.subscribe(events.append)
    result = await run
    assert result.success
    assert result.text == "It rains. Really."
    assert result.reasoning.startswith("Let me see. I go round.")
    (retry,) = [event for event in events if event.type == "retry"]
    assert (retry.mode, retry.keep_chunks) == ("continue", 0)
    thoughts = [event for event in events if event.type == "reasoning"]
    assert retry.keep_reasoning == len(thoughts) > 1
    kept = backend.requests[1].prefix
    assert kept == f"<think>{result.reasoning}</think>\n\n"
    assert result.usage.reused_tokens > 0


async def test_a_prompt_that_opens_the_thinking_is_answered_once_that_is_closed():
    """The opening tag is empty: the output begins with reasoning, but not behind reasoning that is over."""
    backend = Spoken(
        ["Let me see. ", "I go round. " * 9, "</think>Never said."],
        [" \n", "It rains."],
        supports_prefix=True,
    )
    backend.reasoning_tags = ("", "</think>")
    rules = [sv.no_loop().on("reasoning")]
    pipeline = sv.Pipeline(backend, requirements=rules, retry=sv.Repair())
    result = await pipeline.run("Weather?")
    assert (result.success, result.text) == (True, "It rains.")
    assert backend.requests[1].prefix == f"{result.reasoning}</think>\n\n"


@pytest.mark.parametrize("chunking", ["sentence", "json", "paragraph", "markdown"])
async def test_a_loop_in_a_thought_that_never_ends_is_cut(chunking):
    backend = FaultyBackend([D(reasoning="and round ")] * 5_000)
    rules = [sv.no_loop().on("reasoning")]
    result = await sv.Pipeline(backend, requirements=rules, chunking=chunking).run("Go.")
    assert "round and" in str(result.failures[0])
    assert result.usage.completion_tokens < 200


async def test_elsewhere_reasoning_that_failed_restarts_and_the_event_says_so():
    loop = D(reasoning="I go round. " * 9)
    backend = FaultyBackend([D(reasoning="Well. "), loop], [D(reasoning="Hm."), "Yes."])
    backend.supports_prefix = True  # of text, but no tags are known
    pipeline = sv.Pipeline(backend, requirements=[sv.no_loop().on("reasoning")], retry=sv.Repair())
    run = pipeline.start("Go.")
    events = []
    run.subscribe(events.append)
    result = await run
    (retry,) = [event for event in events if event.type == "retry"]
    assert (retry.mode, retry.keep_reasoning) == ("restart", 0)
    assert (result.text, result.reasoning) == ("Yes.", "Hm.")


@pytest.mark.parametrize("tags", [None, TAGS])
async def test_text_that_failed_keeps_the_reasoning_only_where_it_can_be_continued(tags):
    calm = sv.stream_check(lambda text: not text.endswith("!"), "stay calm")
    thought = "<think>Hm.</think>" if tags else D(reasoning="Hm.")
    backend = FaultyBackend([thought, "One. ", "Two! "], [" Two."], supports_prefix=True)
    backend.reasoning_tags = tags
    result = await sv.Pipeline(backend, requirements=[calm], retry=sv.Repair()).run("Count.")
    assert (result.success, result.text) == (True, "One. Two.")
    assert result.reasoning == ("Hm." if tags else "")
    assert backend.requests[1].prefix == ("<think>Hm.</think>\n\nOne." if tags else "One.")


async def test_a_call_that_failed_keeps_the_text_and_no_call():
    backend = FaultyBackend(
        ["I will ask. ", call(), call("{}", index=1)],
        [" Both.", call(), call('{"city": "Oslo"}', index=1)],
        supports_prefix=True,
    )
    run = sv.Pipeline(backend, tools=[TOOL], retry=sv.Repair()).start("Go.")
    events = []
    run.subscribe(events.append)
    result = await run
    assert (result.success, result.text) == (True, "I will ask. Both.")
    assert [one.arguments["city"] for one in result.tool_calls] == ["Rome", "Oslo"]
    assert backend.requests[1].prefix == "I will ask."


def test_a_silence_ends_although_the_model_has_thought():
    backend = FaultyBackend(D(reasoning="Hm."), 500, "Yes.")
    pipeline = sv.Pipeline(backend, stall_timeout=60)
    with pytest.raises(sv.errors.StallError):
        run_virtually(pipeline.run("Go."))


async def test_half_a_surrogate_pair_in_reasoning_is_replaced():
    events, result = await events_of([D(reasoning="Hm \ud83d"), D(reasoning="\ude00 \ud83d"), "x"])
    assert result.reasoning == "Hm \U0001f600 \ufffd"
    for event in events:
        assert sv.EventAdapter.validate_json(sv.EventAdapter.dump_json(event)) == event


async def test_operators_on_deltas_and_chunks_see_the_text_alone():
    from reactivex import operators as ops

    script = [D(reasoning="hm."), D("yes. ", reasoning="so."), call(), "no."]
    _, result = await events_of(
        script,
        tools=[TOOL],
        delta_operators=[ops.map(str.upper)],
        chunk_operators=[sv.operators.rewrite(lambda text: f"<{text}>")],
    )
    assert (result.text, result.reasoning) == ("<YES.> <NO.>", "hm.so.")
    assert result.tool_calls[0].arguments == {"city": "Rome"}


async def test_a_chain_by_hand_takes_deltas_of_all_channels():
    import reactivex

    from streamval.operators import chunk, release, validate

    deltas = reactivex.of(D(reasoning="Hm."), "Yes. ", call(), "No.")
    tools = sv.requirements.ToolCalls(sv.structured.tools.as_tools([TOOL]))
    released = deltas.pipe(chunk(tools=["weather"]), validate([tools]), release())
    found = [one async for one in sv.bridge.iterate(released)]
    assert [(one.channel, one.text) for one in found] == [
        ("reasoning", "Hm."),
        ("text", "Yes."),
        ("tool", "weather"),
        ("tool", '{"city": "Rome"}'),
        ("tool", "\n"),
        ("text", "No."),
    ]


def test_a_call_waits_for_text_that_is_held_and_text_for_no_other_channel():
    order = ReleaseOrder()
    text, thought = Chunk("One", 0, 0, 3), Chunk("Hm", 0, 0, 2, channel="reasoning")
    name = ToolChunk("now", 0, 0, 3, part="name", name="now")
    assert order.check(Check(text, "unknown", covered=0)) == []
    assert order.check(Check(thought, "unknown", covered=0)) == []
    assert order.check(Check(name, "pass")) == []
    more = Chunk("Two", 1, 3, 6)
    assert order.check(Check(more, "pass", covered=6)) == [text, more]
    assert order.check(Check(None, "pass")) == [thought, name]


async def test_a_recorded_run_is_replayed_on_all_channels(tmp_path):
    path = tmp_path / "run.jsonl"
    script = [D(reasoning="Hm. So"), "Well. ", call('{"city": "Rome"}'), call("{}", index=1)]
    for tokens in (True, False):
        run = sv.Pipeline(FaultyBackend(*script), tools=[TOOL], emit_tokens=tokens).start("Go.")
        with path.open("w") as file:
            run.subscribe(lambda event, to=file: to.write(event.model_dump_json() + "\n"))
            first = await run
        again = await sv.Pipeline(sv.ReplayBackend(path, speed=None), tools=[TOOL]).run("Go.")
        assert (again.text, again.reasoning) == (first.text, first.reasoning)
        assert again.tool_calls == first.tool_calls
        assert again.success is not tokens  # without tokens, only what was delivered is known


# What is cut by another channel, or sent in a form of its own

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.mark.parametrize("at", [4, 14, 30])
@pytest.mark.parametrize("between", [D(reasoning="Hm"), D(reasoning=" "), call()])
@pytest.mark.parametrize("chunking", ["sentence", "word", None])
async def test_a_key_or_a_word_that_another_channel_cuts_is_not_delivered(chunking, between, at):
    for rule, word in ((sv.no_secrets(), KEY), (sv.forbidden_words([KEY]), KEY)):
        backend = FaultyBackend(["It is " + word[:at], between, word[at:] + " now. ", "More."])
        pipeline = sv.Pipeline(backend, requirements=[rule], chunking=chunking, tools=[TOOL])
        result = await pipeline.run("Go.")
        assert not result.success
        assert word[:at] not in result.text


@pytest.mark.parametrize("at", [4, 14, 30])
@pytest.mark.parametrize("between", ["Hm. ", " ", call()])
@pytest.mark.parametrize("chunking", ["sentence", "word", None])
async def test_a_key_or_a_word_of_reasoning_that_another_channel_cuts_is_not_delivered(
    chunking, between, at
):
    for rule in (sv.no_secrets(), sv.forbidden_words([KEY])):
        backend = FaultyBackend([D(reasoning=f"It is {KEY[:at]}"), between, D(reasoning=KEY[at:])])
        pipeline = sv.Pipeline(backend, requirements=[rule], chunking=chunking, tools=[TOOL])
        events = []
        run = pipeline.start("Go.")
        run.subscribe(events.append)
        result = await run
        assert not result.success
        thought = "".join(one.separator + one.text for one in events if one.type == "reasoning")
        assert KEY[:at] not in thought
        assert not any(one.type == "tool_call" for one in events)


async def test_only_the_last_word_of_a_thought_waits_and_only_if_it_may_go_on():
    thoughts = ["It rains", " now. And", " so\n"]
    script = [one for thought in thoughts for one in (D(reasoning=thought), "Yes. ")]
    events, result = await events_of(script, requirements=[sv.no_secrets()])
    said = [(one.type, one.text) for one in events if one.type in ("reasoning", "chunk")]
    assert said == [
        *(("reasoning", "It"), ("chunk", "Yes."), ("reasoning", "rains"), ("reasoning", "now.")),
        *(("chunk", "Yes."), ("reasoning", "And"), ("reasoning", "so"), ("chunk", "Yes.")),
    ]
    assert result.reasoning == "It rains now. And so"
    chunks = [one.chunk_index for one in events if one.type == "reasoning"]
    assert chunks == list(range(len(chunks)))


async def test_a_call_that_another_channel_interrupts_goes_on():
    script = [call('{"city": "Ro'), "Yes. ", D(tool_call=ToolCallDelta(0, arguments='me"}'))]
    events, result = await events_of(script, tools=[TOOL])
    assert [one.arguments for one in result.tool_calls] == [{"city": "Rome"}]
    assert [one.type for one in events if one.type in ("chunk", "tool_call")] == [
        "chunk",
        "tool_call",
    ]
    _, result = await events_of(script[:2], tools=[TOOL])
    assert (result.success, result.tool_calls) == (False, ())


@pytest.mark.parametrize("reasoning", ["deliver", "drop"])
async def test_signed_thinking_goes_back_if_its_text_was_judged_and_delivered(reasoning):
    signed = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    sealed = {"type": "redacted_thinking", "data": "x"}
    script = [D(reasoning="Hm."), D(opaque=signed), D(opaque=sealed), "Hi."]
    _, result = await events_of(script, reasoning=reasoning)
    assert result.opaque == ((signed, sealed) if reasoning == "deliver" else (sealed,))
    _, unread = await events_of([D(opaque=signed), "Hi."])
    assert unread.opaque == ()


@pytest.mark.parametrize("at", range(1, 14))
async def test_a_name_that_goes_on_behind_the_name_of_a_tool_is_no_call_of_that_tool(at):
    name = "weather_delete"
    pieces = [call("", name[:at]), D(tool_call=ToolCallDelta(0, name=name[at:], arguments="{}"))]
    backend = FaultyBackend(pieces)
    pipeline = sv.Pipeline(backend, tools=[TOOL])
    try:
        result = await pipeline.run("Go.")
    except sv.errors.StreamBrokenError:
        return
    assert not result.success
    assert result.tool_calls == ()


@pytest.mark.parametrize("given", ["c\ud800", "say it", "x" * 999, ""])
async def test_an_id_that_is_text_is_replaced(given):
    script = [D(tool_call=ToolCallDelta(0, given, "weather", '{"city": "Rome"}'))]
    events, result = await events_of(script, tools=[TOOL])
    assert result.success
    assert len(result.tool_calls[0].id) == 9
    assert all(sv.EventAdapter.dump_json(event) for event in events)


async def test_the_last_good_thought_is_delivered_although_a_rule_of_words_waits():
    script = [D(reasoning="A fine thought. "), D(reasoning="An acme thought. "), "Hi."]
    _, result = await events_of(script, requirements=[sv.forbidden_words(["acme"])])
    assert result.reasoning == "A fine thought."
