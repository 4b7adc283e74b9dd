"""`python -m weftcomm COMMAND ...`: the wheel's command weft, or the one that is installed; `run --as-gloo` is torch's part."""

import importlib.util
import os
import shutil
import sys


def asks_for_gloo(arguments: list[str]) -> bool:
    """True if --as-gloo is among the options before the program's name."""
    if arguments[:1] != ["run"]:
        return False
    options = iter(arguments[1:])
    for word in options:
        if word == "--as-gloo":
            return True
        if not word.startswith("-") or word in ("-m", "--"):
            return False
        if word in ("-n", "--ranks"):
            next(options, None)
    return False


def main() -> None:
    arguments = sys.argv[1:]
    if asks_for_gloo(arguments):
        found = importlib.util.find_spec("weftcomm_torch")
        if found is None or not found.submodule_search_locations:
            print("weftcomm: --as-gloo needs the package weft-comm-torch in this Python", file=sys.stderr)
            sys.exit(2)
        script = os.path.join(found.submodule_search_locations[0], "_launch.py")
        os.execv(sys.executable, [sys.executable, script, *arguments])
    own = os.path.join(os.path.dirname(__file__), "bin", "weft")
    command = own if os.path.exists(own) else shutil.which("weft")
    if command is None:
        sys.exit("weftcomm: the command weft is not installed")
    os.execv(command, [command, *arguments])


if __name__ == "__main__":
    main()
