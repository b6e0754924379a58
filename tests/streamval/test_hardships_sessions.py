"""What adversarial readers broke in sessions, judges, outputs and ready requirements, mended."""

import asyncio
import os
import threading
import time

import pytest

import streamval as sv
from streamval import requirements as reqs
from streamval.blocking import wait_for
from streamval.chunkers import FrameChunker
from streamval.errors import UsageError
from tests.support.sources import Spoken
from tests.support.voice import silence, sliced, speech


def says_please(**options):
    return sv.stream_check(lambda text: ("please" in text, "no please"), "say please", **options)


async def judged(requirement, text, chunking="sentence", size=3):
    backend = Spoken(*(text[n : n + size] for n in range(0, len(text), size)))
    return await sv.Pipeline(backend, requirements=[requirement], chunking=chunking).run("x")


# A requirement that keeps state is copied wherever it judges


async def test_validate_gives_the_same_verdict_each_time():
    m = sv.start_session(Spoken("x"))
    for requirement in (says_please(), sv.NoRepetition()):
        text = "It is rude. It is rude."
        verdicts = [bool((await m.avalidate(requirement, output=text))[0]) for _ in range(3)]
        assert verdicts == [False] * 3


@sv.generative
async def letter(name: str) -> str:
    """Write a letter."""


async def test_requirements_and_preconditions_of_a_generative_function_keep_nothing():
    requirement, precondition = says_please(), says_please()
    for _ in range(2):
        m = sv.start_session(Spoken('{"result": "rude"}'))
        with pytest.warns(UserWarning, match="no please"):
            await letter(m, name="Ann", requirements=[requirement])
        with pytest.raises(sv.PreconditionException):
            await letter(m, name="Ann", precondition_requirements=[precondition])


async def test_the_timeout_of_a_wrapped_requirement_holds():
    async def slowly(ctx):
        await asyncio.Event().wait()

    m = sv.start_session(Spoken('{"result": "rude"}'))
    with pytest.raises(TimeoutError):
        await letter(m, name="Ann", requirements=[sv.req("slow", slowly, timeout=0.05)])


async def test_a_rule_of_sound_starts_afresh_in_each_run():
    rule = reqs.no_silence(1.0)
    for sound in (speech(0.8) + silence(0.8), silence(0.4) + speech(0.8)):
        result = await sv.Pipeline(
            Spoken(*sliced(sound, 999)), requirements=[rule], chunking=FrameChunker(0.25)
        ).run("x")
        assert result.success, result.failures
    assert rule._silent == 0


# A strategy's requirements


async def test_a_pipeline_judges_by_the_requirements_of_its_repair():
    never = sv.req("never", lambda ctx: False)
    for strategy in (
        sv.RejectionSamplingStrategy(requirements=[never]),
        sv.Repair(requirements=[never]),
    ):
        assert not (await sv.Pipeline(Spoken("x"), retry=strategy).run("go")).success


async def test_those_of_a_generative_function_judge_the_result():
    three = sv.req("3 long", sv.simple_validate(lambda text: (len(text) == 3, f"it is {text!r}")))
    m = sv.start_session(Spoken('{"result": "abc"}'))
    strategy = sv.RejectionSamplingStrategy(requirements=[three])
    assert await letter(m, name="x", strategy=strategy) == "abc"


# Judges


async def test_what_is_checked_only_is_in_no_prompt_where_a_model_judges():
    for strategy in (sv.RepairTemplateStrategy(), sv.MultiTurnStrategy()):
        backend = Spoken("purple. ")
        await sv.start_session(backend).ainstruct(
            "Write.",
            requirements=[sv.check("No purple elephants.")],
            validation_backend=sv.IterableBackend(lambda prompt: ["No."]),
            strategy=strategy,
        )
        said = [turn.content for request in backend.requests for turn in request.messages]
        assert len(backend.requests) == 2
        assert not any("elephants" in content for content in said)


async def test_a_no_that_mentions_a_yes_is_a_no():
    judge = sv.IterableBackend(lambda prompt: ["No. I would say yes if it were kinder."])
    result = await sv.req("be kind").validate(judge, sv.Context().with_output("Go."))
    assert not result
    assert "kinder" in result.reason


async def test_a_judge_can_be_asked_about_a_lone_surrogate():
    judge = sv.IterableBackend(lambda prompt: ["yes"])
    assert await sv.req("be kind").validate(judge, sv.Context().with_output("a\ud800b"))


# Outputs on their way


async def thunk_of(*deltas):
    return (await Spoken(*deltas).generate_from_context("x", sv.SimpleContext()))[0]


async def test_a_consumer_that_never_took_a_step_takes_nothing():
    thunk = await thunk_of("One.")

    async def eat():
        async for _ in thunk.astream():
            pass

    task = asyncio.create_task(eat())
    task.cancel()
    await asyncio.wait([task])
    thunk.astream()  # dropped
    assert await thunk.avalue() == "One."


async def test_a_consumer_may_ask_for_the_value():
    thunk = await thunk_of(*(f"{n} " for n in range(300)))
    async for _ in thunk:
        assert (await thunk.avalue()).startswith("0 1 2")


async def test_one_who_stops_waiting_cuts_nobody_else_off():
    gate = asyncio.Event()
    thunk = await thunk_of("One ", gate.wait, "two.")
    first, second = (asyncio.create_task(thunk.avalue()) for _ in range(2))
    for _ in range(5):
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    gate.set()
    assert await second == "One two."
    assert not thunk.generation.cancelled


async def test_the_last_one_who_stops_waiting_closes_the_backend():
    backend = Spoken("One ", asyncio.Event().wait)
    thunk, _ = await backend.generate_from_context("x", sv.SimpleContext())
    waiting = asyncio.create_task(thunk.avalue())
    while not backend.said:
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert backend.closed == 1


# The loop that sync calls share


def test_sync_calls_from_many_threads_share_one_loop():
    loops, together = [], threading.Barrier(4)

    async def loop():
        return asyncio.get_running_loop()

    def call():
        together.wait()
        loops.append(wait_for(loop))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, loops))) == 1


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_child_of_a_fork_makes_sync_calls():
    wait_for(lambda: asyncio.sleep(0))
    child = os.fork()
    if child == 0:
        os._exit(0 if wait_for(lambda: asyncio.sleep(0, "done")) == "done" else 1)
    deadline = time.monotonic() + 30
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        assert time.monotonic() < deadline, "the child hangs"
        time.sleep(0.01)
    assert ended[1] == 0


# Templates


@pytest.mark.parametrize(
    ("template", "variables", "message"),
    [
        ("{{1/0}}", {}, "ZeroDivisionError"),
        ("{{n + 1}}", {"n": "x"}, "TypeError"),
        ("{{n}}", ["n"], "mapping of names"),
    ],
)
async def test_a_template_that_raises_is_wrong_use(template, variables, message):
    m = sv.start_session(Spoken("x"))
    with pytest.raises(UsageError, match=message):
        await m.ainstruct(template, user_variables=variables)


async def test_a_run_that_breaks_leaves_no_empty_turn():
    m = sv.start_session(Spoken(sv.errors.StreamBrokenError("gone")), sv.ChatContext())
    with pytest.raises(sv.errors.StreamBrokenError):
        await m.stream_instruct("Go.")
    assert m.ctx.messages == ()


# Leaks


@pytest.mark.parametrize("chunking", ["word", None, "sentence"])
@pytest.mark.parametrize(
    ("leak", "kind"),
    [
        ("4111 1111 1111 1111 123", "a payment card number"),
        ("4111111111111111 12/27 CVV 123", "a payment card number"),
        ("2 4111-1111-1111-1111", "a payment card number"),
        ("4111 1111 1111 1111 " + "7 " * 30, "a payment card number"),
        ("AB12 DE89 3704 0044 0532 0130 00", "an IBAN"),
    ],
)
async def test_a_number_beside_other_numbers_is_found(leak, kind, chunking):
    result = await judged(sv.no_personal_data(), f"Pay with {leak} today. Or not.", chunking)
    assert result.failures[0].reason == f"it contains {kind}"
    assert "1111" not in result.text
    assert "0532" not in result.text


@pytest.mark.parametrize(
    "text", ["Install react@18.2.0 now.", "See image@2x.png there.", "foo@1.2.3", "a@b and @c.d"]
)
async def test_what_only_looks_like_an_address(text):
    assert (await judged(sv.no_personal_data(), text)).success


ALLOWED = [
    *("See https://example.org.", "See https://example.org, and", "**https://example.org**"),
    *("Go to https://example.org! Now", "“https://example.org”", "www.example.org."),
    *("Compute 7//2 now", "x = 1 //comment", "latex a \\\\hline", "C:\\Users\\ann", "a: //x"),
    *("(https://example.org/a_(b))", "<https://example.org>", "http: nothing", "https://"),
]


@pytest.mark.parametrize("text", ALLOWED)
async def test_allowed_links_and_what_is_no_link(text):
    allowed = sv.allowed_hosts(["example.org", "www.example.org"])
    assert (await judged(allowed, text)).success


@pytest.mark.parametrize(
    "link", ["https:evil.test", "https:/evil.test", "ftp://evil.test", "//evil.test"]
)
async def test_odd_links_are_links(link):
    result = await judged(sv.allowed_hosts(["example.org"]), f"See {link} now.")
    assert result.failures[0].reason == "it contains a link to evil.test"


@pytest.mark.parametrize("make", [sv.no_personal_data, lambda: sv.allowed_hosts(["a.org"])])
@pytest.mark.parametrize("unit", ["deadbeef", "a1b2", "1", "a.", "x-"])
async def test_a_word_of_any_length_is_read_once(make, unit):
    """Read again for each character, it would take ten minutes: the test would time out."""
    text = "data " + unit * (80_000 // len(unit)) + " and more" * 20
    assert (await judged(make(), text, size=4000)).success


# Structure


@pytest.mark.parametrize("code", ["+".join(["1"] * 20000), "-" * 20000 + "1", "(" * 300])
async def test_python_that_nests_too_deep_fails(code):
    result = await judged(sv.valid_python(), f"```python\nx = {code}\n```\n\nDone.", size=5000)
    assert "does not parse" in result.failures[0].reason


@pytest.mark.parametrize(
    "text",
    [
        "1. ```sh\n   ls\n   ```\n2. b\n",
        "1. Run:\n    ```yaml\n    - a\n    * b\n    ```\n2. Done\n",
        "| a | b |\n|---|---|\n| x | y |\n\n| a | b | c |\n|---|---|---|\n| x | y | z |\n",
        "- a\n- b\n\n* * *\n\n- c\n",
        "- a\r\n- b\r\n\r\n| a |\r\n|---|\r\n| b |\r\n",
    ],
)
@pytest.mark.parametrize("size", [1, 5, 1000])
async def test_markdown_that_is_well_formed(text, size):
    result = await judged(sv.readable_markdown(), text, "line", size)
    assert result.success, result.failures


# Sound


async def test_a_delta_that_only_reports_and_a_chunking_of_its_own():
    usage = sv.Usage(completion_tokens=3, source="backend")
    backend = Spoken(*sliced(speech(0.6), 777), sv.Delta(usage=usage))
    result = await sv.Pipeline(
        backend,
        requirements=[reqs.no_clipping(chunking=FrameChunker(0.1))],
        chunking=FrameChunker(0.25),
    ).run("x")
    assert result.success
    assert result.usage.completion_tokens == 3


async def test_a_judge_that_reads_is_not_asked_about_sound():
    with pytest.raises(UsageError, match="reads text, and the output is sound"):
        await sv.Pipeline(
            Spoken(speech(0.3)), requirements=["be kind"], chunking=FrameChunker(0.25)
        ).run("x")


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 0])
def test_a_frame_ends(seconds):
    with pytest.raises(UsageError):
        FrameChunker(seconds)


# Repetition


@pytest.mark.parametrize(
    ("text", "success"),
    [
        ("What is 3 + 4? What is 3 × 4?", True),
        ("今日は天気がいい。今日は天気がいい。", False),
        ("Is it so nice? It is so nice.", True),
    ],
)
async def test_what_counts_as_the_same(text, success):
    assert (await judged(sv.NoRepetition(), text)).success is success
