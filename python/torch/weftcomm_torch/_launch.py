"""`weftcomm run --as-gloo`: starts a Python program, or a command, with weft in gloo's place.

Also run as a script, by its path, so that nothing has to import torch before the program does.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import sys
import sysconfig
from typing import NoReturn

USAGE = """usage: weftcomm run [-n N] --as-gloo {script.py | -m MODULE | COMMAND} [ARGUMENTS...]
       weftcomm run --elastic MIN:MAX [-n N] [--replace N] [--join HOST:PORT] [--listen ADDRESS]
                    {script.py | -m MODULE | COMMAND} [ARGUMENTS...]
       weftcomm rehearse --on MACHINE [--ranks N] [--as RANKS] train.py [ARGUMENTS...]
       python -m weftcomm_torch build"""
HELP = f"""{USAGE}

Starts PyTorch programs on weft. Where only weft-comm-torch is installed, `python -m weftcomm_torch` stands for `weftcomm`.

commands:
  run                  start a program with weft in gloo's place, or a training that loses and takes in ranks
  build                compile for the torch that is here, if that is still to be done
  rehearse             run a training script without GPUs, as a machine would that is not there; rehearse --help says more

options of run, before the program:
  --as-gloo            groups of backend gloo are weft's, also in all that the program starts; the default
  -n N, --nproc N      ranks to start, with torchrun's variables; auto: as many as there are cores; without: the program itself
  --elastic MIN:MAX    a training that loses ranks and takes in others: a step needs MIN members, and has MAX at most
  -n N                 with --elastic: members to start with; default: MAX, or one with --join
  --replace N          with --elastic: processes to start in place of lost ones; default: 3
  --join HOST:PORT     with --elastic: members for the running job that has printed this address
  --listen ADDRESS     with --elastic: where members of other hosts reach this one; default: 127.0.0.1
  -m MODULE            the program is a module of this Python
  -h, --help           this text
"""
OF_ELASTIC = ("--join", "--listen", "--replace")


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


def missing(program: list[str]) -> str:
    """Why a program cannot be started; an empty text where nothing is missing. A module's parents are not imported."""
    name = program[0]
    if name == "-m":
        sys.path.insert(0, os.getcwd())  # as `python -m` does
        try:
            found = importlib.util.find_spec(program[1].partition(".")[0]) is not None
        except (ImportError, ValueError):
            found = False
        finally:
            sys.path.pop(0)
        return "" if found else f"there is no module {program[1]}"
    if name.endswith(".py"):
        return "" if os.path.exists(name) else f"{name}: no such file"
    return "" if shutil.which(name) else f"cannot start {name}: there is no such command"


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
    ranks, rest = "", list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        option, equals, value = rest.pop(0).partition("=")
        if option in ("-h", "--help"):
            print(HELP, end="")
            sys.exit(0)
        if option in ("-n", "--ranks", "--nproc"):
            ranks = value if equals else rest.pop(0) if rest else ""
            if ranks != "auto" and (not ranks.isdigit() or int(ranks) < 1):
                fail(f"{option} {ranks}: a number of ranks is needed, or auto")
        elif option == "--":
            break
        elif option in OF_ELASTIC:
            fail(f"{option} goes with --elastic MIN:MAX")
        elif option != "--as-gloo" or equals:
            fail(f"run --as-gloo knows no {option}; torchrun, started by it, has options for several hosts\n{USAGE}")
    if not rest or rest == ["-m"]:
        fail(f"which program?\n{USAGE}")
    if lacks := missing(rest):
        fail(lacks)
    os.environ["WEFT_AS_GLOO"] = "1"
    words = program_words(rest)
    if not ranks:
        start(words)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(free_port()))
    rank = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_rank.py")
    start([weft_command(), "run", "-n", ranks, sys.executable, rank, *words])


if __name__ == "__main__":
    run(sys.argv[2:])
