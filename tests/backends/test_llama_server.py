"""Tests of `streamval.backends.llama_server`: a real child process."""

import subprocess
import sys
import urllib.request

import pytest

from streamval.backends.local import model_path


@pytest.mark.local_model
def test_it_says_where_it_listens_serves_and_ends_with_its_parents_pipe():
    command = [
        sys.executable,
        "-m",
        "streamval.backends.llama_server",
        str(model_path()),
        "1",
        "64",
    ]
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        print("a-random-key", file=server.stdin, flush=True)
        address = server.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{address}/health", timeout=30) as answer:
            assert answer.status == 200
    finally:
        server.stdin.close()
        assert server.wait(timeout=30) == 0
        server.stdout.close()
