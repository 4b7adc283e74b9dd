"""Runs scripts of ./rehearsed for real, on CPU ranks with gloo: as they are, and with each planted mistake.

  python real_run.py [SCRIPT[:MISTAKE]...] > rehearsal-mistakes.csv

Says for each whether it ended, failed (with the first error) or hung. None of it is a test: it is the evidence that
what test_rehearse_mistakes.py finds is a mistake (bench/results).
"""

import csv
import faulthandler
import os
import pathlib
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
RANKS, HANGS_AFTER = 4, float(os.environ.get("HANGS_AFTER", "20"))


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
    faulthandler.register(signal.SIGUSR1)
    status = 0
    try:
        sys.argv = [str(HERE / script)]
        with open(sys.argv[0], encoding="utf-8") as file:
            kept = {"__name__": "__main__", "__file__": sys.argv[0]}  # gloo can hang where its last user is freed
            exec(compile(file.read(), sys.argv[0], "exec"), kept)  # noqa: S102
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def ended(ranks, seconds):
    """Exit statuses of the ranks by number, of those that end within the time."""
    statuses, until = {}, time.monotonic() + seconds
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
    done = ended(ranks, HANGS_AFTER if mistake else 6 * HANGS_AFTER)
    errors = [f"rank {r}: {e}" for r, log in enumerate(logs) for e in lines(log) if "Error: " in e and "[rank" not in e]
    waits = []
    for number, pid in enumerate(ranks):
        if number in done:
            continue
        os.kill(pid, signal.SIGUSR1)  # says where it is
        time.sleep(0.3)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        at = [e.split("line ")[1].split(" ")[0] for e in lines(logs[number]) if f'{script}", line ' in e]
        waits.append(f"rank {number} at {script}:{at[0].rstrip(',') if at else '?'}")
    said = errors[0] if errors else ""
    if waits:
        return "hangs", f"{', '.join(waits)} for {HANGS_AFTER:g} s" + (f"; {said}" if said else "")
    return ("fails", said) if said else ("ends", "")


def lines(log):
    log.seek(0)
    return [line.strip() for line in log.read().splitlines()]


def cases():
    """SCRIPT:MISTAKE of every script, the correct one first."""
    for script in sorted(HERE.glob("*.py")):
        text = script.read_text()
        yield f"{script.name}:"
        for word in sorted({w.split('"')[1] for w in text.split("MISTAKE ")[1:] if w.startswith(('== "', '!= "'))}):
            yield f"{script.name}:{word}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["script", "mistake", "outcome", "detail"])
    for case in sys.argv[1:] or cases():
        script, _, mistake = case.partition(":")
        how, detail = outcome(script, mistake)
        table.writerow([script, mistake, how, detail[:240]])
        sys.stdout.flush()
