"""Every example in a docstring runs."""

import doctest
import importlib
import pkgutil

import pytest

PACKAGES = [
    "streamval",
    *(f"streamval.{p}" for p in ("backends", "requirements", "operators", "chunkers", "sinks")),
]


def modules():
    for package in PACKAGES:
        path = importlib.import_module(package).__path__
        for found in pkgutil.iter_modules(path, f"{package}."):
            if not found.ispkg and found.name != "streamval.backends.llama_server":
                yield found.name


@pytest.mark.parametrize("name", sorted(set(modules())))
def test_examples(name):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(importlib.import_module(name), optionflags=flags).failed == 0


def test_there_are_examples():
    total = sum(
        len(test.examples)
        for name in modules()
        for test in doctest.DocTestFinder().find(importlib.import_module(name))
    )
    assert total > 100
