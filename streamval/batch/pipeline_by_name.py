"""A pipeline of a user's own module, by its name."""

from __future__ import annotations

from typing import Any

from streamval.errors import UsageError
from streamval.pipeline.pipeline import Pipeline
from streamval.requirements.by_name import object_in


def pipeline_named(place: str) -> Pipeline[Any]:
    """Return the pipeline that ``MODULE:NAME`` names, or that the function of that name makes.

    Raises:
        UsageError: If there is no such object, or it is neither.
    """
    found = object_in(place)
    if not isinstance(found, Pipeline) and callable(found):
        try:
            found = found()
        except UsageError:
            raise
        except Exception as error:  # of the user's own function
            raise UsageError(f"{place}() raised {type(error).__name__}: {error}") from error
    if not isinstance(found, Pipeline):
        raise UsageError(
            f"{place} is neither a Pipeline nor a function that makes one, but "
            f"{type(found).__name__}"
        )
    return found
