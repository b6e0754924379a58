"""Every error streamval raises, in one tree.

    StreamvalError
    ├── UsageError (ValueError)            an argument that cannot work; nothing was started
    ├── RunError (RuntimeError)            a run or pipeline driven in a way it does not allow
    ├── ChunkerError                       a chunking strategy broke its contract
    ├── ValidatorError                     a requirement answered with something that is no verdict
    │   └── ValidatorTimeoutError (TimeoutError)
    ├── PreconditionException              the input of a generative function was refused
    ├── ContractViolationError             a contract did not hold, remedies included
    ├── InputTypeError (TypeError)         the input of a contract is of another type
    ├── OutputTypeError (TypeError)        an output did not become the type that was asked for
    └── BackendError                       a backend could not generate, or stopped
        ├── AuthenticationError            the key was refused or is missing
        ├── UnknownModelError              no such model
        ├── RateLimitError                 too many requests (HTTP 429)
        ├── ConnectionFailedError          there is no answer at the address
        ├── StreamBrokenError              the stream ended before the model did
        ├── StallError (TimeoutError)      no delta for `stall_timeout` seconds
        └── DeltaTypeError (TypeError)     the backend yielded what the chunker cannot take

Warnings, which are no errors:

    UserWarning
    └── SharedStateWarning                 copies of a requirement share state, and it has changed

A failed requirement is never an exception: it is an event and a result. What a validator itself
raises reaches the caller unchanged, so it is not in this tree.
"""

from __future__ import annotations

from typing import Any


class StreamvalError(Exception):
    """The root of all errors that this library raises by itself."""


class SharedStateWarning(UserWarning):
    """Copies of a requirement share a list, dict or set, and one of them has changed it."""


class UsageError(StreamvalError, ValueError):
    """An argument cannot work. Raised before anything was started."""


class RunError(StreamvalError, RuntimeError):
    """A run or a pipeline was driven in a way it does not allow."""


class ChunkerError(StreamvalError):
    """A chunking strategy broke its contract."""


class ValidatorError(StreamvalError):
    """A requirement answered with something that is no verdict."""


class ValidatorTimeoutError(ValidatorError, TimeoutError):
    """A requirement gave no verdict within its `timeout`."""


class PreconditionException(StreamvalError):  # noqa: N818  the reference's name
    """The input of a generative function does not meet its preconditions. Nothing was generated.

    Attributes:
        validation: A `ValidationResult` for each precondition that failed.
    """

    def __init__(self, message: str, validation: list[Any]) -> None:
        super().__init__(message)
        self.validation = validation


class ContractViolationError(StreamvalError):
    """A contract did not hold, remedies included.

    Attributes:
        stage: Where: `"pre"`, `"act"`, `"output"` or `"post"`.
    """

    def __init__(self, message: str, stage: str) -> None:
        super().__init__(message)
        self.stage = stage


class InputTypeError(StreamvalError, TypeError):
    """The input of a contract is of another type than it says. Nothing was started."""


class OutputTypeError(StreamvalError, TypeError):
    """An output did not become the type that was asked for."""


class BackendError(StreamvalError):
    """A backend could not generate, or stopped halfway."""


class AuthenticationError(BackendError):
    """The provider refused the key, or none was given."""


class UnknownModelError(BackendError):
    """The provider knows no such model."""


class RateLimitError(BackendError):
    """The provider asks for fewer requests (HTTP 429).

    Attributes:
        retry_after: Seconds after which it may be asked again; `None` where it does not say.
    """

    retry_after: float | None = None


class ConnectionFailedError(BackendError):
    """There is no answer at the provider's address."""


class StreamBrokenError(BackendError):
    """The stream ended before the model had finished."""


class StallError(BackendError, TimeoutError):
    """No delta arrived for `stall_timeout` seconds."""


class DeltaTypeError(BackendError, TypeError):
    """A backend yielded, or an operator made, something that is no piece of the output."""
