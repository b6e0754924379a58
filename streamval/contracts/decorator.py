"""`contract`: the promises of a class, checked when it is defined and enforced on each call."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from streamval.backends.base import Backend
from streamval.contracts.expression import Expression
from streamval.contracts.remedy import logger
from streamval.contracts.terms import DEFAULT_RETRY_PARAMS, Contract, RetryParams, Terms
from streamval.errors import UsageError

E = TypeVar("E", bound="type[Expression]")


def contract(
    *,
    pre_remedy: bool = False,
    post_remedy: bool = True,
    accumulate_errors: bool = False,
    verbose: bool = False,
    remedy_retry_params: RetryParams | None = None,
    backend: Backend | str | None = None,
) -> Callable[[E], E]:
    """Put a class of `Expression` under contract.

    A call then goes through these stages:

    1. The input is bound and its type checked. `pre` judges it: an exception (or False) is a
       violation. With `pre_remedy` a model is asked for an input that holds, which `pre` judges
       again; otherwise the contract has failed.
    2. `act`, if there is one, transforms the input.
    3. The model is asked, with `prompt` and that input, for an output of the type that `forward`
       returns. It is judged while it is written: the first wrong value stops it. `post` judges the
       whole. With `post_remedy` it is asked again, with the failures in the prompt.
    4. `forward` is called in any case: with the transformed input and
       `self.contract_result` where the contract held, else with the original input, so that it can
       fall back, or raise `self.contract_exception`.

    `pre`, `act`, `post` and `forward` may be async. Their types are pydantic models
    (`LLMDataModel`), or any that pydantic knows.

    Args:
        pre_remedy: Let the model repair an input that `pre` rejects.
        post_remedy: Let the model repair an output of the wrong type, or an output that `post` rejects.
        accumulate_errors: Put the failures of all its answers into the prompt, not only of the last.
        verbose: Log prompts and stages, at the level of info, to the logger
            ``streamval.contracts``; to stderr, where your program has not set up logging.
        remedy_retry_params: The number of remedies, and the pauses between them.
        backend: The backend of instances without a `backend` of their own.

    Returns:
        A class decorator.

    Raises:
        UsageError: If the class has no `prompt`, or its methods lack the types; or if a parameter
            cannot work.

    Example:
        >>> from streamval import ScriptedBackend
        >>> @contract(backend=ScriptedBackend('{"value": ["red", "green"]}'))
        ... class Colours(Expression):
        ...     prompt = "Name as many colours as the input says."
        ...     def post(self, output: list[str]) -> bool:
        ...         if len(output) != self._current_input:
        ...             raise ValueError(f"{len(output)} are not {self._current_input}")
        ...         return True
        ...     def forward(self, n: int) -> list[str]:
        ...         return self.contract_result or []
        >>> Colours()(2)
        ['red', 'green']
    """
    terms = Terms(
        pre_remedy=pre_remedy,
        post_remedy=post_remedy,
        accumulate_errors=accumulate_errors,
        verbose=verbose,
        params=_checked(remedy_retry_params or {}),
        backend=backend,
    )

    if verbose and not logger.hasHandlers():
        logger.addHandler(logging.StreamHandler())
        logger.setLevel(logging.INFO)

    def decorate(cls: E) -> E:
        if not (isinstance(cls, type) and issubclass(cls, Expression)):
            raise UsageError(f"contract() decorates a class of Expression, not {cls!r}")
        cls._contract = Contract(cls, terms)
        return cls

    return decorate


def _checked(given: RetryParams) -> RetryParams:
    unknown = set(given) - set(DEFAULT_RETRY_PARAMS)
    if unknown:
        known = ", ".join(DEFAULT_RETRY_PARAMS)
        raise UsageError(f"remedy_retry_params has no {min(unknown)!r}; there are {known}")
    params: RetryParams = {**DEFAULT_RETRY_PARAMS, **given}
    if not isinstance(params["tries"], int):
        raise UsageError(f"tries in remedy_retry_params is a whole number, not {params['tries']!r}")
    negative = [
        name for name, value in params.items() if isinstance(value, (int, float)) and value < 0
    ]
    if negative:
        raise UsageError(f"{negative[0]} in remedy_retry_params cannot be negative")
    return params
