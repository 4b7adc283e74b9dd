"""`python -m weftcomm COMMAND ...`: the wheel's command weft, or the one that is installed; `run --as-gloo`, `run --elastic` and `rehearse` are torch's part."""

import importlib.util
import os
import shutil
import sys


# Options of `weft run` that take a value.
_WITH_VALUE = (
    "-n --ranks --nproc --transport --machines --sim --hosts --hostfile --folder --env --weft --ssh --ports --on-failure"
).split()
_OF_ELASTIC = ("--replace", "--join", "--listen")


def asks_for(wanted: str, arguments: list[str]) -> bool:
    """Is this option of `run` among those before the program's name?"""
    if arguments[:1] != ["run"]:
        return False
    options = iter(arguments[1:])
    for word in options:
        if word == wanted or word.startswith(wanted + "="):
            return True
        if not word.startswith("-") or word in ("-m", "--"):
            return False
        if word in (*_WITH_VALUE, *_OF_ELASTIC):
            next(options, None)
    return False


def with_python(arguments: list[str]) -> list[str]:
    """`run script.py` and `run -m module` start this Python, with whole lines that begin with their rank; other programs
    stay as they are."""
    at = 1
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] not in ("-m", "--"):
        at += 2 if arguments[at] in _WITH_VALUE else 1
    first = at + 1 if arguments[at : at + 1] == ["--"] else at
    if not (arguments[first : first + 1] == ["-m"] or arguments[first : first + 1][-1:] and arguments[first].endswith(".py")):
        return arguments
    options = arguments[1:at]
    if not any(word.startswith(("--no-label", "--label")) for word in options):
        options.append("--label")
    if not any(word.split("=")[0] in ("--ranks", "--nproc", "--hosts", "--hostfile") or word[:2] == "-n" for word in options):
        options += ["--nproc", "auto"]
    os.environ.setdefault("PYTHONUNBUFFERED", "1")  # what ranks print passes through a pipe, and is seen at once
    return ["run", *options, sys.executable, *arguments[first:]]


def of_torch(script: str, what: str, arguments: list[str]) -> None:
    """Becomes a script of the package weftcomm_torch, which is found without importing torch."""
    found = importlib.util.find_spec("weftcomm_torch")
    if found is None or not found.submodule_search_locations:
        print(f"weftcomm: {what} needs the package weft-comm-torch in this Python", file=sys.stderr)
        sys.exit(2)
    os.execv(sys.executable, [sys.executable, os.path.join(found.submodule_search_locations[0], script), *arguments])


def main() -> None:
    arguments = sys.argv[1:]
    if asks_for("--as-gloo", arguments):
        of_torch("_launch.py", "--as-gloo", arguments)
    if asks_for("--elastic", arguments):
        of_torch(os.path.join("elastic", "_launch.py"), "--elastic", arguments[1:])
    for option in _OF_ELASTIC:
        if asks_for(option, arguments):
            print(f"weftcomm: {option} goes with --elastic MIN:MAX", file=sys.stderr)
            sys.exit(2)
    if arguments[:1] == ["rehearse"] and not any(word.endswith(".jsonl") for word in arguments[1:]):
        of_torch(os.path.join("rehearse", "_launch.py"), "rehearse", arguments[1:])
    if arguments[:1] == ["run"]:
        arguments = with_python(arguments)
    own = os.path.join(os.path.dirname(__file__), "bin", "weft")
    command = own if os.path.exists(own) else shutil.which("weft")
    if command is None:
        sys.exit("weftcomm: the command weft is not installed")
    os.execv(command, [command, *arguments])


if __name__ == "__main__":
    main()
