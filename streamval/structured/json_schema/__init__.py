"""A JSON Schema as a judge of a stream.

`schema` is what others use. A schema is compiled (`compiler`, `patterns`) into `nodes`; `judge` takes the events of a
document that is being written, and has `tasks` for its objects and arrays, which ask the nodes about values (`scalar`,
`beginnings`); `cost` says whether the validator, which has the last word, could take very long.
"""
