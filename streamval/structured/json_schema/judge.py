"""Judges JSON by a JSON Schema while it is written: fails where no continuation could be valid.

Each value that is being written has a task for each node of the schema that is asked about it; equal questions
share a task, so there are at most as many tasks a value as the schema has places, however its choices multiply.
A task that has failed tells those that asked (`tasks.Asker`): a part of `allOf` fails the whole, the last branch of
`anyOf` that was left fails it, a value fails its object. Once the root has failed, the document is lost.

A wrong value fails at once, although a later value of the same key would replace it (RFC 8259, section 4, leaves
open which counts). A key that stands twice leaves its object undecided: the validator judges it at the end, by
its last value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

from streamval.structured.json_events import JSONEvent, OpenLiteral, OpenString, path_of
from streamval.structured.json_schema.beginnings import excluded, impossible, may_still_fail
from streamval.structured.json_schema.nodes import Group, Node, Verdict, written
from streamval.structured.json_schema.scalar import (
    Known,
    Reason,
    any_of,
    nearest,
    one_of,
    scalar,
    why_not,
    why_not_one,
)
from streamval.structured.json_schema.tasks import (
    Asker,
    Branch,
    Noted,
    Open,
    Task,
    Waiting,
    WhenThere,
    count,
)

QUESTIONS, QUESTIONS_A_VALUE = 500_000, 64
"""How many questions may be asked of nodes about a document: so many, and so many more for each key and value. A
document that needs more, such as 20,000 items under 3,000 parts of `allOf`, is judged at its end."""


_Due: TypeAlias = list[tuple[Node, list[Asker]]]


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
        self._open: list[Open] = []
        self._left = QUESTIONS
        self._failures: list[tuple[Task | None, Reason]] = []
        # The nodes that are asked about the value that is due, and those of them that its beginning may yet fail.
        self._next: _Due | None = None
        self._undecided: _Due | None = None
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
            return None
        depth = len(self._open)
        if depth:
            self._left -= self._open[-1].questions
        try:
            if event.kind == "key":
                self._key(event.value)
            elif event.kind == "end":
                self._end()
            elif event.kind == "value":
                self._value(event.value, event.path)
            else:
                self._start(event.path, is_object=event.kind == "start_object")
        except RecursionError:  # hundreds of references that lead to each other
            del self._open[depth:]
            self._give_up(event, ended=len(self._open) < depth)
        self._next = self._undecided = None
        return self.complaint

    def begun(self, beginning: OpenString | OpenLiteral) -> str | None:
        """Take the beginning of a string, or of a number or word, that has not ended; or a comma."""
        if self._left < 0:
            return None
        try:
            return self._begun(beginning)
        except RecursionError:  # the whole value is judged when it ends
            self._undecided = []
            return None

    def _begun(self, beginning: OpenString | OpenLiteral) -> str | None:
        if beginning.head == "," and isinstance(beginning, OpenLiteral):
            return self._comma(self._open[-1])
        top = self._open[-1] if self._open else None
        if self._undecided == [] and not (top is not None and top.waiting):
            return None  # no more of it can fail anything
        for one in top.waiting if top is not None else ():
            if isinstance(beginning, OpenString) and not one.switch.may_begin(beginning):
                self.fail(one.task, self._here("no branch allows what begins here"))
        undecided, known = [], dict[int, str]()
        for node, askers in self._due() if self._undecided is None else self._undecided:
            if why := impossible(node, beginning, known):
                reason = self._here(why)
                for asker in askers:
                    asker.failed(self, reason)
            elif may_still_fail(node):
                undecided.append((node, askers))
        self._undecided = undecided
        self._left -= max(len(known) - QUESTIONS_A_VALUE, 0)
        return self.complaint

    def _comma(self, top: Open) -> str | None:
        """Take a comma, behind which another item follows. In an object it may be a key that stands already."""
        for task in top.alive() if not top.is_object else ():
            node = task.node
            if node.most_items is not None and top.count >= node.most_items:
                self.fail(task, partial(_too_many, top.path, node.most_items, "items"))
            if any(part.never for part in node.at(top.count)):
                self.fail(task, self._here("no value is allowed here"))
        return self.complaint

    def fail(self, task: Task | None, why: Reason) -> None:
        """Note that a task has failed; without one, the document."""
        self._failures.append((task, why))
        if (
            len(self._failures) > 1
        ):  # it follows from another: no recursion, as documents nest deeply
            return
        for one, reason in self._failures:
            if one is None:
                self.complaint = self.complaint or reason()
            elif not one.failed:
                one.failed, one.why = True, reason
                for asker in (*one.askers, *one.around):
                    asker.failed(self, reason)
        self._failures.clear()

    def _here(self, why: str) -> Reason:
        path = self._open[-1].child_path() if self._open else "$"
        return lambda: f"{path}: {why}"

    def _give_up(self, event: JSONEvent, *, ended: bool = False) -> None:
        self._left = -(10**12)
        if event.kind.startswith("start"):
            self._open.append(Open(event.path, is_object=event.kind == "start_object"))
        elif event.kind == "end" and not ended:
            self._open.pop()

    def _due(self) -> _Due:
        """Return the nodes that are asked about the next value, which has begun, each with those who ask."""
        if self._next is None:
            self._next = self._asked_next()
            self._left -= len(self._next)
        return self._next

    def _asked_next(self) -> _Due:
        if not self._open:
            return [(self._root, [Asker(None)])]
        top = self._open[-1]
        if top.duplicate:
            return []
        due: dict[int, tuple[Node, list[Asker]]] = {}
        for task in top.alive():
            for node, asker in self._parts_next(top, task):
                if (known := due.get(id(node))) is None:
                    due[id(node)] = node, [asker]
                else:
                    known[1].append(asker)
        return list(due.values())

    def _parts_next(self, top: Open, task: Task) -> list[tuple[Node, Asker]]:
        """Return the parts of a node that are asked about the next value in it."""
        node = task.node
        if top.is_object:
            at: str | int = top.key
            asked, others = node.under(top.key), node.other_keys
        else:
            at = top.count
            asked, others = node.at(at), node.other_items
            if node.most_items is not None and at >= node.most_items:
                self.fail(task, partial(_too_many, top.path, node.most_items, "items"))
        parts: list[tuple[Node, Asker]] = [(part, Asker(task)) for part in asked]
        if others is not None and not asked:
            parts.append((others, Noted(task, task.others, at)))
        if node.contains is not None and not top.is_object:
            parts.append((node.contains, Noted(task, task.contained, at)))
        return parts

    # What comes

    def _key(self, key: str) -> None:
        top = self._open[-1]
        if key in top.keys and not top.duplicate:
            top.duplicate = True
            for task in top.alive():
                task.unsure = True
        top.key = key
        top.keys.add(key)
        self._choose(top, lambda one: one.allowing(key))
        if not top.duplicate:
            for task in top.alive():
                self._judge_key(top, task)

    def _judge_key(self, top: Open, task: Task) -> None:
        node, key = task.node, top.key
        if node.most_keys is not None and len(top.keys) > node.most_keys:
            self.fail(task, partial(_too_many, top.child_path(), node.most_keys, "keys"))
        if node.names is not None:
            known: Known = {}
            verdict = scalar(node.names, key, known)
            if verdict is False:
                why = why_not(node.names, key, known)
                self.fail(task, self._here(f"as a key, {why}"))
            task.unsure |= verdict is None
        if (dependent := task.dependent.get(key)) is not None and dependent.failed:
            self.fail(task, dependent.why)
        for part in node.under(key):
            if part.never:
                self.fail(task, self._here(f"the key {key!r} is not allowed"))

    def _value(self, value: Any, path: str) -> None:
        """Take a scalar."""
        top = self._open[-1] if self._open else None
        if top is not None:
            self._choose(top, lambda one: one.allowing(top.key) or one.switch.chosen(value))
        for node, askers in self._due():
            known: Known = {}
            verdict = scalar(node, value, known)
            self._left -= len(known)
            if top is None:
                self.verdict = verdict
            why = partial(_of_scalar, path, node, value, known)
            for asker in askers:
                asker.answered(self, verdict, why)
        self._go_on(value)

    def _keep(self, value: Any) -> None:
        """Add a value to the one around it, where that is kept."""
        around = self._open[-1].value if self._open else None
        if isinstance(around, dict):
            around[self._open[-1].key] = value
        elif isinstance(around, list):
            around.append(value)

    def _start(self, path: str, *, is_object: bool) -> None:
        around = self._open[-1] if self._open else None
        if around is not None:
            self._choose(around, lambda one: one.group)
        opened = Open(path, is_object=is_object)
        for node, askers in self._due():
            task = self._task(opened, node)
            task.around += askers
            if task.failed:
                for asker in askers:
                    asker.failed(self, task.why)
        compared = any(task.node.choices is not None or task.node.unique for task in opened.alive())
        items = around is not None and any(task.node.unique for task in around.alive())
        if compared or items or (around is not None and around.value is not None):
            opened.value = {} if is_object else []
        self._open.append(opened)

    def _end(self) -> None:
        ended = self._open[-1]
        self._choose(ended, lambda one: one.group)
        self._open.pop()
        tasks = list(ended.tasks.values())
        if not ended.duplicate:
            for task in ended.alive():
                self._close(ended, task)
        for task in tasks:
            self._result(ended, task)
        if not self._open:
            self.verdict = tasks[0].verdict
        for task in tasks:
            why = task.why if task.failed else partial(str, ended.path)
            for asker in task.around:
                asker.answered(self, task.verdict, why)
        self._go_on(ended.value)

    def _go_on(self, value: Any) -> None:
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
                    self.fail(task, self._here(f"the item {item:.60} occurs twice"))
            top.seen.add(item)
        top.count += 1

    # Branches that the first key chooses

    def _choose(self, top: Open, chosen_of: Callable[[Waiting], list[Node] | None]) -> None:
        """Ask the branches that `chosen_of` returns; `None` leaves a group waiting. Branches may have groups too."""
        while chosen := [
            (one, nodes) for one in top.waiting if (nodes := chosen_of(one)) is not None
        ]:
            done = [one for one, _ in chosen]
            top.waiting = [one for one in top.waiting if one not in done]
            for one, nodes in chosen:
                self._ask_chosen(top, one, nodes)
            self._next = self._undecided = None

    def _ask_chosen(self, top: Open, one: Waiting, nodes: list[Node]) -> None:
        before = len(top.tasks)
        if len(nodes) < len(one.group):
            why = self._here("no branch allows what stands here")
            one.branch.whys.append(why)
            one.branch.left -= len(one.group) - len(nodes)
            if not nodes:
                self.fail(one.task, why)
        one.made.extend(self._asked(top, part, one.branch) for part in nodes)
        if top.keys:  # these branches have not been asked about the key
            for task in list(top.tasks.values())[before:]:
                self._judge_key(top, task)

    # Tasks

    def _task(self, opened: Open, node: Node) -> Task:
        """Return the task of a node about a value that begins, made once."""
        if (known := opened.tasks.get(id(node))) is not None:
            return known
        self._left -= 1
        task = Task(node)
        opened.add(task)
        if why := excluded(node, opened.kind):
            task.failed, task.why = True, lambda: f"{opened.path}: {why}"
            return task
        if not node.is_leaf:
            self._ask_parts(opened, task)
        if node.dependent:
            task.dependent = {
                key: self._asked(opened, part, WhenThere(task, opened.keys, key))
                for key, part in node.dependent.items()
            }
        return task

    def _ask_parts(self, opened: Open, task: Task) -> None:
        """Ask the parts of a node about the same value."""
        node = task.node
        task.same = tuple(self._asked(opened, part, Asker(task)) for part in node.same)
        task.groups = tuple(self._group(opened, task, group) for group in node.any_of)
        task.ones = tuple(self._group(opened, task, group) for group in node.one_of)
        task.nots = tuple(self._task(opened, part) for part in node.nots)
        if node.condition is not None:
            condition, then, other = node.condition
            neither = Branch(task, 2)  # neither the condition nor `else`
            task.condition = (
                self._asked(opened, condition, neither),
                None if then is None else self._task(opened, then),
                None if other is None else self._asked(opened, other, neither),
            )

    def _group(self, opened: Open, task: Task, group: Group) -> list[Task]:
        branch = Branch(task, len(group))
        if group.switch is None or not opened.is_object:
            return [self._asked(opened, part, branch) for part in group]
        made: list[Task] = []
        opened.waiting.append(Waiting(task, group, group.switch, branch, made))
        return made

    def _asked(self, opened: Open, node: Node, asker: Asker) -> Task:
        task = self._task(opened, node)
        task.askers.append(asker)
        if task.failed:
            asker.failed(self, task.why)
        return task

    def _close(self, ended: Open, task: Task) -> None:
        """Judge what only the closing bracket decides."""
        node, why, path = task.node, "", ended.path
        if node.choices is not None and written(ended.value) not in node.choices:
            why = f"the {ended.kind} is none of the allowed values"
        elif ended.is_object:
            needed = [*node.required]
            for key, names in node.needs.items():
                needed += names if key in ended.keys else ()
            missing = next((key for key in needed if key not in ended.keys), None)
            if missing is not None:
                why, path = "it is missing", path_of(path, missing)
            elif len(ended.keys) < node.fewest_keys:
                why = f"there are {len(ended.keys)} of at least {node.fewest_keys} keys"
        elif ended.count < node.fewest_items:
            why = f"there are {ended.count} of at least {node.fewest_items} items"
        elif node.contains is not None:
            sure, maybe = (count(task.contained, wanted=one) for one in (True, None))
            if sure + maybe < node.fewest:
                why = f"{sure} of at least {node.fewest} items match `contains`"
            task.unsure |= sure < node.fewest or (
                node.most is not None and sure + maybe > node.most
            )
        if why:
            self.fail(task, lambda: f"{path}: {why}")

    def _result(self, ended: Open, task: Task) -> Verdict:
        """Return whether a value that is complete meets a node."""
        if not task.asked:
            task.asked, task.verdict = (
                True,
                True,
            )  # while it is asked: references may lead in a circle
            task.verdict = self._whole(ended, task)
        result: Verdict = task.verdict
        return result

    def _whole(self, ended: Open, task: Task) -> Verdict:
        if task.failed:
            return False
        verdict: Verdict = None if task.unsure else True
        for said, why in self._said(ended, task):
            if said is False:
                self.fail(
                    task, partial(str, why())
                )  # now, as reasons in reasons would be asked again and again
                return False
            verdict = verdict and said
        return verdict

    def _said(self, ended: Open, task: Task) -> Iterator[tuple[Verdict, Reason]]:
        """Yield what the parts of a node say of a value that is complete, each of which must not be false."""

        def of(one: Task) -> Verdict:
            return self._result(ended, one)

        for one in task.same:
            yield of(one), one.why
        for key, one in task.dependent.items():
            if key in ended.keys:
                yield of(one), one.why
        for group in task.groups:
            yield any_of(map(of, group)), partial(nearest, (one.why for one in group))
        for group in task.ones:
            said = [of(one) for one in group]
            shown = f"{ended.path}: the {ended.kind}"
            yield one_of(said), partial(why_not_one, said, shown, (one.why for one in group))
        for one in task.nots:
            verdict = of(one)
            excluded = None if verdict is None else not verdict
            yield excluded, lambda: f"{ended.path}: it is what `not` excludes"
        if task.condition is not None:
            yield self._of_condition(ended, *task.condition)
        yield from self._of_others(ended, task)

    def _of_condition(
        self, ended: Open, condition: Task, then: Task | None, other: Task | None
    ) -> tuple[Verdict, Reason]:
        verdict = self._result(ended, condition)
        chosen = then if verdict else other
        if verdict is None or chosen is None:
            return verdict is not None or None, str
        return self._result(ended, chosen), chosen.why

    def _of_others(self, ended: Open, task: Task) -> Iterator[tuple[Verdict, Reason]]:
        """Yield what `unevaluated…` says of each value that nothing else has evaluated."""
        node = task.node.other_keys if ended.is_object else task.node.other_items
        if node is None:
            return
        evaluated = self._evaluated(ended, task, set())
        if evaluated is None:
            yield None, str
            return
        for at, (verdict, why) in task.others.items():
            if at not in evaluated:
                path = path_of(ended.path, at)
                what = "key" if ended.is_object else "item"
                none = partial(str, f"{path}: the {what} {at!r} is not allowed")
                yield verdict, none if node.never else why

    def _evaluated(self, ended: Open, task: Task, asked: set[int]) -> set[str | int] | None:
        """Return the keys or indexes that a task and its parts have evaluated; `None` where that is not decided."""
        if task.node.partial:
            return None
        asked.add(id(task))
        evaluated = _own(ended, task)
        for part in self._parts(ended, task):
            verdict = self._result(ended, part)
            if verdict is None:
                return None
            others = part.node.other_keys if ended.is_object else part.node.other_items
            if verdict and others is not None:
                return {*ended.keys, *range(ended.count)}  # all of it
            if verdict and id(part) not in asked:
                found = self._evaluated(ended, part, asked)
                if found is None:
                    return None
                evaluated |= found
        return evaluated

    def _parts(self, ended: Open, task: Task) -> list[Task]:
        """Return the tasks whose evaluations count for a task, where they have met the value."""
        parts = [*task.same, *(one for key, one in task.dependent.items() if key in ended.keys)]
        for group in (*task.groups, *task.ones):
            parts += group
        if task.condition is not None:
            condition, then, other = task.condition
            chosen = then if self._result(ended, condition) else other
            parts += [condition] if chosen is None else [condition, chosen]
        return parts


def _own(ended: Open, task: Task) -> set[str | int]:
    """Return the keys or indexes that a node itself has evaluated."""
    node = task.node
    if node.is_constant:
        return set()
    if ended.is_object:
        return {key for key in ended.keys if node.under(key)}
    evaluated: set[str | int] = {at for at in range(ended.count) if node.at(at)}
    if node.contains_evaluates:
        evaluated |= {at for at, (verdict, _) in task.contained.items() if verdict}
    return evaluated


def _too_many(path: str, most: int, what: str) -> str:
    return f"{path}: there are more than {most} {what}"


def _of_scalar(path: str, node: Node, value: Any, known: Known) -> str:
    why = why_not(node, value, known)
    return f"{path}: {why}" if why else path
