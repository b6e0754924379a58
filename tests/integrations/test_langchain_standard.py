"""The standard tests of LangChain (`langchain-tests`) before `JudgedChatModel`."""

import types

import httpx
import pytest

pytest.importorskip("langchain_tests", reason="`make test-clients` installs langchain-tests")

from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

import streamval as sv
from streamval.integrations.langchain import JudgedChatModel
from tests.support.brain import brain


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Their pictures, sounds and documents come from the internet; ours from here."""
    content = types.SimpleNamespace(content=b"content", raise_for_status=lambda: None)
    monkeypatch.setattr(httpx, "get", lambda url, **options: content)


class Judged:
    """What both suites need to know. The pipeline has the options, so the model takes none."""

    chat_model_class = JudgedChatModel
    standard_chat_model_params = {}
    supports_image_inputs = True
    supports_image_urls = True
    supports_pdf_inputs = True
    supports_audio_inputs = True
    supports_image_tool_message = True
    supports_pdf_tool_message = True
    supports_json_mode = True
    has_tool_choice = True
    supports_model_override = True
    model_override_value = "another"

    @property
    def chat_model_params(self):
        return {"pipeline": sv.Pipeline(brain(), requirements=[sv.no_loop().on("reasoning")])}

    @property
    def supported_usage_metadata_details(self):
        kinds = ["reasoning_output", "cache_read_input"]
        return {"invoke": kinds, "stream": kinds}

    def invoke_with_reasoning_output(self, *, stream=False):
        return self.answered(stream)

    def invoke_with_cache_read_input(self, *, stream=False):
        return self.answered(stream)

    def answered(self, stream):
        model = JudgedChatModel(**self.chat_model_params)
        if not stream:
            return model.invoke("Hello")
        whole = None
        for piece in model.stream("Hello"):
            whole = piece if whole is None else whole + piece
        return whole


class TestUnits(Judged, ChatModelUnitTests):
    pass


class TestWhole(Judged, ChatModelIntegrationTests):
    pass
