"""`weftcomm rehearse`: runs an unmodified training script without GPUs and records what its ranks do.

The files that a rehearsal writes are weft.rehearsal/1 (docs/rehearse.md); `weft rehearse` matches and times them.
"""

from ._api import Finding as Finding
from ._api import Place as Place
from ._api import Rehearsal as Rehearsal
from ._api import rehearse as rehearse
