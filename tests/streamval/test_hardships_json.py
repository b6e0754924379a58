"""What adversarial readers broke in schemas, JSON and contracts, mended."""

import asyncio
import enum
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Counter, Generic, NamedTuple, TypeVar  # noqa: UP035

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    Json,
    JsonValue,
    RootModel,
    SkipValidation,
    StringConstraints,
    field_validator,
)
from typing_extensions import TypedDict

import streamval as sv
from streamval.errors import UsageError
from streamval.schema import Schema, SchemaWatch
from tests.support.sources import Spoken

T = TypeVar("T")


def run(wanted, *texts, size=4, prefix=False, **options):
    backend = Spoken(
        *([text[n : n + size] for n in range(0, len(text), size)] for text in texts),
        supports_prefix=prefix,
    )
    return sv.Pipeline(backend, format=wanted, **options).run("x"), backend


# What pydantic takes is not refused


class Generic2(TypedDict, Generic[T]):
    a: T
    b: str


class Point(NamedTuple):
    a: int
    b: str


class Split(RootModel[list[str]]):
    @field_validator("root", mode="before")
    @classmethod
    def split(cls, value):
        return value.split(",") if isinstance(value, str) else value


class Loose(RootModel[list[str]]):
    model_config = {"coerce_numbers_to_str": True}


class Own(BaseModel):
    tags: list[str]

    def __init__(self, **data: Any) -> None:
        if isinstance(data.get("tags"), str):
            data["tags"] = data["tags"].split(",")
        super().__init__(**data)


class Stripped(BaseModel):
    name: Annotated[str, StringConstraints(strip_whitespace=True)] = Field(max_length=3)
    other: Annotated[str, AfterValidator(str.strip), Field(max_length=9)] = ""


class LooksAround(BaseModel):
    a: int
    b: Annotated[int, AfterValidator(lambda v, info: v if v > info.data["a"] else 0)]


class Colour(str, enum.Enum):  # noqa: UP042
    RED = "red"

    @classmethod
    def _missing_(cls, value):
        return cls.RED if value == "rot" else None


class Field_(BaseModel):
    value: Any
    split: Split | None = None
    skipped: Annotated[list[int], SkipValidation] = []


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (list[str], '["' + "word " * 20 + '"]'),
        (list[list[str]], '[["' + "word " * 20 + '"]]'),
        (tuple[str, int], '["' + "word " * 20 + '", 7]'),
        (dict[str, JsonValue], '{"data": {"a": [1]}}'),
        (Generic2[int], '{"a": 1, "b": "x"}'),
        (Counter[str], '{"a": 1}'),
        (list[Point], '[[1, "x"], {"a": 1, "b": "x"}]'),
        (Field_, '{"value": 1, "split": "a,b", "skipped": "no"}'),
        (list[Loose], "[[1, 2]]"),
        (list[Own], '[{"tags": "a,b"}]'),
        (Stripped, '{"name": "  abc  ", "other": "       x         "}'),
        (LooksAround, '{"a": 1, "b": 2}'),
        (list[Json[list[int]]], '["[1, 2]"]'),
        (dict[str, Annotated[set[int], Field(max_length=2)]], '{"a": [1, 1, 1, 2]}'),
        (list[Colour], '["rot"]'),
        (str, '"see [1]"'),
    ],
)
async def test_what_pydantic_takes_is_taken(wanted, text, size):
    assert Schema(wanted).complaint(text) is None
    going, _ = run(wanted, text, size=size)
    result = await going
    assert result.success, result.failures


# What is no JSON fails a requirement, and raises nothing


@pytest.mark.parametrize(
    ("wanted", "text", "success"),
    [
        (list, "[" * 250 + "]" * 250, None),
        (list, r'[["\ud800"], 1]', False),
        (list[int], "[" + "1" * 5000 + "]", False),
        (list[float], "[1, NaN]", False),
    ],
)
async def test_odd_json_raises_nothing(wanted, text, success):
    going, _ = run(wanted, text)
    result = await going
    assert success is None or result.success is success


# Repairs inside of JSON


class City(BaseModel):
    name: str
    people: int = Field(ge=0)


@pytest.mark.parametrize("chunking", ["sentence", "json", "word"])
@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_a_repair_never_keeps_the_beginning_of_a_value_that_failed(size, chunking):
    bad, good = '{"name": "Rome", "people": -3, "x": 1}', '{"name": "Rome", "people": 3}'

    class Continues(Spoken):
        def deltas_of(self, request):
            text = bad if request.attempt == 1 else good.removeprefix(request.prefix or "")
            return [text[n : n + size] for n in range(0, len(text), size)]

    backend = Continues(supports_prefix=True)
    result = await sv.Pipeline(backend, format=City, retry=sv.Repair(), chunking=chunking).run("x")
    assert good.startswith(backend.requests[1].prefix or "")
    assert result.success, result.failures
    assert result.parsed == City(name="Rome", people=3)


async def test_values_after_a_repair_are_still_chunks_of_their_own():
    no_bob = sv.stream_check(lambda text: text != '"Bob"', "no Bob")
    first, second = '{"people": ["Ann", "Bob"]}', ', "Bob", "Eve"], "tags": ["x", "y"]}'
    backend = sv.ScriptedBackend([first, second], supports_prefix=True)
    pipeline = sv.Pipeline(backend, requirements=[no_bob], chunking="json", retry=sv.Repair())
    result = await pipeline.run("x")
    assert not result.success
    assert result.text == '{"people": ["Ann"'
    good = sv.ScriptedBackend([first, second.replace("Bob", "Kim")], supports_prefix=True)
    run_ = sv.Pipeline(good, requirements=[no_bob], chunking="json", retry=sv.Repair()).start("x")
    chunks = [chunk.text async for chunk in run_.chunks()]
    assert chunks == ['"Ann"', '"Kim"', '"Eve"', "]", '"x"', '"y"', "]", "}"]


# Cost


async def test_a_long_string_is_read_once():
    """Read again with each delta, it would take minutes: the test would time out."""
    watch = SchemaWatch(Schema(City))
    assert watch.feed('{"name": "') is None
    for _ in range(200_000):
        assert watch.feed("word") is None
    text = '{"name": "' + "word" * 30_000 + '", "people": 1}'
    going, _ = run(City, text, prefix=True, retry=sv.Repair())
    assert (await going).success


async def test_one_judge_for_all_values_of_a_mapping():
    schema = Schema(dict[str, int])
    watch = SchemaWatch(schema)
    text = "{" + ", ".join(f'"key {n}": {n}' for n in range(300)) + "}"
    assert watch.feed(text) is None
    (alternative,) = schema.place._alternatives
    assert alternative._children == {}
    assert watch.complete


# Contracts


@sv.contract(backend=sv.ScriptedBackend('{"value": 1}'))
class Inner(sv.Expression):
    prompt = "x"

    def forward(self, n: int) -> int:
        return self.contract_result


@sv.contract(backend=sv.ScriptedBackend('{"value": 1}'))
class Outer(sv.Expression):
    prompt = "x"

    def forward(self, n: int) -> int:
        return Outer()(n - 1) + 1 if n else Inner()(n)


def test_nested_sync_calls_from_many_threads_end():
    with ThreadPoolExecutor(12) as executor:
        assert list(executor.map(Outer(), [2] * 12)) == [3] * 12
    assert Outer()(12) == 13


def test_a_class_that_inherits_a_contract_has_its_own_methods_under_it():
    class Strict(Inner):
        def post(self, output: int):
            raise ValueError("never")

        def forward(self, n: int) -> int:
            return -1 if self.contract_exception else 1

    strict = Strict()
    type(strict)._contract = Inner._contract.of(Strict)
    type(strict)._contract.params = {**type(strict)._contract.params, "tries": 0}
    assert strict(1) == -1
    assert "never" in str(strict.contract_exception)
    assert Inner()(1) == 1


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_methods_of_a_contract_are_plain(kind):
    class Odd(sv.Expression):
        prompt = "x"
        pre = kind(lambda *_: True)

        def forward(self, n: int) -> int: ...

    with pytest.raises(UsageError, match="plain method"):
        sv.contract()(Odd)


def test_an_argument_that_nobody_takes_is_refused():
    with pytest.raises(UsageError, match="'typo'"):
        Inner()(1, typo=3)


@pytest.mark.parametrize("tries", ["3", 1.5])
def test_tries_are_a_whole_number(tries):
    with pytest.raises(UsageError, match="whole number"):
        sv.contract(remedy_retry_params={"tries": tries})


async def test_an_assertion_without_words_and_a_broken_backend_are_told():
    class Asserts(sv.Expression):
        prompt = "x"

        def pre(self, n: int):
            if n == 0:
                raise AssertionError

        def forward(self, n: int) -> int:
            return 0

    sv.contract(backend=Spoken(sv.errors.StreamBrokenError("gone")))(Asserts)
    expression, events = Asserts(), []
    expression.subscribe(events.append)
    expression.subscribe(events.append).dispose()  # of one of the two
    await expression.acall(0)
    assert "AssertionError" in str(expression.contract_exception)
    assert events
    events.clear()
    await expression.acall(1)
    assert events[-1].status == "failed"
    assert "gone" in events[-1].reason


async def test_a_result_that_passed_is_not_judged_again():
    words_type = Annotated[list[str], AfterValidator(lambda words: [w.upper() for w in words])]

    class Upper(sv.Expression):
        prompt = "x"

        def forward(self, n: int) -> words_type:
            return self.contract_result

    sv.contract(backend=Spoken('{"value": ["a"]}'))(Upper)
    assert await Upper().acall(1) == ["A"]


async def test_no_event_loop_is_held_up_by_a_call_in_a_thread():
    """A sync forward that waits for another call runs beside the shared loop, not on it."""
    results = await asyncio.gather(*(asyncio.to_thread(Outer(), 1) for _ in range(4)))
    assert results == [2] * 4
