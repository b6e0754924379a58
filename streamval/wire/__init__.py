"""The public wire formats, each written once: read and write.

Plain functions and classes without input or output: bytes or dictionaries in, deltas and requests
out, and back. `backends` reads with them, `serve` and `sinks` write with them.

`sse` has the frames of server-sent events; `completions` reads OpenAI's completions, `openai_chat` and
`openai_text` have the differences of its two kinds; `errors` has the way a server reports errors.
"""
