"""``streamval run``: generate, judge and repair."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from streamval.backends import Backend, default_backend
from streamval.backends.base import as_messages
from streamval.backends.local import LocalBackend, to_be_answered
from streamval.commands.display import WATCH_HELP, shown
from streamval.commands.exits import INVALID, VALID, one_line_errors
from streamval.errors import UsageError
from streamval.pipeline.pipeline import Pipeline
from streamval.pipeline.repair import Repair
from streamval.requirements import Requirement, no_repetition
from streamval.requirements.by_name import object_in, requirement_written


def run(
    prompt: Annotated[str, typer.Argument(help="The prompt; - reads it from standard input.")],
    *,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="A LiteLLM model name, such as openai/gpt-4o-mini; by default "
            "$STREAMVAL_MODEL, else the embedded model.",
        ),
    ] = None,
    api_base: Annotated[
        str | None,
        typer.Option("--api-base", help="The server's URL, such as http://localhost:8000/v1."),
    ] = None,
    system: Annotated[
        str | None, typer.Option("--system", help="What to tell the model before the prompt.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=1, help="Tokens of the answer at most.")
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            "--require",
            "-r",
            help="A requirement for the answer: put into the prompt, and judged by a model at the end (see "
            "--judge). Repeatable.",
        ),
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option("--check", "-c", help="The same, but not put into the prompt. Repeatable."),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            "--judge",
            help="The model that judges --require and --check; by default the one that answers. The "
            "embedded model cannot judge.",
        ),
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            help="A ready requirement: NAME, or NAME=JSON with its arguments; `streamval rules` "
            "lists them. Repeatable.",
        ),
    ] = None,
    output_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="FILE.py:Model or FILE.json: the answer must be JSON for that pydantic model, or by that "
            "JSON Schema.",
        ),
    ] = None,
    chunk: Annotated[
        str, typer.Option("--chunk", help="sentence, word, line, paragraph or markdown.")
    ] = "sentence",
    retry: Annotated[int, typer.Option("--retry", min=0, help="Further attempts.")] = 1,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record", help="Write every event to this file, as JSONL, over an older recording."
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help=WATCH_HELP)] = False,
) -> None:
    """Generate, judge and repair, and show it while it happens.

    Without --format, no sentence may be repeated, whatever else you require. In a pipe, the
    text goes to standard output as it is delivered (JSON as a whole), and the rest to standard error;
    text that a restart takes back stays in the pipe, and the new text begins on a new line.

    [dim]$[/dim] streamval run "Facts about the sea:\\n\\nThe sea is" --rule 'word_limit={"at_most": 80}'
    [dim]$[/dim] streamval run "Explain tides." -m openai/gpt-4o-mini -r "Mention the moon." --retry 2
    """
    with one_line_errors():
        rules = [requirement_written(written) for written in rule or []]
        ours = no_repetition()
        stands = any(isinstance(one, type(ours)) for one in rules)  # with arguments of its own
        requirements = [
            *([] if output_format or stands else [ours]),
            *rules,
            *(Requirement(text) for text in require or []),
            *(Requirement(text, check_only=True) for text in check or []),
        ]
        wanted_type = _format_in(output_format) if output_format else None
        backend = _backend(model, api_base)  # slow, so the arguments that may be wrong go first
        judging = backend if judge is None else default_backend(judge)
        if (require or check) and not judging.can_judge:
            raise UsageError(
                f"{judging.model} cannot judge what {'-r' if require else '-c'} requires: name a model that "
                "can with --judge or --model, or use --rule (`streamval rules` lists the ready ones)"
            )
        pipeline = Pipeline(
            backend,
            requirements=requirements,
            validation_backend=None if judge is None else judging,
            chunking=chunk,
            retry=Repair(loop_budget=retry + 1) if retry else None,
            emit_tokens=True,
            emit_verdicts=watch or record is not None,
            format=wanted_type,
            options={"max_tokens": max_tokens} if max_tokens else None,
        )
        asked = (sys.stdin.read() if prompt == "-" else prompt).replace("\\n", "\n")
        if require:
            wanted = "".join(f"- {text}\n" for text in require)
            asked = f"The answer has to meet these requirements:\n{wanted}\n{asked}"
        messages = [{"role": "user", "content": asked}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        # The embedded model may continue the prompt: without it, the text begins in mid-sentence.
        answers = system is not None or not backend.supports_prefix
        if isinstance(backend, LocalBackend):
            answers = to_be_answered(as_messages(messages))
        begins = None if answers else asked
        show = shown(pipeline, messages, record, begins, whole=bool(output_format), watch=watch)
        result = asyncio.run(show)
    raise typer.Exit(VALID if result.success else INVALID)


def _format_in(place: str) -> Any:
    """Return the type that ``FILE.py:Name`` names, or the JSON Schema in ``FILE.json``."""
    file, _, name = place.rpartition(":")
    if place.endswith(".json"):
        return _json_in(Path(place))
    if not name or not file.endswith(".py"):
        raise UsageError(
            "--format is FILE.py:Model, the file of a pydantic model and its name, or FILE.json, the file of a "
            f"JSON Schema, not {place!r}"
        )
    if not Path(file).is_file():
        raise UsageError(f"--format: there is no file {file}")
    found = object_in(place)
    if not isinstance(found, (type, dict)):
        raise UsageError(f"{name!r} in {file} is not a class, but of type {type(found).__name__}")
    return found


def _json_in(file: Path) -> Any:
    try:
        found = json.loads(file.read_bytes())
    except OSError as error:
        raise UsageError(f"--format: {file} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--format: {file} is not JSON: {error}") from None
    if not isinstance(found, (dict, bool)):
        raise UsageError(f"--format: {file} is not a JSON Schema, which is an object")
    return found


def _backend(model: str | None, api_base: str | None) -> Backend:
    if api_base is None:
        return default_backend(model)
    if model is None:
        raise UsageError(
            "--api-base needs --model, the name under which that server knows the model"
        )
    from streamval.backends.litellm import LiteLLMBackend, import_litellm  # slow to import
    from streamval.backends.openai import OpenAIBackend

    if model.partition("/")[0] in {str(p.value) for p in import_litellm().provider_list}:
        return LiteLLMBackend(model, api_base=api_base)
    return OpenAIBackend(model, base_url=api_base)
