"""A backend that writes one answer, breaks off where it is told to, and goes on from any point of it."""

from streamval.backends.base import Backend
from streamval.errors import StreamBrokenError
from streamval.pipeline.repair import LAST_WORDS
from streamval.types.deltas import Delta


class Breaking(Backend):
    """Writes `answer` in deltas, and breaks off.

    Args:
        answer: The deltas: strings of text, and `Delta`s of reasoning and of calls.
        breaks: After how many deltas each of the first attempts breaks off.
        way: How it goes on: `"prefix"`, or `"ask"` as a chat does.
        error: Makes the exception.
    """

    model = "breaking"

    def __init__(self, answer, breaks=(), way="prefix", error=None, model="breaking"):
        self.answer, self.breaks, self.way = answer, list(breaks), way
        self.supports_prefix = way == "prefix"
        self.error = error or (lambda: StreamBrokenError("cut"))
        self.requests = []
        self.model = model

    async def stream(self, request):
        number = len(self.requests)
        self.requests.append(request)
        left = self.breaks[number] if number < len(self.breaks) else None
        for delta in rest(self.answer, self.kept(request)):
            if left == 0:
                raise self.error()
            left = None if left is None else left - 1
            yield delta
        if left is not None:
            raise self.error()
        yield Delta(finish_reason="stop")

    def kept(self, request):
        if self.way == "prefix":
            return request.prefix or ""
        *_, said, asked = ("", "", *request.messages)
        if request.messages[-1].role == "user" and len(request.messages) > 1:
            assert said.content[-LAST_WORDS:].strip() in asked.content
            return said.content
        return ""


def rest(answer, kept):
    """The deltas of an answer behind the text that was kept: all reasoning and all calls again."""
    at = len(kept)
    assert "".join(one for one in answer if isinstance(one, str)).startswith(kept)
    for delta in answer:
        if not isinstance(delta, str):
            yield delta
        elif at < len(delta):
            yield delta[at:]
            at = 0
        else:
            at -= len(delta)
