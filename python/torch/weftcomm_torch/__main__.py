"""`python -m weftcomm_torch run --as-gloo ...` and `... rehearse ...`: what `weftcomm` with these words becomes."""

import sys

from . import _launch

if sys.argv[1:2] == ["rehearse"]:
    from .rehearse import _launch as rehearsal

    sys.exit(rehearsal.main(sys.argv[2:]))
if sys.argv[1:2] != ["run"]:
    _launch.fail(_launch.USAGE)
_launch.run(sys.argv[2:])
