"""Tests of `streamval.requirements.masking`: the law of masking, in text, JSON and arguments of tools.

What is delivered is what masking the whole text at once gives, however the text is sliced and chunked, and nothing of a
masked span is in any event or result. `MASKED_TEXTS` is how many random texts each rule gets: 20,000 take minutes.
"""

import json
import os
import random

import pytest

import streamval as sv
from streamval.errors import UsageError
from streamval.requirements.masking import LEFT_OUT
from streamval.testing import run_virtually
from streamval.types import ToolCallDelta

TEXTS = int(os.environ.get("MASKED_TEXTS", "60"))

SECRETS = {
    "words": ["aCmE", "AcMe CoRp", "ACMe  coRP", "STRASSe"],
    "data": [
        "bob@example.org",
        "+49 30 12345678",
        "+44 20 7946 0958",
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "DE89 3704 0044 0532 0130 00",
        "DE89370400440532013000",
        "0049 30 901820",
    ],
    "secrets": [
        "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789",
        "AKIA" + "IOSFODNN7EXAMPLQ",
        "xoxb-" + "123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx",
    ],
    "pattern": ["X-1234", "X-99", "X-007"],
}
"""What each rule masks."""

FILLERS = [
    *(
        "One is fine.",
        "and",
        "the",
        "Why?",
        "Corp",
        "12",
        "2026-11-25",
        "3.14",
        "a@b",
        "é",
        "日本語",
    ),
    *(
        "(see",
        "below)",
        "“so",
        "on”",
        "x_y",
        "1,000",
        "+",
        "555",
        "\n\n",
        "\n- ",
        "acmes",
        "**",
        "X-",
    ),
    *("<b>", "&amp;", "12:30", "v1.2.3", "`code`", "€ 40", "#7", "…", "😀"),
]

RULES = {
    "words": lambda: sv.forbidden_words(["acme", "acme corp", "straße"], action="mask"),
    "data": lambda: sv.no_personal_data(action="mask"),
    "secrets": lambda: sv.no_secrets(action="mask", replacement="<{kind}>"),
    "pattern": lambda: sv.forbidden_pattern(r"X-\d+", action="mask", replacement="X-?"),
}


def a_text(dice, kind, most=12):
    """A text with things to mask, and those that it has."""
    there, parts = [], []
    for _ in range(dice.randint(1, most)):
        if dice.random() < 0.35:
            there.append(dice.choice(SECRETS[kind]))
            before, behind = dice.choice([("", ""), ("(", ")"), ("", "."), ("", ","), ('"', '"')])
            parts.append(before + there[-1] + behind)
        else:
            parts.append(dice.choice(FILLERS))
    text = parts[0]
    for part in parts[1:]:
        text += dice.choice([" ", " ", " ", "  ", "\n"]) + part
    return text, there


def sliced(dice, text):
    """A text cut at random."""
    pieces, at = [], 0
    while at < len(text):
        size = dice.choice([1, 2, 3, 5, 8, 13, 40])
        pieces.append(text[at : at + size])
        at += size
    return pieces


class Shown:
    """All that anybody sees of a run."""

    def __init__(self, pipeline):
        self.events, self.raw = [], ""

        async def main():
            run = pipeline.start("Say it.")
            run.subscribe(self.note)
            return await run

        self.result, _ = run_virtually(main())
        self.raw = " ".join([*self.seen, repr(self.result), str(self.result.parsed)])

    seen: list

    def note(self, event):
        self.seen = [*getattr(self, "seen", []), event.model_dump_json()]
        self.events.append(event)


def hides(raw, there):
    """Whether nothing of what was masked is in what is shown, a part of it neither."""
    return not [one for one in there if one in raw or json.dumps(one)[1:-1] in raw]


def wanted(rule, text):
    """What masking the whole gives; `None` where the rule fails."""
    try:
        return rule.masked(text)
    except ValueError:
        return None


@pytest.mark.parametrize("kind", RULES)
def test_what_is_delivered_is_the_masked_whole_whatever_the_slices_and_chunks(kind):
    rule, dice, failed = RULES[kind](), random.Random(kind), 0
    for number in range(TEXTS):
        text, there = a_text(dice, kind)
        whole = wanted(rule, text)
        options = {
            "chunking": dice.choice(["sentence", "word", "line", "paragraph", None]),
            "emit_tokens": dice.random() < 0.5,
            "emit_verdicts": dice.random() < 0.5,
        }
        if dice.random() < 0.3:  # another rule, which quotes what it does not like
            quoting = sv.stream_check(lambda said: (len(said) < 60, f"too long: {said}"), "short")
            options["requirements"] = [quoting, rule] if dice.random() < 0.5 else [rule, quoting]
        else:
            options["requirements"] = [rule]
        pieces = sliced(dice, text)
        shown = Shown(sv.Pipeline(sv.IterableBackend(lambda _, pieces=pieces: pieces), **options))
        result = shown.result
        label = (number, text, options["chunking"], pieces)
        if whole is None:
            failed += 1
            assert not result.success, label
        elif result.success:
            assert result.text.strip() == whole.strip(), label
            assert result.full_text.strip() == whole.strip(), label
        else:
            assert whole.startswith(result.text.rstrip()[: len(whole)]), label
            assert len(options["requirements"]) == 2, label
        assert hides(shown.raw, there), label
        assert not [event for event in shown.events if event.type == "token"]
    assert failed < TEXTS / 2


@pytest.mark.parametrize("kind", RULES)
def test_nothing_forbidden_is_left_and_the_rest_is_as_it_was(kind):
    rule, dice = RULES[kind](), random.Random(kind)
    for _ in range(TEXTS):
        text, there = a_text(dice, kind)
        whole = wanted(rule, text)
        if whole is None:
            continue
        assert rule.masked(whole) == whole
        assert hides(whole, there)
        if not there:
            plain = wanted(rule, text)
            assert plain == text or len(plain) < len(text)  # a filler may be one by chance


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("kind", RULES)
def test_json_stays_valid_and_each_string_is_the_masked_string(kind, typed):
    rule, dice = RULES[kind](), random.Random(kind)
    for number in range(TEXTS // 2):
        values, secrets = {}, []
        for name in "abc"[: dice.randint(1, 3)]:
            values[name], there = a_text(dice, kind, 6)
            secrets += there
        values["n"] = dice.randint(0, 9)
        values["list"] = [values["a"], None, True]
        expected = {}
        for name, value in values.items():
            if isinstance(value, str):
                expected[name] = wanted(rule, value)
        expected |= {"n": values["n"], "list": [expected["a"], None, True]}
        text = json.dumps(values, ensure_ascii=dice.random() < 0.5, indent=dice.choice([None, 1]))
        pieces = sliced(dice, text)
        options = {"format": {"type": "object"}} if typed else {"chunking": "json"}
        backend = sv.IterableBackend(lambda _, pieces=pieces: pieces)
        shown = Shown(sv.Pipeline(backend, requirements=[rule], **options))
        label = (number, text, pieces)
        assert hides(shown.raw, secrets), label
        if None in expected.values():
            assert not shown.result.success
            continue
        assert shown.result.success, (label, shown.result.failures)
        assert json.loads(shown.result.text) == expected, label
        if typed:
            assert shown.result.parsed == expected
            parts = [e for e in shown.events if e.type == "partial_object" and e.path == "$.a"]
            assert [e.value for e in parts] == [expected["a"]]


def say(text: str, n: int = 0) -> str: ...


@pytest.mark.parametrize("kind", RULES)
def test_arguments_of_tools_stay_valid_and_each_string_is_masked(kind):
    rule, dice = RULES[kind](), random.Random(kind)
    for number in range(TEXTS // 2):
        calls, secrets = [], []
        for _ in range(dice.randint(1, 3)):
            text, there = a_text(dice, kind, 6)
            secrets += there
            calls.append({"text": text, "n": dice.randint(0, 9)})
        deltas = []
        for index, call in enumerate(calls):
            deltas.append(ToolCallDelta(index, f"c{index}", "say"))
            raw = dice.choice(["", " ", "\n"]) + json.dumps(call)
            deltas += [ToolCallDelta(index, arguments=piece) for piece in sliced(dice, raw)]
        said = [sv.Delta(tool_call=delta) for delta in deltas]
        expected = [{**call, "text": wanted(rule, call["text"])} for call in calls]
        backend = sv.IterableBackend(lambda _, said=said: said)
        shown = Shown(sv.Pipeline(backend, requirements=[rule], tools=[say]))
        label = (number, calls)
        assert hides(shown.raw, secrets), label
        if None in [call["text"] for call in expected]:
            assert not shown.result.success
            continue
        assert shown.result.success, (label, shown.result.failures)
        assert [call.arguments for call in shown.result.tool_calls] == expected, label
        assert [json.loads(call.raw) for call in shown.result.tool_calls] == expected


@pytest.mark.parametrize("kind", RULES)
def test_reasoning_is_masked_too(kind):
    rule, dice = RULES[kind](), random.Random(kind)
    if kind == "pattern":
        rule = rule.on("reasoning", "text")
    for _ in range(TEXTS // 4):
        text, there = a_text(dice, kind)
        said = [*(sv.Delta(reasoning=one) for one in sliced(dice, text)), "That is all."]
        shown = Shown(
            sv.Pipeline(sv.IterableBackend(lambda _, said=said: said), requirements=[rule])
        )
        whole = wanted(rule, text)
        assert hides(shown.raw, there)
        if whole is not None:
            assert shown.result.reasoning.strip() == whole.strip()


def test_what_cannot_be_masked_fails():
    words = sv.forbidden_words(["acme"], action="mask")
    for text in ("Buy at ac**me** now.", "Buy at ac&#109;e now."):  # found as it is read only
        assert not Shown(sv.Pipeline(sv.ScriptedBackend(text), requirements=[words])).result.success
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----"
    secrets = sv.no_secrets(action="mask")
    shown = Shown(sv.Pipeline(sv.ScriptedBackend(key), requirements=[secrets]))
    assert (shown.result.success, shown.result.text) == (False, "")
    for text in ('{"acme": 1}', '{"n": 4111111111111111}'):
        rules = [words, sv.no_personal_data(action="mask")]
        backend = sv.ScriptedBackend(text)
        assert not Shown(sv.Pipeline(backend, requirements=rules, chunking="json")).result.success


def test_masked_json_still_has_to_meet_the_schema():
    schema = {"type": "object", "properties": {"to": {"type": "string", "pattern": "@"}}}
    backend = sv.ScriptedBackend('{"to": "bob@example.org"}')
    rule = sv.no_personal_data(action="mask")
    assert not sv.Pipeline(backend, requirements=[rule], format=schema).run_sync("x").success
    keeps = sv.no_personal_data(action="mask", replacement="someone@")
    result = sv.Pipeline(backend, requirements=[keeps], format=schema).run_sync("x")
    assert result.parsed == {"to": "someone@"}


def test_after_a_repair_that_continues_the_masks_of_what_stands_stay():
    backend = sv.ScriptedBackend(
        ["Buy at Acme Corp. All is bad. No more.", " All is good at ACME."], supports_prefix=True
    )
    rules = [sv.forbidden_words(["acme corp", "acme"], action="mask"), sv.forbidden_words(["bad"])]
    shown = Shown(sv.Pipeline(backend, requirements=rules, retry=sv.Repair()))
    assert shown.result.text == "Buy at [word]. All is good at [word]."
    assert [one.text for one in shown.result.attempts] == ["Buy at [word].", shown.result.text]
    assert hides(shown.raw, ["Acme", "ACME"])


def test_several_rules_on_the_same_text_make_one_replacement_where_they_overlap():
    rules = [
        sv.forbidden_words(["write to"], action="mask", replacement="<1>"),
        sv.forbidden_pattern("to [a-z]+", action="mask", replacement="<2>"),
    ]
    for order in (rules, rules[::-1]):
        result = sv.Pipeline(sv.ScriptedBackend("Please write to bob at once."), requirements=order)
        assert result.run_sync("x").text == "Please <1> at once."


def test_an_observed_mask_masks_nothing():
    rule = sv.forbidden_words(["acme"], action="mask", enforce=False)
    shown = Shown(sv.Pipeline(sv.ScriptedBackend("Buy at Acme."), requirements=[rule]))
    assert shown.result.text == "Buy at Acme."


def test_a_rule_of_ones_own_masks():
    class NoYears(sv.Requirement):
        masks = True

        def stream_validate(self, chunk, *, backend, ctx):
            at = chunk.find("1984")
            masks = [] if at < 0 else [(at, at + 4, "19__")]
            return sv.PartialValidationResult("pass", masks=masks)

    shown = Shown(
        sv.Pipeline(sv.ScriptedBackend("It was 1984. It rained."), requirements=[NoYears()])
    )
    assert shown.result.text == "It was 19__. It rained."
    assert [e.masked for e in shown.events if e.type == "chunk"] == [True, False]
    NoYears.masks = False
    with pytest.raises(sv.errors.ValidatorError, match="set `masks = True`"):
        sv.Pipeline(sv.ScriptedBackend("It was 1984."), requirements=[NoYears()]).run_sync("x")


def test_an_error_of_a_server_is_shown_without_what_is_masked():
    async def breaks(_):
        yield "Buy at Acme. "
        raise ValueError("Acme is down")

    pipeline = sv.Pipeline(
        sv.IterableBackend(breaks), requirements=[sv.forbidden_words(["acme"], action="mask")]
    )
    seen = []
    run = pipeline.start("x")
    run.subscribe(seen.append)
    with pytest.raises(ValueError, match="is down"):
        run_virtually(_awaited(run))
    (error,) = [event for event in seen if event.type == "error"]
    assert error.detail == "[word] is down"


async def _awaited(run):
    return await run


def test_a_reason_with_what_cannot_be_masked_is_left_out():
    rule = sv.no_secrets(action="mask")
    assert rule.hidden("It says -----BEGIN RSA PRIVATE KEY-----") == LEFT_OUT


def test_wrong_values_are_refused():
    with pytest.raises(UsageError, match="action must be"):
        sv.forbidden_words(["acme"], action="hide")
    with pytest.raises(UsageError, match="itself what the rule forbids"):
        sv.forbidden_words(["acme"], action="mask", replacement="(Acme)")
    with pytest.raises(UsageError, match="leave out hold"):
        sv.no_secrets(action="mask", hold=False)
    with pytest.raises(UsageError, match="must be a string"):
        sv.no_secrets(action="mask", replacement=7)
    with pytest.raises(ValueError, match="a mask is"):
        sv.PartialValidationResult("pass", masks=[(3, 1, "x")])
