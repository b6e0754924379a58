"""Every example in a docstring runs."""

import doctest
import importlib
import pkgutil

import pytest

import streamval

LEFT_OUT = {"streamval.backends.llama_server"}  # a program


def modules():
    for found in pkgutil.walk_packages(streamval.__path__, "streamval."):
        if not found.ispkg and found.name not in LEFT_OUT:
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
