"""Tests of `streamval.types.components`."""

import pytest

import streamval as sv
from streamval.errors import UsageError
from streamval.types.components import fill_in, render
from tests.support.sources import Spoken


class Letter:
    def __init__(self, *parts):
        self._parts = parts

    def parts(self):
        return list(self._parts)

    def format_for_llm(self):
        return sv.types.TemplateRepresentation(
            self, {"parts": self.parts()}, "{% for p in parts %}[{{p}}]{% endfor %}"
        )


def test_a_component_is_rendered_with_what_it_is_made_of():
    assert render(Letter(sv.types.CBlock("a"), Letter(sv.types.CBlock("b")), "c")) == "[a][[b]][c]"


def test_what_is_filled_in_is_never_a_template():
    assert fill_in("{{x}}", {"x": "{{y}}"}) == "{{y}}"
    task = sv.types.Instruction("Say {{x}}.", user_variables={"x": "{{ 7 * 6 }}"})
    assert render(task) == "Say {{ 7 * 6 }}."


def test_without_variables_braces_stay():
    assert render(sv.types.Instruction("Explain {{name}}.")) == "Explain {{name}}."


def test_a_missing_variable_is_named_with_those_given():
    with pytest.raises(UsageError, match=r"'name' is undefined.*given are: nam"):
        fill_in("{{name}}", {"nam": "Ann"})


def test_a_broken_template_is_shown():
    with pytest.raises(UsageError, match=r"'\{\{name' cannot be read"):
        fill_in("{{name", {})


def test_templates_run_in_a_sandbox():
    with pytest.raises(UsageError, match="unsafe"):
        fill_in("{{ x.__class__.__mro__ }}", {"x": 1})


def test_an_empty_instruction_is_refused():
    with pytest.raises(UsageError, match="description"):
        sv.types.Instruction(" ")


@pytest.mark.parametrize("prompt", [sv.types.CBlock("Say it."), sv.types.Instruction("Say it.")])
async def test_components_are_prompts(prompt):
    backend = Spoken("It.")
    assert (await sv.Pipeline(backend).run(prompt)).text == "It."
    assert backend.requests[0].messages == (sv.types.Message("user", "Say it."),)


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


def test_a_block_holds_a_string():
    with pytest.raises(UsageError, match="not int"):
        sv.types.CBlock(5)  # type: ignore[arg-type]


def test_an_instruction_takes_requirements_as_they_are():
    wanted = [sv.req("Be {{how}}."), sv.check("No elephants."), "Be brief.", sv.Requirement()]
    assert render(sv.types.Instruction("Write.", wanted, {"how": "kind"})) == (
        "(The answer has to meet these requirements:\n- Be kind.\n- Be brief.)\n\nWrite."
    )
    with pytest.raises(UsageError, match="are strings or Requirements, not 5"):
        render(sv.types.Instruction("Write.", [5]))
