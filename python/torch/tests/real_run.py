"""Runs scripts of ./rehearsed for real, on CPU ranks with gloo: as they are, and with each planted mistake.

  python real_run.py [SCRIPT[:MISTAKE]...] > rehearsal-mistakes.csv

Says for each whether it ended, failed (with the first error) or hung. None of it is a test: it is the evidence that
what test_rehearse_mistakes.py finds is a mistake (bench/results).
"""

import os
import pathlib
import runpy
import signal
import socket
import sys
import tempfile
import time
import traceback

import torch
import torch.distributed.checkpoint.state_dict
import torch.distributed.fsdp
import torch.distributed.pipelining
import torch.distributed.tensor.parallel

HERE = pathlib.Path(__file__).parent / "rehearsed"
RANKS, PATIENCE = 4, float(os.environ.get("PATIENCE", "20"))


def start(script, mistake, rank, port, log):
    """A rank as a fork of this process, which has imported torch already."""
    pid = os.fork()
    if pid:
        return pid
    os.environ.update(
        {"MISTAKE": mistake, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank),
         "LOCAL_WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    )  # fmt: skip
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    status = 0
    try:
        sys.argv = [str(HERE / script)]
        runpy.run_path(sys.argv[0], run_name="__main__")
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def ended(ranks, patience):
    """Exit statuses of the ranks by number, of those that end within the time."""
    statuses, until = {}, time.monotonic() + patience
    while len(statuses) < len(ranks) and time.monotonic() < until:
        for number, pid in enumerate(ranks):
            if number not in statuses and os.waitpid(pid, os.WNOHANG)[0]:
                statuses[number] = 0
        time.sleep(0.05)
    return statuses


def outcome(script, mistake):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    logs = [tempfile.TemporaryFile("w+") for _ in range(RANKS)]
    ranks = [start(script, mistake, rank, port, log) for rank, log in enumerate(logs)]
    done = ended(ranks, PATIENCE)
    for number, pid in enumerate(ranks):
        if number not in done:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    said = []
    for number, log in enumerate(logs):
        log.seek(0)
        lines = [line.strip() for line in log.read().splitlines()]
        said += [f"rank {number}: {line}" for line in lines if "Error" in line and "[" != line[:1] and "://" not in line]
    if len(done) < RANKS:
        waits = " ".join(str(r) for r in range(RANKS) if r not in done)
        return "hangs", f"ranks {waits} for {PATIENCE:g} s" + (f"; {said[0]}" if said else "")
    return ("fails", said[0]) if said else ("ends", "")


def cases():
    """SCRIPT:MISTAKE of every script, the correct one first."""
    for script in sorted(HERE.glob("*.py")):
        text = script.read_text()
        yield f"{script.name}:"
        for word in sorted({w.split('"')[1] for w in text.split("MISTAKE ")[1:] if w.startswith(('== "', '!= "'))}):
            yield f"{script.name}:{word}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("script,mistake,outcome,detail", flush=True)
    for case in sys.argv[1:] or cases():
        script, _, mistake = case.partition(":")
        how, detail = outcome(script, mistake)
        print(f'{script},{mistake},{how},"{detail[:200]}"'.replace('""', ""), flush=True)
