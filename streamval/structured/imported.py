"""What a command line names by its place: a type of a file, an object of a module."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamval.errors import UsageError

if TYPE_CHECKING:
    from types import ModuleType


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
    if not name or not Path(file).is_file():
        message = (
            f"--format is FILE.py:Model, the file of a pydantic model and its name, not {place!r}"
        )
        raise UsageError(message)
    found = object_in(place)
    if not isinstance(found, type):
        message = f"{name!r} in {file} is no class, but of type {type(found).__name__}"
        raise UsageError(message)
    return found


def object_in(place: str) -> Any:
    """The object that ``MODULE:NAME`` or ``FILE.py:NAME`` names. Modules of the working directory are found.

    Raises:
        UsageError: If there is none, or the module cannot be imported.

    Example:
        >>> object_in("math:pi")
        3.141592653589793
    """
    source, _, name = place.rpartition(":")
    if not source or not name:
        message = f"{place!r} names nothing: write MODULE:NAME, or FILE.py:NAME"
        raise UsageError(message)
    try:
        module = _of_file(Path(source)) if source.endswith(".py") else _of_name(source)
    except Exception as error:  # the user's own file
        message = f"{source} cannot be imported: {type(error).__name__}: {error}"
        raise UsageError(message) from None
    found = getattr(module, name, None)
    if found is None:
        message = f"there is no {name!r} in {source}"
        raise UsageError(message)
    return found


def _of_file(file: Path) -> ModuleType:
    spec = spec_from_file_location(f"streamval_imported_{file.stem}", file)
    if spec is None or spec.loader is None:
        message = f"{file} is no Python file"
        raise UsageError(message)
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where pydantic looks for the names in its annotations
    spec.loader.exec_module(module)
    return module


def _of_name(module: str) -> ModuleType:
    sys.path.insert(0, "")
    try:
        return import_module(module)
    finally:
        sys.path.remove("")
