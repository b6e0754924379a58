"""Models as judges: at the end, chunk by chunk, and by an adapter."""

import asyncio
import json

import pytest

import streamval as sv
from streamval.components import render
from streamval.errors import RunError, UsageError, ValidatorError
from tests.support.openai_server import openai_server
from tests.support.sources import Spoken
from tests.support.virtual_time import run_virtually


class Answers(sv.Backend):
    """A judge that answers by a function of the judged text; remembers what it was asked."""

    model = "judge"

    def __init__(self, answer, delay=0.0, adapters=None):
        self.answer = answer
        self.delay = delay
        self.asked = []
        self.requests = []
        self.said = 0
        self.at_once = self.most_at_once = 0
        self.adapters = adapters or {}

    async def stream(self, request):
        self.requests.append(request)
        prompt = request.messages[-1].content
        lines = prompt.splitlines()
        markers = [n for n, line in enumerate(lines) if line.startswith("[text ")]
        text = "\n".join(lines[markers[0] + 1 : markers[1]]) if markers else prompt
        self.asked.append(text)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.delay:
                await asyncio.sleep(self.delay)
            for piece in self.answer(text):
                if callable(piece):
                    await piece()
                else:
                    self.said += 1
                    yield piece
        finally:
            self.at_once -= 1


async def judged(requirement, text, answer, **options):
    backend = Answers(lambda _: answer)
    return await requirement.validate(backend, sv.Context().with_output(text), **options), backend


# The question


def test_a_requirement_is_a_component_inside_of_validate():
    requirement = sv.req("be kind")
    assert isinstance(requirement, sv.Component)
    assert requirement.parts() == []
    with pytest.raises(RunError, match=r"validate\(\)"):
        requirement.format_for_llm()


async def test_a_requirement_can_ask_in_its_own_words():
    class Mine(sv.Requirement):
        def format_for_llm(self):
            words = super().format_for_llm()
            return sv.TemplateRepresentation(self, words.args, "{{output}} -- {{description}}?")

    _, backend = await judged(Mine("kind"), "Hello.", ["yes"])
    assert backend.requests[0].messages[0].content == "Hello. -- kind?"


async def test_the_original_does_not_keep_the_output():
    requirement = sv.req("be kind")
    await judged(requirement, "Hello.", ["yes"])
    with pytest.raises(RunError):
        render(requirement)


# The answer


@pytest.mark.parametrize(
    ("answer", "passed", "reason", "error"),
    [
        (["yes"], True, None, None),
        (["no"], False, "judged not to meet: be kind", None),
        (["No, ", "it shouts."], False, "judged not to meet: be kind (it shouts.)", None),
        (["n"], False, "judged not to meet: be kind", None),
        (["per", "haps"], False, "judged not to meet: be kind", "neither yes nor no: 'perhaps'"),
        ([], False, "judged not to meet: be kind", "neither yes nor no: ''"),
        (["nothing"], False, "judged not to meet: be kind", "neither yes nor no: 'nothing'"),
    ],
)
async def test_how_an_answer_is_read(answer, passed, reason, error):
    result, _ = await judged(sv.req("be kind"), "Hello.", answer)
    assert bool(result) is passed
    assert result.reason == reason
    assert (error or "") in (result.error or "")
    assert bool(result.error) is bool(error)
    assert result.thunk.value == "".join(answer)
    assert str(result.context.last_output()) == "".join(answer)


async def test_a_judge_that_has_answered_is_cut_off():
    never = asyncio.Event().wait  # a judge that would go on for good
    result, backend = await judged(sv.req("be kind"), "Hi.", ["Yes", ". ", "Because ", never])
    assert result
    assert backend.at_once == 0
    result, backend = await judged(sv.req("be kind"), "Hi.", ["No: rude.\n", never])
    assert result.reason.endswith("(rude.)")
    assert backend.at_once == 0


async def test_output_to_bool_reads_the_whole_answer():
    requirement = sv.req("be kind", output_to_bool=lambda answer: answer.endswith("9"))
    result, backend = await judged(requirement, "Hi.", ["yes\n", "score 9"])
    assert result
    assert backend.said == 2


async def test_a_reader_that_raises_fails_closed_with_the_error_kept():
    result, _ = await judged(sv.req("be kind", output_to_bool=lambda a: int(a) > 5), "Hi.", ["x"])
    assert not result
    assert "ValueError" in result.error


async def test_a_nonsense_judge_fails_the_run_and_the_reason_says_why():
    result = await sv.Pipeline(
        Spoken("Fine."), requirements=["be kind"], validation_backend=Answers(lambda _: ["hm"])
    ).run("go")
    assert not result.success
    assert "neither yes nor no" in result.failures[0].reason


# Chunk by chunk


async def test_by_default_the_judge_is_asked_once_at_the_end():
    backend = Answers(lambda _: ["yes"])
    await sv.Pipeline(
        Spoken("One. Two."),
        requirements=[sv.LLMaJRequirement("be kind")],
        validation_backend=backend,
    ).run("go")
    assert backend.asked == ["One. Two."]


async def test_a_streaming_judge_is_asked_about_the_chunks_that_matter():
    backend = Answers(lambda text: ["no, it shouts"] if "!" in text else ["yes"])
    source = Spoken("You are. ", "It is. ", "You! ", "You too. ", asyncio.Event().wait)
    polite = sv.LLMaJRequirement("be calm", streaming=True, when=lambda text: "You" in text)
    result = await sv.Pipeline(source, requirements=[polite], validation_backend=backend).run("go")
    assert "It is." not in backend.asked
    assert backend.asked[:2] == ["You are.", "You!"]
    assert source.closed == 1
    assert result.text == "You are. It is."
    assert result.failures[0].reason == "judged not to meet: be calm (it shouts)"
    assert result.failures[0].chunk_index == 2


def test_a_streaming_judge_overlaps_by_max_concurrency():
    def spend(limit):
        backend = Answers(lambda _: ["yes"], delay=1.0)
        judge = sv.LLMaJRequirement("calm", streaming=True, max_concurrency=limit)
        source = Spoken(*(f"Number {n} is. " for n in range(8)))
        pipeline = sv.Pipeline(source, requirements=[judge], validation_backend=backend)
        result, seconds = run_virtually(pipeline.run("go"))
        assert result.success
        return backend.most_at_once, seconds

    assert spend(4) == (4, 3.0)  # 8 chunks in 2 rounds, and the whole at the end
    assert spend(1) == (1, 9.0)


async def test_a_streaming_judge_that_answers_nonsense_fails_closed():
    judge = sv.LLMaJRequirement("calm", streaming=True)
    result = await sv.Pipeline(
        Spoken("One. Two."), requirements=[judge], validation_backend=Answers(lambda _: ["hm"])
    ).run("go")
    assert result.text == ""
    assert "neither yes nor no" in result.failures[0].reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"description": " "}, "description"),
        ({"description": "x", "when": bool}, "streaming=True"),
        ({"description": "x", "validation_fn": bool}, "validation_fn"),
    ],
)
def test_a_judge_that_cannot_work_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        sv.LLMaJRequirement(**options)


# Adapters

ADAPTERS = {"requirement_check": {"lora": [{"id": 0, "scale": 1.0}]}}


@pytest.mark.parametrize(
    ("answer", "passed", "score"),
    [
        ({"requirement_likelihood": 0.51}, True, 0.51),
        ({"requirement_likelihood": 0.5}, False, 0.5),
        ({"requirement_check": {"score": 0.9}}, True, 0.9),
        ({"score": 0}, False, 0.0),
    ],
)
async def test_an_adapters_likelihood(answer, passed, score):
    backend = Answers(lambda _: [json.dumps(answer)], adapters=ADAPTERS)
    ctx = sv.Context().add("Say hello.").with_output("Hello.")
    result = await sv.ALoraRequirement("be kind").validate(backend, ctx)
    assert (bool(result), result.score) == (passed, score)
    asked = backend.requests[0]
    assert asked.options["lora"] == [{"id": 0, "scale": 1.0}]
    assert [turn.content for turn in asked.messages] == [
        "Say hello.",
        "Hello.",
        "Requirement: be kind",
    ]


@pytest.mark.parametrize("answer", ["yes", "{}", '{"score": "high"}', '{"score": 7}', '{"sco', ""])
async def test_a_malformed_adapter_answer_is_an_error(answer):
    backend = Answers(lambda _: [answer], adapters=ADAPTERS)
    with pytest.raises(ValidatorError, match="likelihood from 0 to 1"):
        await sv.ALoraRequirement("be kind").validate(backend, sv.Context().with_output("Hi."))


async def test_without_the_adapter_the_judge_is_asked_with_a_warning():
    backend = Answers(lambda _: ["no"])
    with pytest.warns(UserWarning, match="no adapter 'requirement_check'"):
        result = await sv.ALoraRequirement("be kind").validate(
            backend, sv.Context().with_output("Hi.")
        )
    assert not result
    assert backend.asked == ["Hi."]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Pydantic serializer warnings")
@pytest.mark.parametrize(
    ("how", "asked"),
    [
        ("openai/checker", {"model": "checker"}),
        (
            {"extra_body": {"lora": [{"id": 0, "scale": 1.0}]}},
            {"model": "fine", "lora": [{"id": 0, "scale": 1.0}]},
        ),
    ],
    ids=["as vLLM names it", "as llama.cpp switches it on"],
)
async def test_litellm_asks_the_adapter_of_a_real_server(how, asked):
    async with openai_server() as server:
        backend = sv.LiteLLMBackend(
            "openai/fine", api_base=server.url, api_key="sk-x", adapters={"requirement_check": how}
        )
        with pytest.raises(ValidatorError, match="likelihood"):  # the server only counts
            await sv.ALoraRequirement("be kind").validate(
                backend, sv.Context().with_output("Hello.")
            )
    body = server.requests[0].body
    assert {name: body[name] for name in asked} == asked
    assert body["messages"][-1]["content"] == "Requirement: be kind"


def test_an_adapter_needs_a_description():
    with pytest.raises(UsageError, match="description"):
        sv.ALoraRequirement("")
