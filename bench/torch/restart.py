#!/usr/bin/env python3
"""How long torchrun's elastic restart takes with gloo and with weft: from the kill -9 of a rank to the first all_reduce after it.

  build/torch/venv/bin/python bench/torch/restart.py [--rounds 3] [--ranks 2] [--seconds 60]

torchrun starts the ranks with --max-restarts 1. After 20 all_reduces rank 1 kills itself; torchrun ends the others and starts
all anew. A job that has not ended after --seconds has failed, and is killed. Backends take turns. Reported are minimum and median of: what passes until the new ranks' program begins (torchrun
notices, ends and starts processes), until torch is imported, until the group is there, and until the first all_reduce.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

PHASES = ("program", "imported", "group", "all_reduce")


def rank_program(backend, folder):
    begin = {"program": time.time()}
    import torch
    import torch.distributed as dist

    begin["imported"] = time.time()
    torch.set_num_threads(1)
    dist.init_process_group(backend)
    begin["group"] = time.time()
    x = torch.ones(1024)
    dist.all_reduce(x)
    begin["all_reduce"] = time.time()
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        for _ in range(20):
            dist.all_reduce(x)
        if dist.get_rank() == 1:
            (folder / "killed").write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            while True:
                dist.all_reduce(x)
        except RuntimeError:
            (folder / f"noticed_{dist.get_rank()}").write_text(str(time.time()))
            raise
    (folder / f"again_{dist.get_rank()}").write_text(json.dumps(begin))
    dist.destroy_process_group()


def children_of(process):
    """Processes that this one has started and that still run."""
    try:
        return [int(p) for p in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def restart(backend, ranks, limit):
    """Seconds from the kill to each phase, of the last rank; and until a survivor noticed, if one did before it was ended.
    None: the job did not come up again, or not at all; stderr has why."""
    with tempfile.TemporaryDirectory(prefix="weft-restart-") as name:
        folder = pathlib.Path(name)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks),
                   "--max-restarts", "1", __file__, "--rank-program", backend, name]  # fmt: skip
        errors = folder / "stderr"
        with errors.open("w") as file:
            job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file, start_new_session=True,
                                   env={**os.environ, "OMP_NUM_THREADS": "1"})  # fmt: skip
            try:
                ended = f"exit {job.wait(limit)}"
            except subprocess.TimeoutExpired:
                ended = f"not ended after {limit:.0f} s"
            finally:
                for group in {job.pid, *children_of(job.pid)}:  # torchrun's ranks have sessions of their own
                    try:
                        os.killpg(group, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                job.wait()
        if ended != "exit 0":
            reason = [line for line in errors.read_text().splitlines() if "Error: " in line]
            print(f"{backend}: torchrun: {ended}: {reason[0][:200] if reason else ''}", file=sys.stderr)
            return None
        killed = float((folder / "killed").read_text())
        again = [json.loads((folder / f"again_{r}").read_text()) for r in range(ranks)]
        times = {phase: max(a[phase] for a in again) - killed for phase in PHASES}
        noticed = [float(f.read_text()) - killed for f in folder.glob("noticed_*")]
        return times | ({"noticed": max(noticed)} if noticed else {})


def main():
    if sys.argv[1:2] == ["--rank-program"]:
        return rank_program(sys.argv[2], pathlib.Path(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    found = {"gloo": [], "weft": []}
    for _ in range(options.rounds):
        for backend, times in found.items():
            if (taken := restart(backend, options.ranks, options.seconds)) is not None:
                times.append(taken)
    print("| s after the kill, min / median | restarts that went well | a survivor notices | the program begins | torch is imported | the group is there | first all_reduce |")
    print("|---|---|---|---|---|---|---|")
    for backend, rounds in found.items():
        cells = [f"{len(rounds)} of {options.rounds}"]
        for phase in ("noticed", *PHASES):
            values = [r[phase] for r in rounds if phase in r]
            cells.append(f"{min(values):.3f} / {statistics.median(values):.3f}" if values else "-")
        print(f"| {backend} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
