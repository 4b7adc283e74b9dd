"""`weftcomm run --as-gloo`: starts a Python program, or a command, with weft in gloo's place.

Also run as a script, by its path, so that nothing has to import torch before the program does.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import sysconfig
from typing import NoReturn

USAGE = "usage: weftcomm run [-n RANKS] --as-gloo {script.py | -m MODULE | COMMAND} [ARGUMENTS...]"


def fail(text: str) -> NoReturn:
    print(f"weftcomm: {text}", file=sys.stderr)
    sys.exit(2)


def asks_for(wanted: str, arguments: list[str]) -> bool:
    """Is this option among those before the program's name?"""
    words = iter(arguments)
    for word in words:
        if word == wanted or word.startswith(wanted + "="):
            return True
        if not word.startswith("-") or word in ("-m", "--"):
            return False
        if word in ("-n", "--ranks", "--nproc", "--replace", "--join", "--listen"):
            next(words, None)
    return False


def weft_command() -> str:
    """The command weft: beside this Python, or in PATH."""
    beside = os.path.join(sysconfig.get_path("scripts"), "weft")
    command = beside if os.path.exists(beside) else shutil.which("weft")
    return command or fail("the command weft is not installed")


def program_words(words: list[str]) -> list[str]:
    """The command line of a program: a script and a module run in this Python."""
    if words[0] == "-m" or words[0].endswith(".py"):
        return [sys.executable, *words]
    return words


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(words: list[str]) -> NoReturn:
    try:
        os.execvp(words[0], words)
    except OSError as problem:
        fail(f"cannot start {words[0]}: {problem.strerror}")


def run(arguments: list[str]) -> NoReturn:
    """Becomes the program, or, with -n, `weft run` that starts the program's ranks. `arguments`: what follows `run`."""
    ranks, rest = 0, list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        option = rest.pop(0)
        if option in ("-n", "--ranks"):
            if not rest or not rest[0].isdigit() or int(rest[0]) < 1:
                fail(f"{option} {rest[0] if rest else ''}: a number of ranks is needed")
            ranks = int(rest.pop(0))
        elif option == "--":
            break
        elif option != "--as-gloo":
            fail(f"run --as-gloo knows no {option}; torchrun, started by it, has options for several hosts\n{USAGE}")
    if not rest or rest == ["-m"]:
        fail(f"which program?\n{USAGE}")
    os.environ["WEFT_AS_GLOO"] = "1"
    words = program_words(rest)
    if ranks == 0:
        start(words)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(free_port()))
    rank = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_rank.py")
    start([weft_command(), "run", "-n", str(ranks), sys.executable, rank, *words])


if __name__ == "__main__":
    run(sys.argv[2:])
