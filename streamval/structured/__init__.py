"""Structured output: JSON read in pieces, a type as a schema for a stream, text without its markup.

`reader` finds the values that complete in a text, `values` makes Python values of them, `annotations`
and `allowed` know the values that a type allows at each place, `schema` combines them. `as_read` undoes
escapes and markup.
"""
