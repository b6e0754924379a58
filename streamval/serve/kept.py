"""The conversations of Responses that are kept, so that a client sends only what is new (`previous_response_id`)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from streamval.errors import RequestError

Turns = tuple[Mapping[str, Any], ...]


class Kept:
    """Keeps the last conversations in memory, each for its owner alone.

    Args:
        count: How many; 0 for none.
        seconds: For how long.
        clock: Returns the seconds since some moment.

    Example:
        >>> kept = Kept(1, 60.0)
        >>> kept.keep("ann", "resp_1", ({"role": "user", "content": "Hi"},))
        >>> kept.find("ann", "resp_1")
        ({'role': 'user', 'content': 'Hi'},)
    """

    def __init__(self, count: int, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self.count = count
        self._seconds = seconds
        self._clock = clock
        self._turns: OrderedDict[tuple[str, str], tuple[float, Turns]] = OrderedDict()

    def keep(self, owner: str, name: str, turns: Turns) -> None:
        """Keep the conversation up to and including an answer; drop the oldest beyond `count`."""
        if self.count:
            self._turns[owner, name] = (self._clock() + self._seconds, turns)
            while len(self._turns) > self.count:
                self._turns.popitem(last=False)

    def find(self, owner: str, name: object) -> Turns:
        """Return a conversation.

        Raises:
            RequestError: If none is kept by that name, or any more, or for this owner.
        """
        if not self.count:
            raise RequestError(
                "no responses are kept here: send the whole conversation as input, or set "
                "`server: {responses: N}` in the gateway's file",
                param="previous_response_id",
            )
        ends, turns = self._turns.get((owner, str(name)), (0.0, ()))
        if ends <= self._clock():
            raise RequestError(
                f"no response {str(name)[:80]!r} is kept (any more): send the whole conversation as input",
                status=404,
                code="previous_response_not_found",
                param="previous_response_id",
            )
        return turns
