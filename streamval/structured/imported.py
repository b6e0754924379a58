"""A type that is named by its file, as on a command line."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from streamval.errors import UsageError


def type_in(place: str) -> type[Any]:
    """The type that ``FILE.py:Name`` names.

    Raises:
        UsageError: If there is none, or the file cannot be imported.

    Example:
        >>> type_in("no_file.py:City")
        Traceback (most recent call last):
        streamval.errors.UsageError: --format is FILE.py:Model, the file of a pydantic model and its name, not 'no_file.py:City'
    """
    file, _, name = place.rpartition(":")
    spec = spec_from_file_location("streamval_format", file) if file and name else None
    if spec is None or spec.loader is None or not Path(file).is_file():
        message = (
            f"--format is FILE.py:Model, the file of a pydantic model and its name, not {place!r}"
        )
        raise UsageError(message)
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where pydantic looks for the names in its annotations
    try:
        spec.loader.exec_module(module)
        found: type[Any] = getattr(module, name)
    except AttributeError:
        message = f"there is no {name!r} in {file}"
        raise UsageError(message) from None
    except Exception as error:  # the user's own file
        message = f"{file} cannot be imported: {type(error).__name__}: {error}"
        raise UsageError(message) from None
    if not isinstance(found, type):
        message = f"{name!r} in {file} is no class, but of type {type(found).__name__}"
        raise UsageError(message)
    return found
