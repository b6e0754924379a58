"""`make bench-schema`: JSON Schema as it is written, beside its test suite, JSONSchemaBench and a brute-force oracle.

Prints three Markdown tables: verdicts and how early they come, the cost by kind of document, and the naive way.
Exits with 1 if a verdict of ours is wrong where jsonschema-rs's is right, or a valid document fails early.
"""

# The JSON Schema Test Suite is in the sdist of `jsonschema` (MIT, (c) 2012 Julian Berman).
#
# jsonschemabench_sample.jsonl is from JSONSchemaBench (https://github.com/guidance-ai/jsonschemabench,
# arXiv:2501.10868), folder maskbench/data: 40 files below 4 kB whose source is before "---" in their names, shuffled
# by random.Random(7), with tests of both labels, all of which are those of jsonschema-rs. Its licence is MIT by the
# card of the data set, https://huggingface.co/datasets/epfl-dlab/JSONSchemaBench; the repository has no licence file.

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # for the folder `tests`

import jsonschema_rs
import pydantic_core

from streamval.errors import UsageError
from streamval.structured.json_schema.schema import JSONSchema
from streamval.structured.reader import JSONReader
from tests.fuzz.schemas import Maker
from tests.support.oracle import SCALARS, Oracle, failed_after

SAMPLE = Path(__file__).with_name("jsonschemabench_sample.jsonl")
DRAFTS = {
    "2020-12": ("draft2020-12", "https://json-schema.org/draft/2020-12/schema"),
    "7": ("draft7", "http://json-schema.org/draft-07/schema#"),
    "2019-09": ("draft2019-09", "https://json-schema.org/draft/2019-09/schema"),
    "6": ("draft6", "http://json-schema.org/draft-06/schema#"),
    "4": ("draft4", "http://json-schema.org/draft-04/schema#"),
}
DELTA = 4
"""Characters of a delta where time is measured."""

LISTED = 30
"""Refused schemas that are listed."""

ORACLE_SCHEMAS, ORACLE_DOCUMENTS = 100, 200
"""Random schemas, and how many documents of the domain for each."""

NAIVE_DOCUMENTS = 200


def deltas(text, size=DELTA):
    return [text[at : at + size] for at in range(0, len(text), size)]


# Verdicts


@dataclass
class Row:
    """What one suite gives."""

    name: str
    formats: bool
    documents: int = 0
    refused: list[str] = field(default_factory=list)
    remote: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    shared: int = 0  # wrong verdicts that are jsonschema-rs's as well
    failed_early: list[str] = field(default_factory=list)
    invalid: int = 0
    before_end: int = 0
    shares: list[float] = field(default_factory=list)
    theirs: int = 0  # wrong verdicts of jsonschema-rs
    seconds: float = 0.0
    size: int = 0

    def judge(self, name, schema, tests):
        """Judge the documents of a schema, each with its label."""
        try:
            made = JSONSchema(schema, assert_formats=self.formats)
        except UsageError as error:
            is_remote = "refers to" in str(error)
            said = f"{name}: {str(error).splitlines()[0][:160]}"
            (self.remote if is_remote else self.refused).append(said)
            return
        validator = jsonschema_rs.validator_for(schema, validate_formats=self.formats, offline=True)
        for data, label in tests:
            text = json.dumps(data)
            self._judge(f"{name}: {text[:160]}", made, validator.is_valid(data), text, label)

    def _judge(self, where, made, theirs, text, label):
        self.documents += 1
        failed, verdict = failed_after(made, text), made.complaint(text) is None
        self.theirs += theirs != label
        if verdict != label:
            self.shared += theirs == verdict
            whose = ", as jsonschema-rs" if theirs == verdict else ""
            self.wrong.append(f"{where}: {said(verdict)}{whose}")
        is_early = failed is not None and failed < len(text)
        if label and is_early:
            self.failed_early.append(f"{where}: after {failed} of {len(text)} characters")
        if not label:
            self.invalid += 1
            self.before_end += is_early
            self.shares.append((failed or len(text)) / len(text))
        watch, pieces, read = made.watch(), deltas(text), 0
        began = time.perf_counter()
        for piece in pieces:
            read += 1
            if watch.feed(piece) is not None:
                break
        self.seconds += time.perf_counter() - began
        self.size += len("".join(pieces[:read]).encode())

    def cells(self):
        early = f"{self.before_end:,} ({self.before_end / max(self.invalid, 1):.0%})"
        return [
            self.name,
            f"{self.documents:,}",
            f"{len(self.refused)} ({len(self.remote)} remote)",
            f"{len(self.wrong)} ({self.shared} as jsonschema-rs)",
            str(len(self.failed_early)),
            early,
            f"{statistics.median(self.shares or [1]):.0%}",
            str(self.theirs),
            f"{self.seconds / max(self.size, 1) * 1e6:.2f}",
        ]

    @property
    def is_right(self):
        return len(self.wrong) == self.shared and not self.failed_early


HEADERS = [
    "suite",
    "documents",
    "schemas refused",
    "wrong verdicts",
    "valid documents failed early",
    "invalid documents failed before their last character",
    "median share read of an invalid document",
    "jsonschema-rs at the end: wrong verdicts",
    "µs a byte",
]


def said(verdict):
    return "judged valid" if verdict else "judged invalid"


def suite_row(folder, draft):
    directory, uri = DRAFTS[draft]
    row = Row(f"JSON Schema Test Suite, {draft}", formats=False)
    for path in sorted((folder / directory).glob("*.json")):
        for group in json.loads(path.read_text()):
            schema = group["schema"]
            if isinstance(schema, dict) and "$schema" not in schema:
                schema = {"$schema": uri, **schema}
            tests = [(one["data"], one["valid"]) for one in group["tests"]]
            row.judge(f"{directory}/{path.name}: {group['description']}", schema, tests)
    return row


def bench_cases(folder, count):
    """The cases of JSONSchemaBench as (name, schema, [(document, label)]), or those of the committed sample."""
    if folder is None:
        for line in SAMPLE.read_text().splitlines():
            case = json.loads(line)
            yield case["name"], case["schema"], labelled(case)
        return
    paths = sorted(folder.glob("*.json"))
    random.Random(7).shuffle(paths)
    for path in paths[: count or None]:
        try:
            case = json.loads(path.read_text())
        except ValueError as error:
            print(f"{path.name} is skipped, as it is not JSON: {error}", file=sys.stderr)
            continue
        yield path.name, case["schema"], labelled(case)


def labelled(case):
    return [(one["data"], one["valid"]) for one in case["tests"]]


def bench_row(folder, count):
    row = Row("JSONSchemaBench" if folder else "JSONSchemaBench, the sample", formats=True)
    for case in bench_cases(folder, count):
        row.judge(*case)
    return row


def oracle_row():
    """The row of random schemas over the oracle's domain, and what it says of the oracle."""
    row = Row("small documents of an oracle", formats=False)
    behind, shares, too_early, seed = Counter(), [], [], 0
    while row.documents < ORACLE_SCHEMAS * ORACLE_DOCUMENTS:
        rng, seed = random.Random(seed), seed + 1
        schema = Maker(rng, small=True).root()
        made, oracle = JSONSchema(schema), Oracle(schema, len(SCALARS))
        if min(len(oracle.valid), len(oracle.invalid)) < ORACLE_DOCUMENTS:
            continue  # almost everything is valid, or nothing
        texts = rng.sample(oracle.valid, ORACLE_DOCUMENTS // 4)
        texts += rng.sample(oracle.invalid, ORACLE_DOCUMENTS - len(texts))
        row.judge(
            f"seed {seed - 1}", schema, [(json.loads(t), i < 50) for i, t in enumerate(texts)]
        )
        for text in texts[ORACLE_DOCUMENTS // 4 :]:
            earliest = oracle.earliest(text)
            failed = failed_after(made, text) or len(text) + 1
            behind[failed - earliest] += 1
            shares.append(min(earliest / len(text), 1))
            if failed < earliest:
                too_early.append(f"seed {seed - 1}: {text}: {failed} before {earliest}")
    late = [distance for distance in behind.elements() if distance > 0]
    note = (
        f"Of the oracle's {behind.total():,} invalid documents, {behind[0] / behind.total():.0%} failed at the very "
        f"character at which the oracle finds them impossible (at {statistics.median(shares):.0%} of a document, "
        f"by the median), {len(too_early)} before it, and the others {statistics.mean(late):.1f} characters behind it "
        "on average. As its domain is finite, it may be too early itself."
    )
    return row, note, too_early


# Cost


def repeated(make, size):
    made, length = [], 0
    while length < size:
        made.append(json.dumps(make(len(made))))
        length += len(made[-1]) + 2
    return "[" + ", ".join(made) + "]"


def cost_cases(size):
    """Kinds of documents as (name, schema, text)."""

    def array(items):
        return {"type": "array", "items": items}

    person = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 60},
            "age": {"type": "integer", "minimum": 0},
            "tags": array({"type": "string"}),
        },
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    kinds = [
        {
            "type": "object",
            "properties": {"kind": {"const": f"k{n}"}, "n": {"type": "integer"}, "text": {}},
            "required": ["kind"],
        }
        for n in range(500)
    ]
    closed = [
        {
            "type": "object",
            "properties": {f"k{n}": {"type": "integer"}},
            "required": [f"k{n}"],
            "additionalProperties": False,
        }
        for n in range(500)
    ]

    def record(n):
        return {"name": f"Person {n}", "age": n % 90, "tags": ["a", "b"]}

    def of_kind(n):
        return {"kind": f"k{n * 7 % 500}", "n": n, "text": "some words of text here"}

    wide = json.dumps({f"key{n}": n for n in range(size // 16)})
    deep = "[" + ", ".join(["[" * 100 + "]" * 100] * (size // 202)) + "]"
    return [
        ("records", array(person), repeated(record, size)),
        ("records, 10 MB", array(person), repeated(record, size * 50)),
        ("numbers", array({"type": "number"}), repeated(lambda n: n * 3, size)),
        ("a wide object", {"additionalProperties": {"type": "integer"}}, wide),
        (
            "long strings",
            array({"type": "string", "maxLength": 10**6}),
            repeated(lambda n: "word " * 2000, size),
        ),
        ("deep nesting", {"type": "array", "items": {"$ref": "#"}}, deep),
        (
            "enum of 10,000",
            array({"enum": [f"value {n}" for n in range(10_000)]}),
            repeated(lambda n: f"value {n * 7 % 10_000}", size),
        ),
        ("oneOf 500, by a discriminator", array({"oneOf": kinds}), repeated(of_kind, size)),
        (
            "anyOf 500 closed objects",
            array({"anyOf": closed}),
            repeated(lambda n: {f"k{n * 7 % 500}": n}, size),
        ),
    ]


def cost_rows(size):
    for name, schema, text in cost_cases(size):
        made, pieces = JSONSchema(schema), deltas(text)
        repeats = 3 if len(text) < 10 * size else 1
        reading = min(seconds(JSONReader(root=made.root), pieces) for _ in range(repeats))
        watching = min(seconds(made.watch(), pieces, is_valid=True) for _ in range(repeats))
        count = len(text.encode())
        yield [
            name,
            f"{count / 1e3:,.0f}",
            f"{reading / count * 1e6:.2f}",
            f"{watching / count * 1e6:.2f}",
            f"{watching / reading:.1f}",
        ]


def seconds(taker, pieces, *, is_valid=False):
    """How long it takes to take all pieces."""
    began = time.perf_counter()
    for piece in pieces:
        said = taker.feed(piece)
        assert not is_valid or said is None
    return time.perf_counter() - began


# The naive way: a parser of partial JSON, and a validator on what there is so far. Only pydantic's parser is measured:
# other parsers of partial JSON have no schema either, so the validator on partial values would be the same.


def naive_rows(folder, count):
    refused, times, size, documents = [0, 0], [0.0, 0.0], 0, 0
    for schema, text in valid_documents(folder, count):
        documents += 1
        size += len(text.encode())
        made, pieces = JSONSchema(schema, assert_formats=True), deltas(text)
        is_valid = jsonschema_rs.validator_for(schema, validate_formats=True, offline=True).is_valid
        began = time.perf_counter()
        refused[0] += naive_refuses(pieces, is_valid)
        times[0] += time.perf_counter() - began
        watch = made.watch()
        began = time.perf_counter()
        refused[1] += sum(watch.feed(piece) is not None for piece in pieces) > 0
        times[1] += time.perf_counter() - began
    for name, no, took in zip(("the naive way", "streamval"), refused, times, strict=True):
        yield [name, f"{documents}", f"{no} ({no / documents:.0%})", f"{took / size * 1e6:.2f}"]


def valid_documents(folder, count):
    """The first valid documents of JSONSchemaBench that jsonschema-rs takes for valid, with their schemas."""
    left = NAIVE_DOCUMENTS
    for _, schema, tests in bench_cases(folder, count):
        try:
            validator = jsonschema_rs.validator_for(schema, validate_formats=True, offline=True)
        except ValueError:
            continue
        for data, label in tests:
            if label and validator.is_valid(data) and left:
                left -= 1
                yield schema, json.dumps(data)


def naive_refuses(pieces, is_valid):
    """Whether a valid document is refused on the way. It is read to its end all the same, for its cost."""
    prefix, refuses = "", False
    for piece in pieces:
        prefix += piece
        try:
            value = pydantic_core.from_json(prefix, allow_partial="trailing-strings")
        except ValueError:
            continue  # nothing to judge yet
        refuses |= not is_valid(value)
    return refuses


# Output


def table(headers, rows):
    print("| " + " | ".join(headers) + " |")
    print("|" + "---|" * len(headers))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def listed(title, lines, most=None):
    if lines:
        print(f"{title}:\n")
        for line in lines[:most]:
            print(f"- {line}")
        left = len(lines) - len(lines[:most])
        print(f"- and {left} more\n" if left else "")


def main(suite, bench, count, size):
    rows = [suite_row(suite / "tests", draft) for draft in DRAFTS]
    rows.append(bench_row(bench, count))
    row, note, too_early = oracle_row()
    rows.append(row)
    table(HEADERS, [row.cells() for row in rows])
    print(f"{note}\n")
    refused = [f"{row.name}: {said}" for row in rows for said in row.refused]
    refused += [f"{row.name}: {said}" for row in rows for said in row.remote]
    listed("Refused schemas", refused, LISTED)
    listed("Wrong verdicts", [f"{row.name}: {said}" for row in rows for said in row.wrong])
    early = [f"{row.name}: {said}" for row in rows for said in row.failed_early]
    listed("Valid documents that failed early", early)
    listed("Failed before the oracle", too_early)
    headers = ["document", "kB", "reader, µs a byte", "whole watch, µs a byte", "ratio"]
    table(headers, cost_rows(size))
    headers = ["", "valid documents", "refused on the way", "µs a byte"]
    table(headers, naive_rows(bench, count))
    return 0 if all(row.is_right for row in rows) and not too_early else 1


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--suite", type=Path, required=True, help="it has a folder `tests`")
    arguments.add_argument("--bench", type=Path, help="maskbench/data of JSONSchemaBench")
    arguments.add_argument("--count", type=int, default=500, help="schemas of it; 0 for all")
    arguments.add_argument("--size", type=int, default=200_000, help="characters of a document")
    sys.exit(main(**vars(arguments.parse_args())))
