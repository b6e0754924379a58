"""Who is asked about an object or array that is being written, and who asked: the tasks of `judge`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias

from streamval.structured.json_events import path_of
from streamval.structured.json_schema.nodes import Group, Node, Switch, Verdict
from streamval.structured.json_schema.scalar import Reason, nearest

SHOWN = 16
"""Branches among whose reasons the nearest is looked for."""


class Judge(Protocol):
    """Takes note of failures."""

    def fail(self, task: Task | None, why: Reason) -> None:
        """Note that a task has failed; without one, the document."""


class Asker:
    """Who asked for a task, or about a value. Its answer counts as it is: for `allOf`, `properties`, `items`."""

    __slots__ = ("task",)

    def __init__(self, task: Task | None) -> None:
        self.task = task

    def failed(self, judge: Judge, why: Reason) -> None:
        """Take a failure, which may come before the value is complete."""
        judge.fail(self.task, why)

    def answered(self, judge: Judge, verdict: Verdict, why: Reason) -> None:
        """Take the verdict on a value that is complete."""
        if verdict is False:
            self.failed(judge, why)
        elif verdict is None and self.task is not None:
            self.task.unsure = True


class Branch(Asker):
    """A branch of `anyOf` or `oneOf`: the last that fails, fails the task."""

    __slots__ = ("left", "whys")

    def __init__(self, task: Task, count: int) -> None:
        super().__init__(task)
        self.left = count
        self.whys: list[Reason] = []

    def failed(self, judge: Judge, why: Reason) -> None:
        """Count the branch as lost."""
        self.left -= 1
        self.whys.append(why)
        if self.left == 0:  # those that failed last came farthest
            judge.fail(self.task, partial(str, nearest(self.whys[-SHOWN:])))


class WhenThere(Asker):
    """A dependent schema: its failure counts once its key is there."""

    __slots__ = ("key", "keys")

    def __init__(self, task: Task, keys: set[str], key: str) -> None:
        super().__init__(task)
        self.keys, self.key = keys, key

    def failed(self, judge: Judge, why: Reason) -> None:
        """Fail the task, if the key is there."""
        if self.key in self.keys:
            judge.fail(self.task, why)


class Noted(Asker):
    """An answer that is noted for the end: of `contains`, or of `unevaluated…`."""

    __slots__ = ("answers", "at")

    def __init__(self, task: Task, answers: Answers, at: str | int) -> None:
        super().__init__(task)
        self.answers, self.at = answers, at

    def failed(self, judge: Judge, why: Reason) -> None:
        """Note a failure."""
        self.answers[self.at] = False, why

    def answered(self, judge: Judge, verdict: Verdict, why: Reason) -> None:
        """Note a verdict; one item too many that matches `contains` fails the task."""
        self.answers[self.at] = verdict, why
        assert self.task is not None
        if not verdict or self.answers is not self.task.contained:
            return
        self.task.matched += 1
        most = self.task.node.most
        if most is not None and self.task.matched > most:
            judge.fail(self.task, lambda: f"{why()}: more than {most} items match `contains`")


Answers: TypeAlias = dict["str | int", tuple[Verdict, Reason]]


def count(answers: Answers, *, wanted: Verdict) -> int:
    """Return how many answers are of this kind."""
    return sum(verdict is wanted for verdict, _ in answers.values())


class Task:
    """A node, asked about an object or array that is being written. What it has no part for stays empty."""

    failed = False
    why: Reason = str
    verdict: Any = None
    asked = False
    matched = 0  # items that match `contains`
    same: tuple[Task, ...] = ()
    groups: tuple[list[Task], ...] = ()
    ones: tuple[list[Task], ...] = ()
    nots: tuple[Task, ...] = ()
    condition: tuple[Task, Task | None, Task | None] | None = None
    dependent: Mapping[str, Task] = MappingProxyType({})

    def __init__(self, node: Node) -> None:
        self.node = node
        self.unsure = node.partial
        self.askers: list[Asker] = []  # tasks about the same value
        self.around: list[Asker] = []  # tasks about the object or array around it
        if node.contains is not None or node.other_keys is not None or node.other_items is not None:
            self.contained: Answers = {}
            self.others: Answers = {}


class Waiting(NamedTuple):
    """A group whose branches are chosen by the value of its first key (`Group.switch`)."""

    task: Task
    group: Group
    switch: Switch
    branch: Branch
    made: list[Task]

    def allowing(self, key: str) -> list[Node] | None:
        """Return the branches that allow the first key; `None` if its value chooses among them."""
        return None if self.switch.key == key else self.switch.allowing(key)


class Open:
    """An object or array that is being written, with the tasks about it."""

    def __init__(self, path: str, *, is_object: bool) -> None:
        self.path = path
        self.value: Any = None  # kept only where a node compares it: `enum`, `const`, `uniqueItems`
        self.is_object = is_object
        self.tasks: dict[int, Task] = {}
        self.waiting: list[Waiting] = []
        self.keys: set[str] = set()
        self.key = ""
        self.count = 0
        self.duplicate = False
        self.seen: set[str] = set()  # items, where they must be unique
        self._alive: list[Task] = []
        self.questions = 0  # that an event may ask: of tasks and patterns

    @property
    def kind(self) -> str:
        """Its type."""
        return "object" if self.is_object else "array"

    def child_path(self) -> str:
        """Return the path of the value that is due."""
        return path_of(self.path, self.key if self.is_object else self.count)

    def add(self, task: Task) -> None:
        """Add the task of a node."""
        self.tasks[id(task.node)] = task
        self._alive.append(task)
        self.questions += 1 + len(task.node.patterns)

    def alive(self) -> list[Task]:
        """Return the tasks that have not failed."""
        alive = [task for task in self._alive if not task.failed]
        if len(alive) < len(self._alive):
            self._alive = alive
            self.questions = sum(1 + len(task.node.patterns) for task in alive)
        return alive
