"""Tests of `streamval.serve.metrics`."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.support.gateway import gateway
from tests.support.upstream import upstream, words

ASK = [{"role": "user", "content": "Say it."}]


async def test_what_is_counted():
    def script(body, before):
        bad = "One is fine. Two is forbidden here. Three is fine."
        return words(bad) if not before else words(" Two is good.")

    async with upstream(script) as behind, gateway(behind.url) as serving:
        async with httpx.AsyncClient(trust_env=False, base_url=serving.url) as client:
            body = {"model": "careful", "messages": ASK}
            assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
            await client.post("/v1/chat/completions", json={"model": "nobody", "messages": ASK})
            text = (await client.get("/metrics")).text
    counted = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert counted["streamval_runs_total", "careful", "valid"] == 1
    assert counted["streamval_chunks_total", "careful"] == 2
    assert counted["streamval_cuts_total", "careful"] == 1
    assert counted["streamval_retries_total", "careful", "continue"] == 1
    assert counted["streamval_refused_total", "model_not_found"] == 1
    rule = 'never say "forbidden"'
    assert counted["streamval_verdicts_total", "careful", "fail", rule] == 1
    assert counted["streamval_verdicts_total", "careful", rule, "pass"] >= 2
    assert counted["streamval_first_chunk_seconds_count", "careful"] == 1
    spent = counted["streamval_tokens_total", "careful", "spent"]
    assert spent > counted["streamval_tokens_total", "careful", "discarded"] > 0
    assert (counted["streamval_running",], counted["streamval_waiting",]) == (0, 0)
