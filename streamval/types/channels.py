"""The channels on which a model writes."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Channel: TypeAlias = Literal["text", "reasoning", "tool"]
"""The answer; what the model thinks before or between; its calls of tools."""

CHANNELS: tuple[Channel, ...] = get_args(Channel)
