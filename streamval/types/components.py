"""The parts of a prompt: blocks of text, and components that render themselves as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from streamval.errors import UsageError

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment


@dataclass(frozen=True, slots=True)
class CBlock:
    """A block of text, given to a model as it is.

    Attributes:
        value: The text.

    Raises:
        UsageError: If the value is not a string.
    """

    value: str

    def __post_init__(self) -> None:
        if not isinstance(self.value, str):
            raise UsageError(f"a CBlock holds a string, not {type(self.value).__name__}")

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class TemplateRepresentation:
    """The text of a component: a template, and the values of its variables.

    Attributes:
        obj: The component.
        args: The values of the template's variables. Components and blocks are rendered first.
        template: In Jinja's language: ``{{name}}``.
    """

    obj: Any
    args: Mapping[str, Any]
    template: str


@runtime_checkable
class Component(Protocol):
    """Something that can be turned into text for a model.

    Example:
        >>> class Task:
        ...     def parts(self):
        ...         return [CBlock("Be brief.")]
        ...     def format_for_llm(self):
        ...         args = {"task": "Name a colour.", "manner": self.parts()[0]}
        ...         return TemplateRepresentation(self, args, "{{task}} {{manner}}")
        >>> render(Task())
        'Name a colour. Be brief.'
    """

    def parts(self) -> Sequence[Component | CBlock]:
        """Return its parts."""

    def format_for_llm(self) -> TemplateRepresentation | str:
        """Return its text, or a template."""


class Described(Protocol):
    """The part of a requirement that an instruction reads."""

    description: str | None
    check_only: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """A task, with the requirements for its result.

    Attributes:
        description: The task.
        requirements: The requirements as the model reads them: strings, or objects with a
            `description`. Objects without a description, and `check_only` objects, are left out.
        user_variables: The values for ``{{name}}`` in both. With `None`, braces stay as they are.

    Raises:
        UsageError: If the description is empty.

    Example:
        >>> print(render(Instruction("Write to {{name}}.", ["Be kind."], {"name": "Ann"})))
        (The answer has to meet these requirements:
        - Be kind.)
        <BLANKLINE>
        Write to Ann.
    """

    description: str
    requirements: Sequence[str | Described] = field(default=())
    user_variables: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.description, str) or not self.description.strip():
            raise UsageError(f"an instruction needs a description, not {self.description!r}")

    def parts(self) -> Sequence[Component | CBlock]:
        """Return the description and the requirements, filled in."""
        wanted = [words for item in self.requirements if (words := _words_of(item))]
        return [CBlock(self._filled_in(text)) for text in (self.description, *wanted)]

    def format_for_llm(self) -> TemplateRepresentation:
        """Return the template. The task comes last, so that a base model continues from it."""
        task, *requirements = self.parts()
        template = (
            "{% if requirements %}(The answer has to meet these requirements:\n"
            "{% for requirement in requirements %}- {{requirement}}"
            "{% if not loop.last %}\n{% endif %}{% endfor %})\n\n{% endif %}{{task}}"
        )
        return TemplateRepresentation(self, {"task": task, "requirements": requirements}, template)

    def _filled_in(self, text: str) -> str:
        return text if self.user_variables is None else fill_in(text, self.user_variables)


def _words_of(requirement: str | Described) -> str | None:
    """Return the words of a requirement for a prompt; `None` if it is `check_only`."""
    if isinstance(requirement, (str, CBlock)):
        return str(requirement)
    if not hasattr(requirement, "description"):
        raise UsageError(
            f"an instruction's requirements are strings or Requirements, not {requirement!r}"
        )
    return None if getattr(requirement, "check_only", False) else requirement.description


def render(part: Component | CBlock | str) -> str:
    """Return the text of a component."""
    if isinstance(part, (str, CBlock)):
        return str(part)
    words = part.format_for_llm()
    if isinstance(words, str):
        return words
    return fill_in(words.template, {name: _rendered(value) for name, value in words.args.items()})


def fill_in(template: str, variables: Mapping[str, Any]) -> str:
    """Fill in a template of Jinja's.

    Templates run in Jinja's sandbox, and inserted values are never read as templates.

    Raises:
        UsageError: If it is not a template, or names an unknown variable.

    Example:
        >>> fill_in("Hello, {{name}}.", {"name": "Ann"})
        'Hello, Ann.'
    """
    if not isinstance(variables, Mapping):
        raise UsageError(
            f"variables are a mapping of names to values, not {type(variables).__name__}"
        )
    from jinja2 import TemplateError, UndefinedError  # only where there is one

    try:
        return _environment().from_string(template).render(variables)
    except UndefinedError as error:
        names = ", ".join(sorted(variables)) or "none"
        raise UsageError(
            f"{error.message} in the template; the variables given are: {names}"
        ) from None
    except TemplateError as error:
        raise UsageError(
            f"the template {template[:80]!r} cannot be read: {error.message}"
        ) from None
    except Exception as error:  # an expression in it may raise anything
        raise UsageError(
            f"the template {template[:80]!r} raises {type(error).__name__}: {error}"
        ) from error


def _rendered(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_rendered(item) for item in value]
    if isinstance(value, (CBlock, Component)):
        return render(value)
    return value


@cache
def _environment() -> SandboxedEnvironment:
    from jinja2 import StrictUndefined  # only where there is a template
    from jinja2.sandbox import SandboxedEnvironment

    # Plain text for a model, not HTML.
    return SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
