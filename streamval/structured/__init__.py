"""Structured output: JSON read in pieces, and a type as a schema for a stream.

`reader` finds what completes in a text and where, `values` makes Python values of it, `annotations`
and `places` know what a type allows at each place, `schema` brings them together.
"""
