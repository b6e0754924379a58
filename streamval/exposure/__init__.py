"""Measures what the clients of an endpoint see of violations that are planted in its upstream.

    planted cases ─ scripted upstream ─▶ the endpoint that is measured ─▶ client ─▶ what was seen

`streamval exposure` runs it. The upstream and the client are in one process, which knows both what was sent
and what was seen; the endpoint is any server.
"""
