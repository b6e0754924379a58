"""Opens the pipeline of ``--pipeline``: from a user's own module, or a model of a gateway's file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from streamval.batch.pipeline_by_name import pipeline_named
from streamval.errors import UsageError
from streamval.pipeline.pipeline import Pipeline


@asynccontextmanager
async def open_pipeline(name: str, model: str | None) -> AsyncIterator[Pipeline[Any]]:
    """Open the pipeline that ``MODULE:NAME``, or a gateway's file and a model of it, names.

    Yields:
        The pipeline. The connections of a gateway's model are closed afterwards.

    Raises:
        UsageError: If there is no such pipeline.
    """
    if not name.endswith((".yaml", ".yml")):
        yield pipeline_named(name)
        return
    if model is None:
        raise UsageError(f"--model says which model of {name} answers")
    from streamval.serve import read_configuration  # an optional extra
    from streamval.serve.service import pipeline_of

    async with pipeline_of(read_configuration(name), model) as pipeline:
        yield pipeline
