"""`python -m weftcomm_torch run --as-gloo ...`, `... run --elastic ...` and `... rehearse ...`: what `weftcomm` with these words becomes.

`python -m weftcomm_torch build` compiles for the torch that is here, if that is still to be done."""

import sys

from . import _launch

if sys.argv[1:2] in (["-h"], ["--help"]):
    print(_launch.HELP, end="")
    sys.exit(0)
if sys.argv[1:2] == ["rehearse"]:
    from .rehearse import _launch as rehearsal

    sys.exit(rehearsal.main(sys.argv[2:]))
if sys.argv[1:] == ["build"]:
    try:
        from . import _build

        print(_build.load().__file__)
    except ImportError as problem:
        _launch.fail(str(problem))
    sys.exit(0)
if sys.argv[1:2] != ["run"]:
    _launch.fail(_launch.USAGE)
if _launch.asks_for("--elastic", sys.argv[2:]):
    from .elastic import _launch as elastic

    sys.exit(elastic.main(sys.argv[2:]))
_launch.run(sys.argv[2:])
