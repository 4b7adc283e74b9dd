"""`weftcomm rehearse --on MACHINE [--ranks N] [--as RANKS] train.py ARGUMENTS...`: starts the rehearsed ranks.

Also run as a script, by its path, so that nothing has to import torch here. Each rehearsed rank is a process; then
`weft rehearse` matches and times what they recorded and says which ranks are still needed.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from typing import Any, NoReturn

HERE = os.path.dirname(os.path.abspath(__file__))
MOST_RANKS = 64  # rehearsed without --as
USAGE = "weftcomm rehearse --on MACHINE [--ranks N] [--as RANKS] train.py [ARGUMENTS...]"


def fail(text: str) -> NoReturn:
    print(f"weftcomm rehearse: {text}", file=sys.stderr)
    sys.exit(2)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="weftcomm rehearse",
        usage=USAGE,
        description="Runs an unmodified PyTorch training script, or a function of it (train.py::main), as some ranks of a job on a machine that is not there: "
        "finds calls that do not match, deadlocks and memory that does not fit, and says how long a step takes.",
        epilog="Exit status: 0 nothing found, 1 findings, 2 bad input.",
    )
    parser.add_argument(
        "--on", required=True, metavar="MACHINE", help="the machine, e.g. dgx-h100:nodes=2 (weft catalog)"
    )
    parser.add_argument(
        "--ranks", type=int, default=None, metavar="N", help="ranks of the job; default: one per GPU of the machine"
    )
    parser.add_argument(
        "--as",
        dest="ranks_as",
        default=None,
        metavar="RANKS",
        help="the ranks to rehearse, 0,5 or all; default: one of each kind, and the last rank",
    )
    parser.add_argument("--keep", default="", metavar="FOLDER", help="keep the recordings there, for weft rehearse")
    parser.add_argument(
        "--memory", default="", metavar="FOLDER",
        help="write each rehearsed rank's memory-RANK.pickle there, which pytorch.org/memory_viz opens",
    )  # fmt: skip
    parser.add_argument(
        "--json", default="", metavar="FILE", help="write weft.rehearsed/1 to this file; - is stdout instead of the text"
    )
    parser.add_argument("script", metavar="train.py")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...")
    return parser.parse_args(arguments)


def weft_command() -> str:
    """WEFT of the environment, else the command beside this Python, else in PATH."""
    named = os.environ.get("WEFT", "")
    beside = os.path.join(sysconfig.get_path("scripts"), "weft")
    command = named or (beside if os.path.exists(beside) else shutil.which("weft"))
    return command or fail("the command weft is not installed")


def device_library() -> str:
    """The compiled CUDA device that is not there; a part of the package for one torch."""
    found = glob.glob(os.path.join(os.path.dirname(HERE), "_fake_cuda*.so"))
    if not found:
        fail("this installation of weft-comm-torch lacks its device (_fake_cuda.so); build the package with make torch")
    return found[0]


def machine(weft: str, on: str) -> tuple[int, int, int, str]:
    """GPUs of the machine, GPUs of its first node, bytes of a card's memory, its name. The command's error is the answer's."""
    done = subprocess.run([weft, "rehearse", "--describe", "--on", on], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stderr.strip(), file=sys.stderr)
        sys.exit(2)
    said = json.loads(done.stdout)
    return int(said["gpus"]), int(said["gpus_per_node"]), int(said["memory"]), f"NVIDIA {said['card'].upper()}"


def ranks_of(text: str, world: int) -> list[int]:
    if text == "all":
        return list(range(world))
    ranks = []
    for word in text.split(","):
        if not word.isdigit() or int(word) >= world:
            fail(f"--as {text}: '{word}' is no rank of {world}")
        ranks.append(int(word))
    return sorted(set(ranks))


class Ranks:
    """The processes of the rehearsed ranks, forks of one that has imported torch; as many at once as there are cores."""

    def __init__(self, options: argparse.Namespace, folder: str, world: int, per_node: int, memory: int, card: str) -> None:
        self._options, self._folder = options, folder
        self._world, self._per_node = world, per_node
        self.recordings: dict[int, str] = {}
        said, answers = os.pipe()
        words = [sys.executable, os.path.join(HERE, "_rank.py"), folder, device_library(), str(answers)]
        environment = {
            "OMP_NUM_THREADS": "1",
            "WEFT_REHEARSAL_GPUS": str(min(per_node, 64)),
            "WEFT_REHEARSAL_MEMORY": str(memory),
            "WEFT_REHEARSAL_CARD": card,
            "WEFT_REHEARSAL_SNAPSHOTS": os.path.abspath(options.memory) if options.memory else "",
        }
        self._server = subprocess.Popen(
            [*words, options.script, *options.arguments],
            stdin=subprocess.PIPE, pass_fds=[answers], env=os.environ | environment, text=True,
            stderr=open(os.path.join(folder, "server.log"), "w", encoding="utf-8"),
        )  # fmt: skip
        os.close(answers)
        self._answers = os.fdopen(said, encoding="utf-8")

    def close(self) -> None:
        if self._server.stdin is not None:
            self._server.stdin.close()
        self._server.wait()
        self._answers.close()

    def _log(self, rank: int) -> str:
        return os.path.join(self._folder, f"rank-{rank}.log")

    def _start(self, rank: int) -> None:
        environment = {
            "RANK": str(rank),
            "WORLD_SIZE": str(self._world),
            "LOCAL_RANK": str(rank % self._per_node),
            "LOCAL_WORLD_SIZE": str(min(self._per_node, self._world)),
            "GROUP_RANK": str(rank // self._per_node),
            "NODE_RANK": str(rank // self._per_node),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29500",
            "TORCHELASTIC_RUN_ID": "rehearsal",
        }
        # The script's output is that of the first rank; of --json - it would be in the way.
        shown = not self.recordings and self._options.json != "-"
        self.recordings[rank] = os.path.join(self._folder, f"rank-{rank}.jsonl")
        asked = {
            "rank": rank, "record": self.recordings[rank], "log": self._log(rank), "shown": shown,
            "environment": environment,
        }  # fmt: skip
        assert self._server.stdin is not None
        try:
            self._server.stdin.write(json.dumps(asked) + "\n")
            self._server.stdin.flush()
        except BrokenPipeError:
            self._ended("the rehearsal", "server.log")

    def _ended(self, what: str, log: str) -> NoReturn:
        with open(os.path.join(self._folder, log), encoding="utf-8") as file:
            said = file.read().strip().splitlines()
        fail(f"{what} ended: {said[-1] if said else 'without a word'}")

    def rehearse(self, ranks: list[int]) -> None:
        waiting = [rank for rank in ranks if rank not in self.recordings]
        first = not self.recordings  # alone: objects that it sends are there when others ask for them
        running = 0
        while waiting or running:
            while waiting and running < (1 if first else os.cpu_count() or 1):
                self._start(waiting.pop(0))
                running += 1
            line = self._answers.readline()
            if not line:
                self._ended("the rehearsal", "server.log")
            ended = json.loads(line)
            if ended["status"] != 0:
                rank = ended["rank"]
                self._ended(f"rank {rank}, with status {ended['status']},", f"rank-{rank}.log")
            running -= 1
            first = False


def answer(weft: str, options: argparse.Namespace, ranks: Ranks, shown: bool) -> tuple[int, dict[str, Any]]:
    """`weft rehearse` of what there is; its exit status and weft.rehearsed/1."""
    files = [ranks.recordings[rank] for rank in sorted(ranks.recordings)]
    words = [weft, "rehearse", *files, "--on", options.on]
    if shown and options.json != "-":
        status = subprocess.run([*words, *(["--json", options.json] if options.json else [])], check=False).returncode
        return status, {}
    done = subprocess.run([*words, "--json", "-"], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == 2:
        sys.exit(2)
    if shown:
        print(done.stdout, end="")
    return done.returncode, json.loads(done.stdout)


def rehearse(options: argparse.Namespace, folder: str) -> int:
    weft = weft_command()
    gpus, per_node, memory, card = machine(weft, options.on)
    world = gpus if options.ranks is None else options.ranks
    if not 1 <= world <= gpus:
        fail(f"--ranks {options.ranks}: {options.on} has {gpus} GPUs")
    chosen = [] if options.ranks_as is None else ranks_of(options.ranks_as, world)
    ranks = Ranks(options, folder, world, per_node, memory, card)
    try:
        ranks.rehearse(chosen or [0, world - 1])
        for _ in range(0 if chosen else 16):
            needed = answer(weft, options, ranks, shown=False)[1]["missing"]
            needed = needed[: max(0, MOST_RANKS - len(ranks.recordings))]
            if not needed:
                break
            ranks.rehearse(needed)
    finally:
        ranks.close()
    return answer(weft, options, ranks, shown=True)[0]


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    file = options.script.partition("::")[0]
    if not os.path.isfile(file):
        fail(f"{file}: no such file")
    for name, folder in (("--memory", options.memory), ("--keep", options.keep)):
        try:
            if folder:
                os.makedirs(folder, exist_ok=True)
        except OSError as problem:
            fail(f"{name} {folder}: {problem.strerror}")
    if options.keep:
        return rehearse(options, options.keep)
    with tempfile.TemporaryDirectory(prefix="weft-rehearsal-") as folder:
        return rehearse(options, folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
