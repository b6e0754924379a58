"""Structured output: JSON read in pieces, and a type as a schema for a stream.

`reader` finds the values that complete in a text, `values` makes Python values of them, `annotations`
and `allowed` know the values that a type allows at each place, `schema` combines them.
"""
