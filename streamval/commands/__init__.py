"""The commands of ``streamval``, one to a file; `streamval.cli` lists them.

`display` is what they show a run with, and `exits` how they end: our errors in a line, and an exit status.
"""
