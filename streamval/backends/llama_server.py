"""The embedded model's server: ``python -m streamval.backends.llama_server MODEL THREADS CONTEXT``.

A separate process, so that llama.cpp's logging, memory and crashes do not affect the program that
uses it. Reads its key from the first line of its standard input, and prints its address on a line once
it serves. Ends when its standard input closes, so also when the parent process crashes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Serve until standard input ends."""
    import xllamacpp  # only needed in this process

    model, threads, context = sys.argv[1:4]
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {Path(model).name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = int(context)
    params.n_parallel = 1
    params.cpuparams.n_threads = int(threads)
    params.endpoint_metrics = True
    # Any web page can send a request to this address: without the key, it is refused.
    params.api_keys = [sys.stdin.readline().strip()]
    params.cors_origins, params.cors_credentials = "null", False
    params.warmup = False
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # an orderly shutdown would wait for generations that are not wanted any more


if __name__ == "__main__":
    main()
