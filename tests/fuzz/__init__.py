"""Fuzzers: random input by a seed, and what must hold of it. `python -m tests.fuzz` runs them on."""
