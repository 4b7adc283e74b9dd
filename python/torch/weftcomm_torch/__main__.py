"""`python -m weftcomm_torch run --as-gloo ...`: what `weftcomm run --as-gloo` becomes."""

import sys

from . import _launch

if sys.argv[1:2] != ["run"]:
    _launch.fail(_launch.USAGE)
_launch.run(sys.argv[2:])
