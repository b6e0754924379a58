"""`make bench-leaks`: how many secrets and personal data are found, and how many false alarms, by kind.

The corpus is made here, from the formats' own documentation: nothing in it is or was valid. Each value stands in prose, code,
JSON, Markdown and a table. Ours reads it cut at random into deltas of 1 to 9 characters, with the rule as it is in a
pipeline; the peers (`leaks_peers.py`, in an environment of their own) read the whole text. Prints the tables of
`docs/leaks.md`.
"""

from __future__ import annotations

import argparse
import json
import random
import string
import subprocess
import uuid
import zlib
from pathlib import Path

import phonenumbers

import streamval as sv

EACH = 20
WORD = string.ascii_letters + string.digits
PLACES = {
    "prose": "Please write it down: the value is {}, and it is used by the second service of the team.",
    "code": 'def connect():\n    value = "{}"\n    return Client(value, retries=3)\n',
    "json": '{{"name": "service", "value": "{}", "retries": 3}}',
    "markdown": "## Settings\n\n- the **name** is *service*\n- the value is `{}`\n",
    "table": "| name | value |\n|---|---|\n| service | {} |\n",
}


def drawn(dice, alphabet, count):
    return "".join(dice.choice(alphabet) for _ in range(count))


def base62(number, width):
    digits = string.digits + string.ascii_uppercase + string.ascii_lowercase
    out = ""
    while number:
        number, rest = divmod(number, 62)
        out = digits[rest] + out
    return out.rjust(width, "0")


def checked(prefix, dice):
    """GitHub's and npm's tokens: 30 characters and a CRC32 in base 62 of them (github.blog, 2021-04-05)."""
    body = drawn(dice, WORD, 30)
    return prefix + body + base62(zlib.crc32(body.encode()), 6)


def jwt(dice):
    head = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"
    return (
        f"{head}.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIn0.{drawn(dice, WORD + '-_', 43)}"
    )


SECRETS = {
    "AWS access key id": lambda d: "AKIA" + drawn(d, string.ascii_uppercase + "234567", 16),
    "GitHub personal token": lambda d: checked("ghp_", d),
    "GitHub fine-grained token": lambda d: f"github_pat_{drawn(d, WORD, 22)}_{drawn(d, WORD, 59)}",
    "GitLab token": lambda d: "glpat-" + drawn(d, WORD + "-_", 20),
    "Slack bot token": lambda d: (
        f"xoxb-{drawn(d, string.digits, 12)}-{drawn(d, string.digits, 12)}-{drawn(d, WORD, 24)}"
    ),
    "Stripe live key": lambda d: "sk_" + "live_" + drawn(d, WORD, 24),
    "Google API key": lambda d: "AIza" + drawn(d, WORD + "-_", 35),
    "SendGrid key": lambda d: f"SG.{drawn(d, WORD + '-_', 22)}.{drawn(d, WORD + '-_', 43)}",
    "npm token": lambda d: checked("npm_", d),
    "PyPI token": lambda d: "pypi-AgEIcHlwaS5vcmc" + drawn(d, WORD + "-_", 150),
    "JSON Web Token": jwt,
    "private key (PEM)": lambda d: "-----BEGIN RSA PRIVATE KEY-----",
}
CARDS = [  # test numbers of the companies and their processors
    *(
        "4111111111111111",
        "4012888888881881",
        "4222222222222",
        "5555555555554444",
        "5105105105105100",
    ),
    *(
        "2223003122003222",
        "378282246310005",
        "371449635398431",
        "6011111111111117",
        "6011000990139424",
    ),
    *(
        "30569309025904",
        "38520000023237",
        "3530111333300000",
        "3566002020360505",
        "6200000000000005",
    ),
]
IBANS = [  # examples of the registry of SWIFT (ISO 13616)
    *("DE89370400440532013000", "GB29NWBK60161331926819", "FR1420041010050500013M02606"),
    *("ES9121000418450200051332", "IT60X0542811101000000123456", "NL91ABNA0417164300"),
    *(
        "CH9300762011623852957",
        "AT611904300234573201",
        "BE68539007547034",
        "SE4550000000058398257466",
    ),
    *(
        "NO9386011117947",
        "DK5000400440116243",
        "PL61109010140000071219812874",
        "PT50000201231234567890154",
    ),
    *(
        "IE29AIBK93115212345678",
        "FI2112345600000785",
        "GR1601101250000000012300695",
        "LU280019400644750000",
    ),
]
MAILS = [  # after RFC 5322, in the domains that RFC 2606 sets aside
    *("john.doe@example.com", "jdoe@example.org", "mary@example.net", "joe@example.org"),
    *("user+tag@example.com", "one-two@example.net", "x@example.com", "a.b.c@sub.example.org"),
]


def in_fours(value):
    return " ".join(value[n : n + 4] for n in range(0, len(value), 4))


def printed(card):
    """A number in the groups of its card."""
    groups = {15: (4, 6, 5), 14: (4, 6, 4), 13: (4, 3, 3, 3)}.get(len(card), (4, 4, 4, 4))
    at, parts = 0, []
    for size in groups:
        parts.append(card[at : at + size])
        at += size
    return " ".join(parts)


def phone(dice):
    while True:
        region = dice.choice(sorted(phonenumbers.SUPPORTED_REGIONS))
        number = phonenumbers.example_number(region)
        if number is not None:
            style = phonenumbers.PhoneNumberFormat.INTERNATIONAL
            return phonenumbers.format_number(number, style)


PERSONAL = {
    "payment card": lambda d: printed(d.choice(CARDS)) if d.random() < 0.5 else d.choice(CARDS),
    "payment card, in fours": lambda d: in_fours(d.choice(CARDS)),
    "IBAN": lambda d: in_fours(d.choice(IBANS)) if d.random() < 0.5 else d.choice(IBANS),
    "telephone number": phone,
    "e-mail address": lambda d: d.choice(MAILS),
}
HARMLESS = {
    "UUID": lambda d: str(uuid.UUID(int=d.getrandbits(128), version=4)),
    "SHA-1 of a commit": lambda d: drawn(d, "0123456789abcdef", 40),
    "SHA-256 digest": lambda d: "sha256:" + drawn(d, "0123456789abcdef", 64),
    "ISBN": lambda d: f"978-3-16-{d.randrange(100000, 999999)}-{d.randrange(10)}",
    "coordinates": lambda d: f"{d.uniform(-90, 90):.6f}, {d.uniform(-180, 180):.6f}",
    "log line": lambda d: (
        f"2026-03-{d.randrange(10, 28)}T10:22:31.{d.randrange(100, 999)}Z INFO req={drawn(d, '0123456789abcdef', 16)} {d.randrange(200, 599)} {d.randrange(9999)}ms"
    ),
    "version and IP address": lambda d: (
        f"v{d.randrange(9)}.{d.randrange(99)}.{d.randrange(99)} at 10.{d.randrange(255)}.{d.randrange(255)}.{d.randrange(255)}"
    ),
    "16 digits without a check digit": lambda d: _not_luhn(d),
    "number with separators": lambda d: f"{d.randrange(10**9, 10**10):,}",
    "base64 of a picture": lambda d: (
        "data:image/png;base64,iVBORw0KGgo" + drawn(d, WORD + "+/", 60)
    ),
}


def _not_luhn(dice):
    while True:
        digits = drawn(dice, "123456789", 16)
        odd, even = digits[-1::-2], digits[-2::-2]
        total = sum(map(int, odd)) + sum(sum(divmod(2 * int(one), 10)) for one in even)
        if total % 10:
            return digits


def corpus(each=EACH):
    """Rows of group, kind, place and text, always the same."""
    dice = random.Random(26)
    for group, kinds in (("secret", SECRETS), ("personal", PERSONAL), ("harmless", HARMLESS)):
        for kind, make in kinds.items():
            for place, template in PLACES.items():
                for _ in range(each):
                    yield {"group": group, "kind": kind, "place": place} | {
                        "text": template.format(make(dice))
                    }


def slices(text, dice):
    at = 0
    while at < len(text):
        size = dice.randint(1, 9)
        yield text[at : at + size]
        at += size


def ours(rows):
    """For each row, what our rules say: secret, personal."""
    dice, found = random.Random(1), []
    for row in rows:
        said = {}
        for name, rule in (("secret", sv.no_secrets), ("personal", sv.no_personal_data)):
            pieces = list(slices(row["text"], dice))
            backend = sv.IterableBackend(lambda _, pieces=pieces: pieces)
            said[name] = not sv.Pipeline(backend, requirements=[rule()]).run_sync("x").success
        found.append(said)
    return found


def table(rows, columns, group, key):
    names = {"secret": ("secret",), "personal": ("personal",), "harmless": ("secret", "personal")}
    kinds = dict.fromkeys(row[key] for row in rows if row["group"] == group)
    heads = [f"{peer}" for peer in columns]
    print(f"| {'kind' if key == 'kind' else 'in'} | texts | {' | '.join(heads)} |")
    print("|---|---|" + "---|" * len(heads))
    for kind in [*kinds, "all"]:
        at = [
            n for n, row in enumerate(rows) if row["group"] == group and kind in (row[key], "all")
        ]
        cells = []
        for found in columns.values():
            reads = [name for name in names[group] if name in found[0]]
            if not reads:
                cells.append("")
                continue
            hits = sum(any(found[n][name] for name in reads) for n in at)
            cells.append(f"{100 * hits / len(at):.0f} %")
        print(f"| {kind} | {len(at)} | {' | '.join(cells)} |")
    print()


def main(python, each):
    rows = list(corpus(each))
    columns = {"streamval, while it is written": ours(rows)}
    if python:
        script = Path(__file__).with_name("leaks_peers.py")
        texts = json.dumps([row["text"] for row in rows])
        done = subprocess.run([python, script], input=texts, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        for name, found in json.loads(done.stdout.splitlines()[-1]).items():
            columns[f"{name}, whole text"] = found
    for title, group in (
        ("Secrets found", "secret"),
        ("Personal data found", "personal"),
        ("False alarms", "harmless"),
    ):
        print(f"### {title}\n")
        table(rows, columns, group, "kind")
        table(rows, columns, group, "place")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", help="a Python that has detect-secrets and presidio-analyzer")
    parser.add_argument("--each", type=int, default=EACH, help="texts of a kind in a place")
    given = parser.parse_args()
    main(given.peers, given.each)
