"""The standard tests of LangChain for `ChatOpenAI` before the address in `SUITE_URL`."""

import os

import httpx
import pytest
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests


class TestBefore(ChatModelIntegrationTests):
    chat_model_class = ChatOpenAI
    supports_json_mode = True
    has_tool_choice = True
    supports_image_inputs = False

    @property
    def chat_model_params(self):
        # Each test has a loop of its own, so no connection can be kept for the next.
        limits = httpx.Limits(max_keepalive_connections=0)
        params = {"model": "brain", "base_url": os.environ["SUITE_URL"], "api_key": "x"}
        params |= {"max_retries": 0, "stream_usage": True}
        params["http_async_client"] = httpx.AsyncClient(limits=limits)
        if os.environ["SUITE_API"] == "responses":
            params["use_responses_api"] = True
        return params


pytestmark = pytest.mark.filterwarnings("ignore")
