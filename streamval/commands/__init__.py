"""The commands of ``streamval``, one to a file; `streamval.cli` lists them.

`display` shows a run, and `exits` turns our errors into a line and an exit status.
"""
