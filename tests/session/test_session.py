"""Tests of `streamval.session.session`."""

import asyncio
import threading

import pytest
from pydantic import BaseModel

import streamval as sv
from streamval.errors import StallError, StreamBrokenError, UsageError
from tests.support.sources import Judge, Spoken, fails_on, types


def asked(backend, attempt=0):
    return [turn.content for turn in backend.requests[attempt].messages]


async def test_the_instruction_says_what_is_required_but_not_what_is_only_checked():
    backend = Spoken("Dear Ann.")
    thunk = await sv.start_session(backend).ainstruct(
        "Write to {{name}}.",
        requirements=[
            sv.req("Greet {{name}}.", lambda ctx: True),
            sv.check("No elephants.", lambda ctx: True),
            Judge(description=None),
        ],
        user_variables={"name": "Ann"},
    )
    assert str(thunk) == "Dear Ann."
    assert asked(backend) == [
        "(The answer has to meet these requirements:\n- Greet Ann.)\n\nWrite to Ann."
    ]


async def test_filling_in_leaves_the_requirement_as_it_was():
    requirement = sv.req("Greet {{name}}.", lambda ctx: True)
    await sv.start_session(Spoken("x")).ainstruct(
        "Write.", requirements=[requirement], user_variables={"name": "Ann"}
    )
    assert requirement.description == "Greet {{name}}."


async def test_a_missing_variable_is_an_error_and_nothing_is_generated():
    backend = Spoken("x")
    with pytest.raises(UsageError, match="'name' is undefined"):
        await sv.start_session(backend).ainstruct("Write to {{name}}.", user_variables={"x": 1})
    assert backend.opened == 0


async def test_stream_instruct_gives_validated_chunks_with_the_retries_inside():
    backend = Spoken(["Good. ", "Bad. "], [" Fine. "], supports_prefix=True)
    m = sv.start_session(backend)
    run = m.stream_instruct(
        "Go.", requirements=[Judge(fails_on("Bad."))], strategy=sv.Repair(loop_budget=2)
    )
    assert [chunk.text async for chunk in run.chunks()] == ["Good.", "Fine."]
    assert str(m.ctx.last_output()) == "Good. Fine. "


async def test_stream_instruct_gives_events():
    run = sv.start_session(Spoken("One.")).stream_instruct("Go.")
    events = [event async for event in run]
    assert types(events) == ["started", "chunk", "streaming_done", "completed"]


async def test_without_a_strategy_there_is_one_attempt_judged_like_any():
    backend = Spoken("Bad. ")
    result = await sv.start_session(backend).ainstruct(
        "Go.", requirements=[Judge(fails_on("Bad."))], strategy=None, return_sampling_results=True
    )
    assert not result.success
    assert backend.opened == 1


async def test_the_schema_reaches_the_backend():
    class Answer(BaseModel):
        n: int

    backend = Spoken('{"n": 1}')
    await sv.start_session(backend).ainstruct("Go.", format=Answer, strategy=None)
    assert backend.requests[0].format is Answer


async def test_a_simple_context_forgets_and_a_chat_context_remembers():
    for ctx, seen in ((None, ["Two?"]), (sv.types.ChatContext(), ["One?", "x", "Two?"])):
        backend = Spoken("x")
        m = sv.start_session(backend, ctx)
        await m.ainstruct("One?")
        await m.achat("Two?")
        assert asked(backend, 1) == seen
        assert str(m.ctx.last_output()) == "x"


async def test_what_is_remembered_of_a_failure_is_what_is_returned():
    m = sv.start_session(Spoken(["Bad. Worse."], ["Bad. "]))
    thunk = await m.ainstruct("Go.", requirements=[Judge(fails_on("Bad."))])
    assert str(m.ctx.last_output()) == str(thunk) == "Bad. "


async def test_chat_gives_a_message():
    m = sv.start_session(Spoken("Hello."), sv.types.ChatContext())
    assert await m.achat("Hi") == sv.types.Message("assistant", "Hello.")


async def test_validate_judges_the_last_output_or_another():
    m = sv.start_session(Spoken("long enough"))
    short = sv.req("short", sv.simple_validate(lambda text: (len(text) < 5, f"{len(text)}")))
    with pytest.raises(UsageError, match="no output"):
        await m.avalidate([short])
    await m.ainstruct("Go.")
    assert [v.reason for v in await m.avalidate([short, "be kind"])] == [
        "11",
        "judged not to meet: be kind",
    ]
    assert (await m.avalidate(short, output="abc"))[0]
    thunk, _ = await m.backend.generate_from_context("go", sv.types.Context())
    assert not (await m.avalidate(short, output=thunk))[0]


async def test_what_a_backend_raises_reaches_the_caller():
    with pytest.raises(StreamBrokenError):
        await sv.start_session(Spoken("x", StreamBrokenError("gone"))).ainstruct("Go.")


async def test_stall_timeout_is_a_model_option():
    m = sv.start_session(Spoken("One ", asyncio.Event().wait))
    with pytest.raises(StallError):
        await m.ainstruct("Go.", model_options={"stall_timeout": 0.05})


def script():
    m = sv.start_session(Spoken("Hello."), sv.types.ChatContext())
    return str(m.instruct("Hi.")), m.chat("Again.").content, bool(m.validate(lowercase)[0])


lowercase = sv.req("lower case", sv.simple_validate(str.islower))


def test_sync_calls_in_a_script():
    assert script() == ("Hello.", "Hello.", False)


async def test_sync_calls_inside_a_running_loop_as_in_jupyter():
    assert script() == ("Hello.", "Hello.", False)


def test_what_a_sync_call_raises_is_the_exception_itself():
    error = StreamBrokenError("gone")
    with pytest.raises(StreamBrokenError) as raised:
        sv.start_session(Spoken(error)).instruct("Go.")
    assert raised.value is error


def test_interrupting_a_sync_call_cancels_the_work():
    import signal

    # A shell that runs the tests in the background has it ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    begun, closed = threading.Event(), threading.Event()

    async def forever():
        begun.set()
        await asyncio.Event().wait()

    async def closing():
        closed.set()

    def interrupt():
        begun.wait()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            sv.start_session(Spoken("One ", forever, closing=closing)).instruct("Go.")
    finally:
        signal.signal(signal.SIGINT, before)
    assert closed.wait(10)


def says_please(**options):
    return sv.stream_check(lambda text: ("please" in text, "no please"), "say please", **options)


async def test_validate_gives_the_same_verdict_each_time():
    m = sv.start_session(Spoken("x"))
    for requirement in (says_please(), sv.requirements.NoRepetition()):
        text = "It is rude. It is rude."
        verdicts = [bool((await m.avalidate(requirement, output=text))[0]) for _ in range(3)]
        assert verdicts == [False] * 3


async def test_a_run_that_breaks_leaves_no_empty_turn():
    m = sv.start_session(Spoken(sv.errors.StreamBrokenError("gone")), sv.types.ChatContext())
    with pytest.raises(sv.errors.StreamBrokenError):
        await m.stream_instruct("Go.")
    assert m.ctx.messages == ()


def test_act_and_instruct_take_a_block_as_it_is():
    backend = Spoken("Fine.")
    m = sv.start_session(backend)
    block = sv.types.CBlock("Say {{this}} as it is.")
    assert str(m.act(block)) == "Fine."
    assert m.act(block, return_sampling_results=True).value == "Fine."
    assert str(m.instruct(block, user_variables={"this": "that"})) == "Fine."
    assert {request.messages[-1].content for request in backend.requests} == {block.value}


def test_an_action_is_judged_without_its_requirements_in_the_prompt():
    backend = Spoken(["Bad!"], ["Good."])
    m = sv.start_session(backend)
    calm = sv.stream_check(lambda text: (not text.endswith("!"), "it shouts"), "stay calm")
    assert str(m.act("Say it.", requirements=[calm])) == "Good."
    assert backend.requests[0].messages[-1].content == "Say it."


def test_a_repair_of_an_instruction_says_what_failed_and_why():
    backend = Spoken(["Bad!"], ["Good."])
    m = sv.start_session(backend)
    calm = sv.stream_check(lambda text: (not text.endswith("!"), "it shouts"), "stay calm")
    assert str(m.instruct("Say it.", requirements=[calm])) == "Good."
    words, asked = m.last_prompt()
    assert words["role"] == asked["role"] == "user"
    assert "- stay calm: it shouts" in words["content"]
    assert asked["content"].endswith("Say it.")


def test_the_last_prompt_is_the_whole_conversation():
    m = sv.start_session(Spoken("Hello."), sv.types.ChatContext())
    assert m.last_prompt() is None
    m.chat("Hi.")
    m.chat("And now?")
    assert [turn["content"] for turn in m.last_prompt()] == ["Hi.", "Hello.", "And now?"]


def test_a_component_is_rendered_for_a_model():
    task = sv.types.Instruction("Write to {{name}}.", ["Be kind."], {"name": "Ann"})
    assert sv.types.render(task).endswith("Write to Ann.")
    assert sv.types.render(sv.types.CBlock("as it is")) == "as it is"
