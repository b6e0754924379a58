"""asyncio without observables: tasks, scopes, gates, buffers, and calls from sync code.

`scope` owns tasks, `gate` pauses and resumes a source, `inbox` buffers between push and pull, `pump` reads an
async iterator, `tasks` starts tasks, `blocking` runs async code from sync code, `daemon` a call that may
block for ever, `one_loop` counts runs on a loop, `breaker` says when to ask a failing server again.
"""
