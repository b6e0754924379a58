"""Requirements: who judges."""

from streamval.requirements.base import Requirement, simple_validate
from streamval.requirements.check import stream_check
from streamval.requirements.judge import default_output_to_bool
from streamval.requirements.limits import char_limit, sentence_limit, word_limit
from streamval.requirements.words import (
    NoRepetition,
    forbidden_pattern,
    forbidden_words,
    required_pattern,
)

__all__ = [
    "NoRepetition",
    "Requirement",
    "char_limit",
    "default_output_to_bool",
    "forbidden_pattern",
    "forbidden_words",
    "required_pattern",
    "sentence_limit",
    "simple_validate",
    "stream_check",
    "word_limit",
]
