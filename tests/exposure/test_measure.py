"""Tests of `streamval.exposure.measure`: the counts, and a run through the gateway over real sockets."""

import pytest

from streamval.commands.exposure import OURS
from streamval.errors import StreamBrokenError
from streamval.exposure.client import Endpoint, Seen
from streamval.exposure.measure import counted, measured
from streamval.exposure.planted import HARMLESS, all_cases
from streamval.exposure.upstream import Upstream
from tests.support.gateway import gateway

CASES = all_cases()
FILE = (
    OURS.replace("{", "{{")
    .replace("}", "}}")
    .replace(
        "{{main: {{}}}}", '{{main: {{model: openai/m, api_base: "{url}", continues: message}}}}'
    )
    .replace("{{max_runs: 100}}", "{{port: 0{server}}}")
)


def test_what_is_counted():
    text, case = "".join(CASES[0].pieces), CASES[0]
    seen = {0: Seen(text, 0.1, 1.0, "stop"), 1: Seen("Good.", 0.1, 1.0, "content_filter")}
    sent = {0: len(case.pieces), 1: 0}
    (row,) = counted(seen, sent, 0.01, protocol="chat", streamed=True)
    assert (row.kind, row.cases, row.leaked, row.valid) == ("a word", 2, 1, 0)
    assert row.shown == len(case.bad)
    assert row.paid == len(case.after)
    assert row.ends == ("content_filter", "stop")
    assert row.first_ms is None


def test_times_of_harmless_texts_are_beyond_those_of_the_upstream():
    number = next(n for n, case in enumerate(CASES) if case.kind == HARMLESS)
    case = CASES[number]
    sentence = len("".join(case.pieces).split(". ")[0].split())
    seen = {number: Seen("Good.", sentence * 0.01 + 0.005, (len(case.pieces) - 1) * 0.01 + 0.02)}
    (row,) = counted(seen, {}, 0.01, protocol="chat", streamed=True)
    assert row.first_ms == pytest.approx(5)
    assert row.added_ms == pytest.approx(20)
    assert row.paid == 0


@pytest.mark.slow
async def test_the_gateway_shows_nothing_and_repairs_everything():
    upstream, noted = Upstream(0.0), []
    async with upstream.listening("127.0.0.1", 0) as port:
        async with gateway(f"http://127.0.0.1:{port}/v1", file=FILE) as serving:
            rows = await measured(
                upstream, Endpoint(f"{serving.url}/v1", "careful", "typed"), 0.0, note=noted.append
            )
    assert {(row.protocol, row.streamed) for row in rows} == {
        (protocol, streamed)
        for protocol in ("chat", "responses", "messages")
        for streamed in (True, False)
    }
    for row in rows:
        assert (row.shown, row.leaked, row.valid) == (0, 0, row.cases), row
    assert sum(row.cases for row in rows) == 6 * len(CASES)
    assert noted[0] == "chat, streamed"


async def test_without_rules_everything_is_shown():
    plain = (
        FILE[: FILE.index("models:")]
        + "models: {{m: {{upstream: main}}}}\nserver: {{port: 0{server}}}"
    )
    upstream = Upstream(0.0)
    async with upstream.listening("127.0.0.1", 0) as port:
        async with gateway(f"http://127.0.0.1:{port}/v1", file=plain) as serving:
            endpoint = Endpoint(f"{serving.url}/v1", "m", "m")
            rows = await measured(upstream, endpoint, 0.0, wanted=["chat"])
    for row in rows:
        if row.kind in ("a word", "a secret in pieces", "an unwanted language"):
            assert row.leaked == row.cases, row
            assert row.valid == 0


async def test_an_endpoint_with_another_upstream_is_told_so():
    mine, other = Upstream(0.0), Upstream(0.0)
    async with mine.listening("127.0.0.1", 0), other.listening("127.0.0.1", 0) as port:
        endpoint = Endpoint(f"http://127.0.0.1:{port}/v1", "m", "m")
        with pytest.raises(StreamBrokenError, match="has not asked the scripted upstream"):
            await measured(mine, endpoint, 0.0, wanted=["chat"])


async def test_an_endpoint_that_speaks_nothing_is_an_error():
    upstream = Upstream(0.0)
    async with upstream.listening("127.0.0.1", 0) as port:
        endpoint = Endpoint(f"http://127.0.0.1:{port}/v1", "m", "m")
        with pytest.raises(StreamBrokenError, match="in no protocol: responses error 400"):
            await measured(upstream, endpoint, 0.0, wanted=["responses"])
