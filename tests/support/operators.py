"""What the tests of operators share."""

from reactivex.testing import TestScheduler

from streamval import Chunk


def played(operator, *messages):
    """What comes out, and when: (time, value), then how it ended."""
    scheduler = TestScheduler()
    source = scheduler.create_hot_observable(*messages)
    result = scheduler.start(lambda: source.pipe(operator))
    seen = []
    for message in result.messages:
        if message.value.kind == "N":
            seen.append((int(message.time), message.value.value))
        else:
            seen.append((int(message.time), message.value.kind))
    disposed = [int(s.unsubscribe) for s in source.subscriptions]
    return seen, disposed


def texts(seen):
    return [(time, getattr(value, "text", value)) for time, value in seen]


def c(index, end=None):
    return Chunk(f"chunk {index}", index, index * 10, end or index * 10 + 9, " ")
