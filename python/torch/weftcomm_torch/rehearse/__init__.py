"""`weftcomm rehearse`: runs an unmodified training script without GPUs and records what its ranks do.

The files that a rehearsal writes are weft.rehearsal/1 (docs/rehearse.md); `weft rehearse` matches and times them.
"""
