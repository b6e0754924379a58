"""Tests of `streamval.structured.json_schema.tasks`."""

from streamval.structured.json_schema.nodes import Node
from streamval.structured.json_schema.tasks import Asker, Branch, Noted, Open, Task, WhenThere


class Failures:
    """Takes note of failures, as a judge does."""

    def __init__(self):
        self.said = []

    def fail(self, task, why):
        self.said.append((task, why()))


def test_the_last_branch_fails_its_task_with_the_reason_of_the_nearest():
    task, judge = Task(Node()), Failures()
    branch = Branch(task, 2)
    branch.failed(judge, lambda: "$.b.c: deep")
    assert judge.said == []
    branch.failed(judge, lambda: "$.b: near")
    assert judge.said == [(task, "$.b.c: deep")]


def test_a_dependent_schema_counts_once_its_key_is_there():
    task, judge, keys = Task(Node()), Failures(), set()
    asker = WhenThere(task, keys, "a")
    asker.failed(judge, lambda: "$: no")
    assert judge.said == []
    keys.add("a")
    asker.failed(judge, lambda: "$: no")
    assert judge.said == [(task, "$: no")]


def test_an_answer_that_is_not_sure_makes_the_task_unsure():
    task, judge = Task(Node()), Failures()
    Asker(task).answered(judge, None, str)
    assert task.unsure
    Asker(None).answered(judge, False, lambda: "$: no")
    assert judge.said == [(None, "$: no")]


def test_one_item_too_many_fails_contains():
    task, judge = Task(Node(contains=Node(), most=1)), Failures()
    for at in range(2):
        Noted(task, task.contained, at).answered(judge, True, lambda at=at: f"$[{at}]")
    assert judge.said == [(task, "$[1]: more than 1 items match `contains`")]


def test_failed_tasks_are_asked_no_more():
    opened = Open("$.a", is_object=True)
    one, other = Task(Node()), Task(Node())
    opened.add(one)
    opened.add(other)
    one.failed = True
    assert opened.alive() == [other]
    assert list(opened.tasks.values()) == [one, other]
    opened.key = "b"
    assert opened.child_path() == "$.a.b"
