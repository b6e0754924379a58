"""A pipeline by its name: of a user's own module, or of a gateway's file."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from streamval.errors import UsageError
from streamval.pipeline.pipeline import Pipeline
from streamval.structured.imported import object_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def pipeline_named(name: str, model: str | None) -> AsyncIterator[Pipeline[Any]]:
    """The pipeline that ``MODULE:NAME`` names, or the one of a model in a gateway's file.

    Raises:
        UsageError: If there is none.
    """
    if name.endswith((".yaml", ".yml")):
        if model is None:
            message = f"--model says which model of {name} answers"
            raise UsageError(message)
        from streamval.serve import read_configuration  # an optional extra
        from streamval.serve.service import pipeline_of

        async with pipeline_of(read_configuration(name), model) as made:
            yield made
        return
    found = object_in(name)
    if not isinstance(found, Pipeline) and callable(found):
        try:
            found = found()
        except UsageError:
            raise
        except Exception as error:  # of the user's own function
            message = f"{name}() raised {type(error).__name__}: {error}"
            raise UsageError(message) from error
    if not isinstance(found, Pipeline):
        message = (
            f"{name} is no Pipeline, nor a function that makes one, but {type(found).__name__}"
        )
        raise UsageError(message)
    yield found
