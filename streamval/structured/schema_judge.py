"""Judges JSON by a JSON Schema while it is written: fails where no continuation could be valid.

Each value that is being written has a task for each node of the schema that is asked about it; equal questions
share a task, so there are at most as many tasks a value as the schema has places, however its choices multiply.
A task that has failed tells those that asked (`_Asker`): a part of `allOf` fails the whole, the last branch of
`anyOf` that was left fails it, a value fails its object. Once the root has failed, the document is lost.

A key that stands twice leaves its object undecided, as the last value counts (RFC 8259, section 4): the validator
judges it at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamval.structured.json_events import JSONEvent, OpenString, path_of
from streamval.structured.schema_nodes import (
    Known,
    Node,
    Verdict,
    any_of,
    nearest,
    one_of,
    scalar,
    written,
)

QUESTIONS, QUESTIONS_A_VALUE = 500_000, 64
"""How many questions may be asked of nodes about a document: so many, and so many more for each key and value. A
document that needs more, such as 20,000 items under 3,000 parts of `allOf`, is judged at its end."""


class _Asker:
    """Who asked for a task, or about a value. Its answer counts as it is: for `allOf`, `properties`, `items`."""

    __slots__ = ("task",)

    def __init__(self, task: _Task | None) -> None:
        self.task = task

    def failed(self, judge: SchemaJudge, why: str) -> None:
        """Take a failure, which may come before the value is complete."""
        judge.fail(self.task, why)

    def answered(self, judge: SchemaJudge, verdict: Verdict, why: str) -> None:
        """Take the verdict on a value that is complete."""
        if verdict is False:
            self.failed(judge, why)
        elif verdict is None and self.task is not None:
            self.task.unsure = True


class _Branch(_Asker):
    """A branch of `anyOf` or `oneOf`: the last that fails, fails the task."""

    __slots__ = ("left", "whys")

    def __init__(self, task: _Task, count: int) -> None:
        super().__init__(task)
        self.left = count
        self.whys: list[str] = []

    def failed(self, judge: SchemaJudge, why: str) -> None:
        self.left -= 1
        self.whys.append(why)
        if self.left == 0:
            judge.fail(self.task, nearest(self.whys))


class _WhenThere(_Asker):
    """A dependent schema: its failure counts once its key is there."""

    __slots__ = ("key", "keys")

    def __init__(self, task: _Task, keys: set[str], key: str) -> None:
        super().__init__(task)
        self.keys, self.key = keys, key

    def failed(self, judge: SchemaJudge, why: str) -> None:
        if self.key in self.keys:
            judge.fail(self.task, why)


class _Noted(_Asker):
    """An answer that is noted for the end: of `contains`, or of `unevaluated…`."""

    __slots__ = ("answers", "at")

    def __init__(
        self, task: _Task, answers: dict[str | int, tuple[Verdict, str]], at: str | int
    ) -> None:
        super().__init__(task)
        self.answers, self.at = answers, at

    def failed(self, judge: SchemaJudge, why: str) -> None:
        self.answers[self.at] = False, why

    def answered(self, judge: SchemaJudge, verdict: Verdict, why: str) -> None:
        self.answers[self.at] = verdict, why
        assert self.task is not None
        most = self.task.node.most if self.answers is self.task.contained else None
        if verdict and most is not None and _count(self.answers, wanted=True) > most:
            judge.fail(self.task, f"{why}: more than {most} items match `contains`")


def _count(answers: dict[str | int, tuple[Verdict, str]], *, wanted: Verdict) -> int:
    return sum(verdict is wanted for verdict, _ in answers.values())


class _Task:
    """A node, asked about an object or array that is being written."""

    __slots__ = (
        *(
            "node",
            "askers",
            "around",
            "failed",
            "why",
            "unsure",
            "verdict",
            "same",
            "groups",
            "ones",
        ),
        *("nots", "condition", "dependent", "contained", "others"),
    )

    def __init__(self, node: Node) -> None:
        self.node = node
        self.askers: list[_Asker] = []  # tasks about the same value
        self.around: list[_Asker] = []  # tasks about the object or array around it
        self.failed = False
        self.why = ""
        self.unsure = node.partial
        self.verdict: Any = _NOT_YET
        self.same: list[_Task] = []
        self.groups: list[list[_Task]] = []
        self.ones: list[list[_Task]] = []
        self.nots: list[_Task] = []
        self.condition: tuple[_Task, _Task | None, _Task | None] | None = None
        self.dependent: dict[str, _Task] = {}
        self.contained: dict[str | int, tuple[Verdict, str]] = {}
        self.others: dict[str | int, tuple[Verdict, str]] = {}


_NOT_YET = object()


class _Open:
    """An object or array that is being written, with the tasks about it."""

    __slots__ = ("count", "duplicate", "is_object", "key", "keys", "path", "seen", "tasks", "value")

    def __init__(self, path: str, *, is_object: bool) -> None:
        self.path = path
        self.value: Any = None  # kept only where a node compares it: `enum`, `const`, `uniqueItems`
        self.is_object = is_object
        self.tasks: dict[int, _Task] = {}
        self.keys: set[str] = set()
        self.key = ""
        self.count = 0
        self.duplicate = False
        self.seen: set[str] = set()  # items, where they must be unique

    @property
    def kind(self) -> str:
        return "object" if self.is_object else "array"

    def at(self) -> str | int:
        """Return the key or index of the value that is due."""
        return self.key if self.is_object else self.count

    def child_path(self) -> str:
        return path_of(self.path, self.at())

    def alive(self) -> Iterator[_Task]:
        """Yield the tasks that have not failed."""
        return (task for task in list(self.tasks.values()) if not task.failed)


class SchemaJudge:
    """Takes the events of a JSON document, and says where it can no longer become valid.

    Args:
        root: The schema.

    Attributes:
        complaint: What is wrong, with its path; `None` so far.
        verdict: When the document is complete: whether it is valid; `None` where that is not decided here.
    """

    def __init__(self, root: Node) -> None:
        self._root = root
        self._open: list[_Open] = []
        self._left = QUESTIONS
        self._failures: list[tuple[_Task | None, str]] = []
        self.complaint: str | None = None
        self.verdict: Verdict = None

    @property
    def is_open(self) -> bool:
        """Whether an object or array is being written."""
        return bool(self._open)

    def take(self, event: JSONEvent) -> str | None:
        """Take the next event; return the complaint about the document, or `None`."""
        if self.complaint is not None:
            return self.complaint
        self._left += QUESTIONS_A_VALUE
        if self._left < 0:  # only the brackets are counted from here on
            self._give_up(event)
        elif event.kind == "key":
            self._key(event.value)
        elif event.kind == "end":
            self._end()
        elif event.kind == "value":
            self._value(event.value)
        else:
            self._start(event.path, is_object=event.kind == "start_object")
        return self.complaint

    def begun(self, string: OpenString) -> str | None:
        """Take the beginning of a string that has not ended."""
        for node, askers in self._due() if self._left >= 0 else ():
            if why := _impossible(node, string, set()):
                path = self._open[-1].child_path() if self._open else "$"
                for asker in askers:
                    asker.failed(self, f"{path}: {why}")
        return self.complaint

    def fail(self, task: _Task | None, why: str) -> None:
        """Note that a task has failed; without one, the document."""
        self._failures.append((task, why))
        if (
            len(self._failures) > 1
        ):  # one that follows from another: no recursion, as documents nest deeply
            return
        for one, reason in self._failures:
            if one is None:
                self.complaint = self.complaint or reason
            elif not one.failed:
                one.failed, one.why = True, reason
                for asker in (*one.askers, *one.around):
                    asker.failed(self, reason)
        self._failures.clear()

    def _give_up(self, event: JSONEvent) -> None:
        self._left = -(10**12)
        if event.kind.startswith("start"):
            self._open.append(_Open(event.path, is_object=event.kind == "start_object"))
        elif event.kind == "end":
            self._open.pop()

    def _due(self) -> list[tuple[Node, list[_Asker]]]:
        """Return the nodes that are asked about the next value, each with those who ask."""
        if not self._open:
            return [(self._root, [_Asker(None)])]
        top = self._open[-1]
        if top.duplicate or not top.tasks:
            return []
        due: dict[int, tuple[Node, list[_Asker]]] = {}
        at = top.at()

        def ask(node: Node, asker: _Asker) -> None:
            due.setdefault(id(node), (node, []))[1].append(asker)

        for task in top.alive():
            node, known = task.node, False
            for part in node.under(at) if isinstance(at, str) else node.at(at):
                known = True
                ask(part, _Asker(task))
            if not top.is_object and node.contains is not None:
                ask(node.contains, _Noted(task, task.contained, at))
            others = node.other_keys if top.is_object else node.other_items
            if others is not None and not known:
                ask(others, _Noted(task, task.others, at))
        self._left -= len(due)
        return list(due.values())

    # What comes

    def _key(self, key: str) -> None:
        top = self._open[-1]
        if key in top.keys and not top.duplicate:
            top.duplicate = True
            for task in top.alive():
                task.unsure = True
        top.key = key
        top.keys.add(key)
        if top.duplicate:
            return
        for task in top.alive():
            node = task.node
            if node.most_keys is not None and len(top.keys) > node.most_keys:
                self.fail(task, f"{top.child_path()}: there are more than {node.most_keys} keys")
            if node.names is not None:
                verdict, why = scalar(node.names, key)
                if verdict is False:
                    self.fail(task, f"{top.child_path()}: as a key, {why}")
                task.unsure |= verdict is None
            if (dependent := task.dependent.get(key)) is not None and dependent.failed:
                self.fail(task, dependent.why)
            if any(part.never for part in node.under(key)):
                self.fail(task, f"{top.child_path()}: the key {key!r} is not allowed")

    def _value(self, value: Any) -> None:
        """Take a scalar."""
        due = self._due()
        if due:
            path = self._open[-1].child_path() if self._open else "$"
        for node, askers in due:
            known: Known = {}
            verdict, why = scalar(node, value, known)
            self._left -= len(known)
            if not self._open:
                self.verdict = verdict
            for asker in askers:
                asker.answered(self, verdict, f"{path}: {why}")
        self._next(value)

    def _keep(self, value: Any) -> None:
        """Add a value to the one around it, where that is kept."""
        around = self._open[-1].value if self._open else None
        if isinstance(around, dict):
            around[self._open[-1].key] = value
        elif isinstance(around, list):
            around.append(value)

    def _start(self, path: str, *, is_object: bool) -> None:
        opened = _Open(path, is_object=is_object)
        for node, askers in self._due():
            task = self._task(opened, node)
            task.around += askers
            if task.failed:
                for asker in askers:
                    asker.failed(self, task.why)
        around = self._open[-1] if self._open else None
        compared = any(task.node.choices is not None or task.node.unique for task in opened.alive())
        items = around is not None and any(task.node.unique for task in around.alive())
        if compared or items or (around is not None and around.value is not None):
            opened.value = {} if is_object else []
        self._open.append(opened)

    def _end(self) -> None:
        ended = self._open.pop()
        tasks = list(ended.tasks.values())
        if not ended.duplicate:
            for task in ended.alive():
                self._close(ended, task)
        for task in tasks:
            self._result(ended, task)
        if not self._open:
            self.verdict = tasks[0].verdict
        for task in tasks:
            for asker in task.around:
                asker.answered(self, task.verdict, task.why or ended.path)
        self._next(ended.value)

    def _next(self, value: Any) -> None:
        """Go on behind a value. One that is not kept is `None`."""
        self._keep(value)
        if not self._open or self._open[-1].is_object:
            return
        top = self._open[-1]
        unique = [task for task in top.alive() if task.node.unique]
        if unique:
            item = written(value)
            for task in unique:
                if item in top.seen:
                    self.fail(task, f"{top.child_path()}: the item {item:.60} stands twice")
            top.seen.add(item)
        top.count += 1
        for task in top.alive():
            most = task.node.most_items
            if most is not None and top.count > most:
                self.fail(task, f"{top.path}: there are more than {most} items")

    # Tasks

    def _task(self, opened: _Open, node: Node) -> _Task:
        """Return the task of a node about a value that begins, made once."""
        if (known := opened.tasks.get(id(node))) is not None:
            return known
        self._left -= 1
        task = opened.tasks[id(node)] = _Task(node)
        if why := _excluded(node, opened):
            task.failed, task.why = True, f"{opened.path}: {why}"
            return task
        for part in node.same:
            task.same.append(self._asked(opened, part, _Asker(task)))
        for made, groups in ((task.groups, node.any_of), (task.ones, node.one_of)):
            for group in groups:
                branch = _Branch(task, len(group))
                made.append([self._asked(opened, part, branch) for part in group])
        task.nots = [self._task(opened, part) for part in node.nots]
        if node.condition is not None:
            condition, then, other = node.condition
            neither = _Branch(task, 2)  # neither the condition nor `else`
            task.condition = (
                self._asked(opened, condition, neither),
                None if then is None else self._task(opened, then),
                None if other is None else self._asked(opened, other, neither),
            )
        for key, part in node.dependent.items():
            asker = _WhenThere(task, opened.keys, key)
            task.dependent[key] = self._asked(opened, part, asker)
        return task

    def _asked(self, opened: _Open, node: Node, asker: _Asker) -> _Task:
        task = self._task(opened, node)
        task.askers.append(asker)
        if task.failed:
            asker.failed(self, task.why)
        return task

    def _close(self, ended: _Open, task: _Task) -> None:
        """Judge what only the closing bracket decides."""
        node, why = task.node, ""
        if node.choices is not None and written(ended.value) not in node.choices:
            why = f"the {ended.kind} is none of the allowed values"
        elif ended.is_object:
            needed = [*node.required]
            for key, names in node.needs.items():
                needed += names if key in ended.keys else ()
            missing = [key for key in needed if key not in ended.keys]
            if missing:
                why = f"the key {missing[0]!r} is missing"
            elif len(ended.keys) < node.fewest_keys:
                why = f"there are {len(ended.keys)} of at least {node.fewest_keys} keys"
        elif ended.count < node.fewest_items:
            why = f"there are {ended.count} of at least {node.fewest_items} items"
        elif node.contains is not None:
            sure, maybe = (_count(task.contained, wanted=one) for one in (True, None))
            if sure + maybe < node.fewest:
                why = f"{sure} of at least {node.fewest} items match `contains`"
            task.unsure |= sure < node.fewest or (
                node.most is not None and sure + maybe > node.most
            )
        if why:
            self.fail(task, f"{ended.path}: {why}")

    def _result(self, ended: _Open, task: _Task) -> Verdict:
        """Return whether a value that is complete meets a node."""
        if task.verdict is _NOT_YET:
            task.verdict = True  # while it is asked: references may lead in a circle
            verdict: Verdict = False
            if not task.failed:
                said = list(self._said(ended, task))
                said += self._of_others(ended, task)
                wrong = next((why for one, why in said if one is False), None)
                if wrong is not None:
                    self.fail(task, wrong or f"{ended.path}: it is what `not` excludes")
                else:
                    verdict = None if task.unsure or any(one is None for one, _ in said) else True
            task.verdict = verdict
        result: Verdict = task.verdict
        return result

    def _said(self, ended: _Open, task: _Task) -> Iterator[tuple[Verdict, str]]:
        """Yield what the parts of a node say of a value that is complete, each of which must not be false."""

        def of(one: _Task) -> tuple[Verdict, str]:
            return self._result(ended, one), one.why

        for one in (*task.same, *(one for key, one in task.dependent.items() if key in ended.keys)):
            yield of(one)
        for group in task.groups:
            yield any_of([of(one) for one in group])
        for group in task.ones:
            verdict, why = one_of([of(one) for one in group], f"the {ended.kind}")
            yield verdict, why if why.startswith("$") else f"{ended.path}: {why}"
        for one in task.nots:
            verdict, _ = of(one)
            yield None if verdict is None else not verdict, ""
        if task.condition is not None:
            condition, then, other = task.condition
            verdict, _ = of(condition)
            if verdict is None:
                yield None, ""
            elif (chosen := then if verdict else other) is not None:
                yield of(chosen)

    def _of_others(self, ended: _Open, task: _Task) -> list[tuple[Verdict, str]]:
        """Return what `unevaluated…` says of each value that nothing else has evaluated."""
        node = task.node.other_keys if ended.is_object else task.node.other_items
        if node is None:
            return []
        evaluated = self._evaluated(ended, task, set())
        if evaluated is None:
            return [(None, "")]
        return [answer for at, answer in task.others.items() if at not in evaluated]

    def _evaluated(self, ended: _Open, task: _Task, asked: set[int]) -> set[str | int] | None:
        """Return the keys or indexes that a task and its parts have evaluated; `None` where that is not decided."""
        if task.node.partial:
            return None
        asked.add(id(task))
        evaluated = _own(ended, task)
        for part in self._parts(ended, task):
            verdict = self._result(ended, part)
            if verdict is None:
                return None
            if verdict and (part.node.other_keys or part.node.other_items):
                return {*ended.keys, *range(ended.count)}  # all of it
            if verdict and id(part) not in asked:
                found = self._evaluated(ended, part, asked)
                if found is None:
                    return None
                evaluated |= found
        return evaluated

    def _parts(self, ended: _Open, task: _Task) -> list[_Task]:
        """Return the tasks whose evaluations count for a task, where they have met the value."""
        parts = [*task.same, *(one for key, one in task.dependent.items() if key in ended.keys)]
        for group in (*task.groups, *task.ones):
            parts += group
        if task.condition is not None:
            condition, then, other = task.condition
            chosen = then if self._result(ended, condition) else other
            parts += [condition] if chosen is None else [condition, chosen]
        return parts


def _own(ended: _Open, task: _Task) -> set[str | int]:
    """Return the keys or indexes that a node itself has evaluated."""
    node = task.node
    if ended.is_object:
        return {key for key in ended.keys if any(True for _ in node.under(key))}
    evaluated: set[str | int] = {at for at in range(ended.count) if any(True for _ in node.at(at))}
    if node.contains_evaluates:
        evaluated |= {at for at, (verdict, _) in task.contained.items() if verdict}
    return evaluated


def _excluded(node: Node, opened: _Open) -> str:
    """Return why an object or array cannot meet a node, whatever is in it; empty if it may."""
    if node.never:
        return "no value is allowed here"
    if not node.takes(opened.kind):
        return f"an {opened.kind} is not of type {' or '.join(sorted(node.types or ()))}"
    bracket = "{" if opened.is_object else "["
    if node.choices is not None and not any(one.startswith(bracket) for one in node.choices):
        return f"an {opened.kind} is none of the allowed values"
    return ""


def _impossible(node: Node, string: OpenString, asked: set[int]) -> str:
    """Return why no string with this beginning meets a node; empty if one may."""
    if id(node) in asked:
        return ""
    asked.add(id(node))
    why = _no_string(node, string)
    for part in node.same:
        why = why or _impossible(part, string, asked)
    for group in (*node.any_of, *node.one_of):
        if not why:
            # Each with its own memory, as a node that was asked about before may have excluded the string.
            whys = [_impossible(part, string, {id(node)}) for part in group]
            why = nearest(whys) if all(whys) else ""
    return why


def _no_string(node: Node, string: OpenString) -> str:
    if node.never:
        return "no value is allowed here"
    if not node.takes("string"):
        return f"a string is not of type {' or '.join(sorted(node.types or ()))}"
    if string.escaped:  # an escape may stand for any character
        return ""
    if node.longest is not None and string.size > node.longest:
        return f"the string has more than {node.longest} characters"
    head = written(string.head)[:-1]
    if node.choices is not None and not any(one.startswith(head) for one in node.choices):
        return f"no allowed string begins with {head[:60]}"
    return ""
