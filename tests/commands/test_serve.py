"""Tests of `streamval.commands.serve`."""

import socket

from tests.support.command_line import streamval


def test_check_names_every_mistake_and_serves_nothing(tmp_path):
    path = tmp_path / "gateway.yaml"
    path.write_text("upstreams: {a: {modle: local}}\nmodels: {b: {upstream: c}}\n")
    done = streamval("serve", str(path), "--check")
    said = " ".join(done.stderr.split())
    assert done.returncode == 2
    for mistake in (
        "line 1: upstreams.a.model: is missing",
        "line 1: upstreams.a.modle: is not known here",
    ):
        assert mistake in said
    path.write_text("upstreams: {a: {model: openai/m}}\nmodels: {b: {upstream: a}}\n")
    done = streamval("serve", str(path), "--check")
    assert (done.returncode, done.stdout.strip()) == (0, f"{path} can be served: b")


def test_a_port_that_is_taken_is_said(tmp_path):
    path = tmp_path / "gateway.yaml"
    path.write_text("upstreams: {a: {model: openai/m}}\nmodels: {b: {upstream: a}}\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = streamval("serve", str(path), f"--port={port}")
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in " ".join(done.stderr.split())
