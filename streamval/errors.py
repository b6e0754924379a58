"""Every error that streamval raises, in one tree.

    StreamvalError
    ├── UsageError (ValueError)            an argument that cannot work; nothing was started
    │   ├── ConfigurationError             a gateway's file that cannot be served
    │   └── RequestError                   a client's request that the gateway refuses
    ├── RunError (RuntimeError)            a run or pipeline driven in a way it does not allow
    ├── ChunkerError                       a chunking strategy broke its contract
    ├── ValidatorError                     a requirement returned something that is not a verdict
    │   └── ValidatorTimeoutError (TimeoutError)
    ├── RequirementsNotMetError            a chain of operators ends here: an output failed a requirement
    ├── PreconditionException              the input of a generative function was refused
    ├── NotValidError                      an agent's model never wrote a valid answer
    ├── ContractViolationError             a contract did not hold, remedies included
    ├── InputTypeError (TypeError)         the input of a contract is of another type
    ├── OutputTypeError (TypeError)        an output did not become the type that was asked for
    └── BackendError                       a backend could not generate, or stopped
        ├── AuthenticationError            the key was refused or is missing
        ├── UnknownModelError              no such model
        ├── RateLimitError                 too many requests (HTTP 429)
        ├── RefusedRequestError            the provider rejects the request as invalid
        ├── ConnectionFailedError          the address does not answer
        ├── StreamBrokenError              the stream ended before the model did
        ├── StallError (TimeoutError)      no delta for `stall_timeout` seconds
        └── DeltaTypeError (TypeError)     the backend yielded content that the chunker cannot take

One warning has a class of its own:

    UserWarning
    └── SharedStateWarning                 copies of a requirement share state that has changed

A failed requirement is an event and a result of a run, and no exception, but where a chain of operators
wants one (`RequirementsNotMetError`). An exception of a validator
itself reaches the caller unchanged, so it is not in this tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any


class StreamvalError(Exception):
    """The root of all errors that this library raises."""


class SharedStateWarning(UserWarning):
    """Copies of a requirement share a list, dict or set, and one of them has changed it."""


class UsageError(StreamvalError, ValueError):
    """An argument cannot work. Raised before anything was started."""


class ConfigurationError(UsageError):
    """A gateway's file cannot be served. The message names every mistake, each with its line."""


class RequestError(UsageError):
    """The gateway refuses a client's request.

    Attributes:
        status: The status of HTTP.
        kind: The type of the error in the answer.
        code: A machine-readable code.
        param: The field of the request that is wrong.
        headers: Headers of the answer.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.code, self.param = status, kind, code, param
        self.headers = headers or {}


class RunError(StreamvalError, RuntimeError):
    """A run or a pipeline was driven in a way it does not allow."""


class ChunkerError(StreamvalError):
    """A chunking strategy broke its contract."""


class ValidatorError(StreamvalError):
    """A requirement returned something that is not a verdict."""


class ValidatorTimeoutError(ValidatorError, TimeoutError):
    """A requirement gave no verdict within its `timeout`."""


class RequirementsNotMetError(StreamvalError):
    """An output failed its requirements: what ``release(on_fail="error")`` ends a chain of operators with.

    Attributes:
        failures: A `Failure` for each requirement that failed.
    """

    def __init__(self, failures: Iterable[Any]) -> None:
        self.failures = tuple(failures)
        super().__init__("; ".join(str(failure) for failure in self.failures))


class PreconditionException(StreamvalError):  # noqa: N818  the reference's name
    """The input of a generative function does not meet its preconditions. Nothing was generated.

    Attributes:
        validation: A `ValidationResult` for each precondition that failed.
    """

    def __init__(self, message: str, validation: list[Any]) -> None:
        super().__init__(message)
        self.validation = validation


class NotValidError(StreamvalError):
    """The model of an agent never wrote an answer that met its requirements."""


class ContractViolationError(StreamvalError):
    """A contract did not hold, remedies included.

    Attributes:
        stage: Where: `"pre"`, `"act"`, `"output"` or `"post"`.
    """

    def __init__(self, message: str, stage: str) -> None:
        super().__init__(message)
        self.stage = stage


class InputTypeError(StreamvalError, TypeError):
    """The input of a contract does not have the declared type. Nothing was started."""


class OutputTypeError(StreamvalError, TypeError):
    """An output did not become the type that was asked for."""


class BackendError(StreamvalError):
    """A backend could not generate, or stopped halfway.

    Attributes:
        answer: What the server answered in place of a stream, where the gateway may pass it on: the status, the error
            in OpenAI's form, and headers. It was not judged.
        may_resume: Whether the same request may succeed a moment later, so that a `Repair` resumes the stream.
        retry_after: Seconds after which a request may be sent again, if the provider says so.
    """

    answer: tuple[int, dict[str, Any], dict[str, str]] | None = None
    may_resume: bool = False
    retry_after: float | None = None


class AuthenticationError(BackendError):
    """The provider refused the key, or none was given."""


class UnknownModelError(BackendError):
    """The provider knows no such model."""


class RateLimitError(BackendError):
    """The provider asks for fewer requests (HTTP 429)."""

    may_resume = True


class RefusedRequestError(BackendError):
    """The provider rejects the request as invalid."""


class ConnectionFailedError(BackendError):
    """The provider's address does not answer."""

    may_resume = True


class StreamBrokenError(BackendError):
    """The stream ended before the model had finished."""

    may_resume = True


class StallError(BackendError, TimeoutError):
    """No delta arrived for `stall_timeout` seconds."""

    may_resume = True


class DeltaTypeError(BackendError, TypeError):
    """A backend or an operator yielded something other than str, bytes or Delta."""


def unknown_name(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for a name that a module does not have, with the name that was meant.

    Example:
        >>> print(unknown_name("streamval", "NoSecrets", ["no_secrets", "Pipeline"]))
        streamval has no 'NoSecrets'; did you mean 'no_secrets'?
    """
    names = {one.replace("_", "").lower(): one for one in known}
    close = get_close_matches(name.replace("_", "").lower(), names, 1, 0.8)
    hint = f"; did you mean {names[close[0]]!r}?" if close else ""
    return AttributeError(f"{module} has no {name!r}{hint}", name=name)
