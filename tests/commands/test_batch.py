"""Tests of `streamval.commands.batch`: what it takes, and how it ends."""

import pytest

from tests.support.batch_command import JOB, made, results, rows, run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give the rows, the file for the results, and --pipeline"),
        (JOB, "rows.jsonl cannot be read: No such file"),
        ((*JOB[:3], "made:nothing"), "there is no 'nothing' in made"),
        ((*JOB[:3], "other:x"), "other cannot be imported: ModuleNotFoundError"),
        ((*JOB[:3], "gateway.yaml"), "--model says which model of gateway.yaml answers"),
        ((JOB[0], "no/out.jsonl", *JOB[2:]), "there is no folder no: name a file for the results"),
        ((JOB[0], "out.jsonl.gz", *JOB[2:]), "results are not compressed"),
        (("made.py", *JOB[1:]), "made.py, line 2 is not JSON"),
        (("--status", "out.jsonl"), "there is no job of out.jsonl"),
        ((*JOB, "--ray", "local"), "--ray needs an extra: pip install 'streamval-llm[ray]'"),
    ],
)
def test_wrong_use_is_said_in_a_line(folder, arguments, says):
    if "--ray" in arguments:
        rows(folder, "one")
    done = run(*arguments)
    said = " ".join(done.stderr.split())
    assert says in said
    assert done.returncode == 2
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("prompts", "more", "status", "answered"),
    [
        (("one", "two"), (), 0, 2),
        (("one", "fail"), (), 1, 2),
        (("one", "fail"), ("--limit", "1"), 0, 1),
        (("fail", "one", "two"), ("--max-failures", "1", "--task-limit", "1"), 1, 1),
        (("one", "two", "three"), ("--token-budget", "1", "--task-limit", "1"), 1, 1),
    ],
)
def test_its_exit_status_says_how_it_went(folder, prompts, more, status, answered):
    rows(folder, *prompts)
    done = run(*JOB, *more)
    assert done.returncode == status, done.stderr
    assert sum(1 for one in results(folder) if one["attempts"]) == answered


def test_failed_rows_are_asked_again(folder):
    rows(folder, "one", "fail")
    assert run(*JOB).returncode == 1
    before = (folder / "made.py").read_text()
    (folder / "made.py").write_text(before.replace("'bad' if", "'fair' if"))
    done = run(*JOB, "--retry-failed")
    assert done.returncode == 0, done.stderr
    assert [one["text"] for one in results(folder)] == ["one is fine.", "fail is fair."]
