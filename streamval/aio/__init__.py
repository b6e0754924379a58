"""asyncio without observables: tasks and who owns them, gates, buffers, and sync code that waits.

`scope` owns tasks, `gate` pauses a source, `inbox` buffers between push and pull, `pump` reads an
async iterator, `tasks` starts tasks, `blocking` runs async code from sync code, `daemon` a call that may
block for ever, `places` lets so many in at once.
"""
