import json, glob, sys, time, random, collections

sys.path.insert(0, "/tmp/js")
import importlib
from streamval.structured.schema_compiler import Compiler

compiled = lambda s, formats=False: Compiler(s, formats=formats).root
from streamval.structured.schema_judge import SchemaJudge
from streamval.structured.reader import JSONReader
import jsonschema_rs

c = collections.Counter()
shares = []
t_us = 0
nbytes = 0


def judge(node, text):
    global t_us, nbytes
    t = time.perf_counter()
    wrapped = "[" + text + "]"
    j = SchemaJudge(node)
    r = JSONReader(root=None)
    failed = None
    depth0 = True
    evs = []
    # scalars at the root: wrap in an array and skip the wrapper's events
    first = True
    for i, ch in enumerate(wrapped):
        for e in r.feed(ch):
            if first:
                first = False
                continue
            if e.kind == "end" and e.path == "$":
                continue
            if j.take(e) is not None:
                failed = i
                break
        if failed is not None:
            break
    t_us += time.perf_counter() - t
    nbytes += len(text)
    return failed, j


def one(name, schema, tests, draft=None):
    full = schema
    if draft and isinstance(schema, dict) and "$schema" not in schema:
        full = {"$schema": draft, **schema}
    try:
        v = jsonschema_rs.validator_for(full, offline=True, validate_formats=FMT)
    except Exception as e:
        c["lib refused"] += 1
        return
    try:
        node = compiled(full, formats=FMT)
    except Exception as e:
        c["refused " + type(e).__name__] += 1
        if c["refused " + type(e).__name__] < 4:
            print("REFUSED", name, type(e), str(e)[:200])
        return
    for t in tests:
        data = t["data"]
        valid = t["valid"]
        text = json.dumps(data)
        lib = v.is_valid(data)
        if lib != valid:
            c["lib wrong"] += 1
            c["lib wrong " + name[:40]] += 1
        try:
            failed, j = judge(node, text)
        except Exception as e:
            c["crash"] += 1
            if c["crash"] < 5:
                import traceback

                traceback.print_exc()
                print(name, text[:200])
            continue
        c["all"] += 1
        if failed is not None and valid:
            c["FALSE EARLY"] += 1
            print("FALSE", name, t.get("description"), text[:200], j.complaint) if c[
                "FALSE EARLY"
            ] < 12 else 0
        elif failed is not None:
            c["early"] += 1
            shares.append(min(failed, len(text)) / max(len(text), 1))
        elif isinstance(data, (dict, list)):
            if j.verdict is None:
                c["unsure valid" if valid else "unsure invalid"] += 1
            elif j.verdict != valid:
                c["WRONG"] += 1
                print("WRONG", name, t.get("description"), text[:200]) if c["WRONG"] < 12 else 0
            else:
                c["sure"] += 1
        elif not valid:
            c["missed scalar"] += 1
            print("MISSED", name, t.get("description"), text[:100]) if c[
                "missed scalar"
            ] < 10 else 0


FMT = sys.argv[1] != "suite"
what = sys.argv[1]
if what == "suite":
    for d, uri in (
        ("draft2020-12", "https://json-schema.org/draft/2020-12/schema"),
        ("draft7", "http://json-schema.org/draft-07/schema#"),
        ("draft4", "http://json-schema.org/draft-04/schema#"),
        ("draft2019-09", "https://json-schema.org/draft/2019-09/schema"),
        ("draft6", "http://json-schema.org/draft-06/schema#"),
    ):
        c.clear()
        shares.clear()
        for f in sorted(glob.glob(f"/tmp/suites/jsonschema-*/json/tests/{d}/*.json")):
            for g in json.load(open(f)):
                one(f.split("/")[-1] + ": " + g["description"], g["schema"], g["tests"], uri)
        print(d, dict(c))
else:
    fs = sorted(glob.glob("/tmp/suites/maskbench/data/*.json"))
    random.Random(7).shuffle(fs)
    for f in fs[: int(sys.argv[2])]:
        d = json.load(open(f))
        if d.get("schema") is None:
            continue
        one(
            f.split("/")[-1],
            d["schema"],
            [{"data": t["data"], "valid": t["valid"]} for t in d["tests"]],
        )
    shares.sort()
    print(
        dict(c),
        "median share",
        shares[len(shares) // 2] if shares else None,
        "us/byte",
        t_us / nbytes * 1e6,
    )
