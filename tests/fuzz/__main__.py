"""`python -m tests.fuzz [--seconds S] [--seed N]`: every fuzzer in turn, until the time is up.

Stops at the first difference, prints it with its seed, and exits with 1.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter

from tests.fuzz.schemas import schema_difference
from tests.fuzz.sliced import chunker_difference, reader_difference
from tests.fuzz.typed import cases, difference

FUZZERS = {
    "slicings of JSON and near-JSON": reader_difference,
    "slicings of prose for a chunker": chunker_difference,
    "JSON Schemas and documents beside jsonschema-rs": schema_difference,
}
EACH = 5
"""Texts a seed."""


def one_round(seed: int, tried: Counter[str]) -> str | None:
    """All fuzzers by one seed; returns the first difference."""
    for name, fuzz in FUZZERS.items():
        for number in range(EACH):
            tried[name] += 1
            if found := fuzz(random.Random(f"{seed} {number}")):
                return f"{name}: {found}"
    for case in cases(random.Random(seed)):
        tried["types and documents beside pydantic"] += 1
        if found := asyncio.run(difference(case)):
            return f"{case}\n  {found}"
    return None


def main() -> int:
    """Fuzz until the time is up, or something is found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    given = parser.parse_args()
    print(f"from seed {given.seed} on, for {given.seconds:g} seconds")
    tried: Counter[str] = Counter()
    ends, seed = time.monotonic() + given.seconds, given.seed
    while time.monotonic() < ends:
        found = one_round(seed, tried)
        if found is not None:
            print(f"seed {seed}: {found}")
            return 1
        seed += 1
    print("no difference in " + ", ".join(f"{count:,} {name}" for name, count in tried.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
