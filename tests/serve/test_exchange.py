"""Tests of `streamval.serve.exchange`: no character lost, repeated or leaked, whatever the run does."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from streamval.serve.configuration import ServedModel
from streamval.serve.exchange import Exchange
from streamval.testing import run_virtually
from streamval.wire.openai_chat import read_request
from tests.view.test_run_view import a_pipeline


class Client:
    """What goes over the wire."""

    def __init__(self):
        self.status, self.body, self.ended = 0, b"", False

    async def send(self, message):
        assert not self.ended, "after the end"
        if message["type"] == "http.response.start":
            assert not self.status
            self.status = message["status"]
        else:
            assert self.status
            self.body += message["body"]
            self.ended = not message.get("more_body", False)

    @property
    def frames(self):
        frames = self.body.decode().split("\n\n")
        lines = [line[6:] for line in frames if line and line != ": ping"]
        return [json.loads(line) for line in lines if line != "[DONE]"]

    @property
    def text(self):
        choices = [choice for frame in self.frames for choice in frame.get("choices", ())]
        return "".join(choice["delta"].get("content") or "" for choice in choices)


@settings(max_examples=300)
@given(st.randoms(use_true_random=False), st.booleans(), st.sampled_from(["chunk", "all"]))
def test_what_is_sent_is_what_stands(dice, stream, release):
    async def main():
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": stream}
        run, client, delivered = a_pipeline(dice).start("go"), Client(), []
        run.subscribe(lambda event: delivered.append(run.text))
        exchange = Exchange(client.send, "id")
        model = ServedModel(upstream="u", release=release)
        exchange.begin(read_request(json.dumps(body).encode()), run, model, wants_events=False)
        try:
            async with run:
                await exchange.answer()
        except OSError:
            await exchange.break_off(502, {"error": {"message": "gone"}})
        return run, client, exchange, delivered

    (run, client, exchange, delivered), _ = run_virtually(main())
    assert client.ended
    if client.status != 200:
        assert (client.status, exchange.outcome) == (502, "broken")
        assert "error" in json.loads(client.body)
        return
    if not stream:
        said = json.loads(client.body)
        text = said["choices"][0]["message"]["content"]
    else:
        text = client.text
    if exchange.outcome == "valid":
        assert text.rstrip() == run.text.rstrip()
        assert text.startswith(run.text)
    elif release == "all" or exchange.outcome == "broken":
        assert text in ("", *delivered)
        assert release == "chunk" or not text
    else:
        assert text in ("", *delivered)
    if stream:
        reasons = [c["finish_reason"] for f in client.frames for c in f.get("choices", ())]
        done = client.body.endswith(b"data: [DONE]\n\n")
        assert done == (exchange.outcome != "broken")
        assert (reasons[-1:] != [None]) == done or not reasons
        if exchange.outcome == "rejected":
            assert reasons[-1] == "content_filter"


def test_the_dice_make_all_outcomes():
    import random

    outcomes = set()
    for seed in range(200):

        async def main(seed=seed):
            body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
            run, client = a_pipeline(random.Random(seed)).start("go"), Client()
            exchange = Exchange(client.send, "id")
            made = read_request(json.dumps(body).encode())
            exchange.begin(made, run, ServedModel(upstream="u"), wants_events=True)
            try:
                async with run:
                    await exchange.answer()
            except OSError:
                await exchange.break_off(502, {"error": {}})
            outcomes.add((exchange.outcome, client.status))

        run_virtually(main())
    assert {("valid", 200), ("rejected", 200), ("broken", 200), ("broken", 502)} <= outcomes
