import pytest

from tests.support import command_line


@pytest.fixture
def serving():
    """The environment in which a server of OpenAI's shape is OpenAI."""
    with command_line.serving() as environment:
        yield environment
