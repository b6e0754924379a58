"""A brute-force oracle: where a text stops being the beginning of a valid document, over a finite domain.

The domain is finite, so the oracle may say "impossible" earlier than is true, never later. A judge that fails an
invalid document before the oracle does is wrong; the distance behind it shows how early the judge is.
"""

import json
from bisect import bisect_left
from functools import lru_cache
from itertools import product

import jsonschema_rs

SCALARS = (1, "x", 12, "xy", True, None)


@lru_cache(maxsize=4)
def domain(size):
    """Documents as (text, value): scalars, and containers to a depth of 2, of the first `size` scalars.

    Arrays have up to 2 items, objects the keys a and b in both orders: 5,171 documents of 3 scalars, 54,278 of 6.
    """
    scalars = list(SCALARS[:size])
    inner = _containers(scalars)
    values = scalars + _containers([*scalars, *inner])
    return [(json.dumps(value), value) for value in values]


def _containers(parts):
    pairs = list(product(parts, repeat=2))
    arrays = [[], *([one] for one in parts), *map(list, pairs)]
    objects = [{}, *({key: one} for key in "ab" for one in parts)]
    objects += [{"a": one, "b": other} for one, other in pairs]
    objects += [{"b": one, "a": other} for one, other in pairs]
    return arrays + objects


class Oracle:
    """Knows all valid documents of the domain, by jsonschema-rs.

    Attributes:
        valid: Their texts, sorted.
        invalid: The texts of the others.
    """

    def __init__(self, schema, size):
        is_valid = jsonschema_rs.validator_for(schema, offline=True).is_valid
        self.valid, self.invalid = [], []
        for text, value in domain(size):
            (self.valid if is_valid(value) else self.invalid).append(text)
        self.valid.sort()

    def earliest(self, text):
        """Return the number of characters after which no valid document begins with the text so far.

        `None` if the text is valid. Where a valid document goes on from the whole text, as 12 does from 1, only
        the end of the text decides: that is one more than its characters.
        """
        at = bisect_left(self.valid, text)
        around = self.valid[max(at - 1, 0) : at + 1]
        if text in around:
            return None
        return 1 + max((_common(text, one) for one in around), default=0)


def _common(text, other):
    return next(
        (n for n, (one, two) in enumerate(zip(text, other, strict=False)) if one != two),
        min(len(text), len(other)),
    )


def failed_after(schema, pieces):
    """Return the number of characters after which a watch of a `JSONSchema` fails; `None` if it does not."""
    watch, read = schema.watch(), 0
    for piece in pieces:
        read += len(piece)
        if watch.feed(piece) is not None:
            return read
    return None
