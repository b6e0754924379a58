"""Peers that are servers, each with the rules it has for what `exposure.py` plants, in environments of their own."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import time
from pathlib import Path

NEMO = r"""
models:
  - {type: main, engine: openai, model: m, parameters: {base_url: "http://127.0.0.1:UPSTREAM/v1", api_key: none}}
passthrough: true
rails:
  config:
    regex_detection:
      output:
        patterns:
          - "(?i)\\b(forbidden|acme|globex|initech|hooli|umbrella-corp|soylent)\\b"
          - "(?i)project x-[0-9]+"
          - "AKIA[0-9A-Z]{16}"
          - "ghp_[0-9A-Za-z]{36}"
          - "sk_live_[0-9A-Za-z]{24}"
          - "xoxb-[0-9]{10,}-[0-9]{10,}-[0-9A-Za-z]{20,}"
          - "\\b(?:\\d[ -]?){12,15}\\d\\b"
  output:
    flows: [regex check output]
    streaming: {enabled: true, chunk_size: 20, context_size: 5, stream_first: false}
"""

LITELLM = """
model_list:
  - model_name: careful
    litellm_params: {model: openai/m, api_base: "http://127.0.0.1:UPSTREAM/v1", api_key: none}
guardrails:
  - guardrail_name: words
    litellm_params:
      guardrail: litellm_content_filter
      mode: post_call
      default_on: true
      blocked_words:
        - {keyword: forbidden, action: BLOCK}
        - {keyword: acme, action: BLOCK}
        - {keyword: globex, action: BLOCK}
        - {keyword: initech, action: BLOCK}
        - {keyword: hooli, action: BLOCK}
        - {keyword: umbrella-corp, action: BLOCK}
        - {keyword: soylent, action: BLOCK}
      patterns:
        - {pattern_type: regex, name: project, pattern: "(?i)project x-[0-9]+", action: BLOCK}
        - {pattern_type: prebuilt, pattern_name: aws_access_key, action: BLOCK}
        - {pattern_type: prebuilt, pattern_name: github_token, action: BLOCK}
        - {pattern_type: prebuilt, pattern_name: slack_token, action: BLOCK}
        - {pattern_type: prebuilt, pattern_name: generic_api_key, action: BLOCK}
        - {pattern_type: prebuilt, pattern_name: credit_card, action: BLOCK}
        - {pattern_type: prebuilt, pattern_name: visa, action: BLOCK}
        - {pattern_type: prebuilt, pattern_name: mastercard, action: BLOCK}
        - {pattern_type: prebuilt, pattern_name: amex, action: BLOCK}
        - {pattern_type: prebuilt, pattern_name: discover, action: BLOCK}
litellm_settings: {telemetry: false}
"""

SERVERS = {
    "nemoguardrails": (
        "rails/config.yml",
        NEMO,
        "nemoguardrails server --port PORT --config FOLDER --default-config-id rails --disable-chat-ui",
        {"OPENAI_API_KEY": "none"},
    ),
    "litellm": (
        "litellm.yaml",
        LITELLM,
        "litellm --config FOLDER/litellm.yaml --host 127.0.0.1 --port PORT",
        {
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
    ),
}
"""For each its file, what is in it, the command, and its environment."""


@contextlib.contextmanager
def running(name, python, upstream, port, folder, *, rules=True):
    """The peer's server, once it listens; without rules it only passes on."""
    file, text, command, environment = SERVERS[name]
    if not rules:
        text = re.split(r"\n(?:guard)?rails:", text)[0]
    path = Path(folder, name, file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace("UPSTREAM", str(upstream)))
    said = Path(folder, f"{name}.log")
    program, *arguments = (
        command.replace("PORT", str(port))
        .replace("FOLDER", str(path.parents[file.count("/")]))
        .split()
    )
    with said.open("wb") as out:
        process = subprocess.Popen(
            [Path(python).absolute().with_name(program), *arguments],
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        while process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.2)
        else:
            raise SystemExit(f"{name} cannot be measured:\n{said.read_text()[-2000:]}")
        yield
    finally:
        process.terminate()
        process.wait(30)
