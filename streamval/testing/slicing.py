"""`slicings`: one text as many streams."""

from __future__ import annotations

import random
from collections.abc import Iterator

EACH_CUT = 100
"""Characters of a text up to which it is cut in two at each of them."""


def slicings(text: str, *, count: int = 20, seed: int = 0) -> Iterator[list[str]]:
    """Yield a text in deltas, sliced in many ways: what judges or cuts it must not depend on them.

    At first the text as a whole, then each character alone, then in two (at each character of a short text), then
    in random pieces.

    Args:
        text: Any text.
        count: How many times in random pieces.
        seed: Of the random pieces.

    Yields:
        The deltas: none is empty, and joined they are the text.

    Example:
        >>> list(slicings("abc", count=0))
        [['abc'], ['a', 'b', 'c'], ['a', 'bc'], ['ab', 'c']]
    """
    yield [text] if text else []
    if len(text) < 2:
        return
    yield list(text)
    rng = random.Random(seed)  # noqa: S311  no secret
    short = len(text) <= EACH_CUT
    cuts = range(1, len(text)) if short else rng.sample(range(1, len(text)), EACH_CUT)
    for cut in cuts:
        yield [text[:cut], text[cut:]]
    for _ in range(count):
        most, deltas, start = rng.choice((2, 5, 20)), [], 0
        while start < len(text):
            size = rng.randint(1, most)
            deltas.append(text[start : start + size])
            start += size
        yield deltas
