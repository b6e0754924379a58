"""Setters for the `__init__` of a frozen dataclass whose instances are made often."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def setters(cls: type[Any]) -> list[Callable[[object, Any], None]]:
    """How an `__init__` writes the fields of a frozen dataclass with slots, in their order.

    `object.__setattr__`, which a generated `__init__` calls, looks the field up again each time.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True, slots=True, init=False)
        ... class Word:
        ...     text: str
        ...     def __init__(self, text):
        ...         set_text(self, text)
        >>> (set_text,) = setters(Word)
        >>> Word("rain")
        Word(text='rain')
    """
    return [vars(cls)[field.name].__set__ for field in fields(cls)]
