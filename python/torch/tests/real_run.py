"""Runs scripts of ./rehearsed for real, on CPU ranks with gloo: as they are, and with each planted mistake.

  python real_run.py [SCRIPT[:MISTAKE]...] > rehearsal-mistakes.csv

Says for each whether it ended, failed (with the first error) or hung. None of it is a test: it is the evidence that
what test_rehearse_mistakes.py finds is a mistake (bench/results).
"""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent / "rehearsed"
RANKS, PATIENCE = 4, float(os.environ.get("PATIENCE", "40"))


def outcome(script, mistake):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        logs = [open(os.path.join(folder, str(r)), "w+") for r in range(RANKS)]
        ranks = [
            subprocess.Popen(
                [sys.executable, str(HERE / script)],
                env={**os.environ, "MISTAKE": mistake, "RANK": str(r), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(r),
                     "LOCAL_WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                     "OMP_NUM_THREADS": "1"},
                stdout=log, stderr=log, start_new_session=True,
            )
            for r, log in enumerate(logs)
        ]  # fmt: skip
        hung = False
        for rank in ranks:
            try:
                rank.wait(PATIENCE if not hung else 1)
            except subprocess.TimeoutExpired:
                hung = True
        statuses = [rank.poll() for rank in ranks]
        for rank in ranks:
            if rank.poll() is None:
                os.killpg(rank.pid, signal.SIGKILL)
                rank.wait()
        said = ""
        for log in logs:
            log.seek(0)
            lines = [l.strip() for l in log.read().splitlines() if "Error" in l and "Traceback" not in l]
            said = said or (lines[-1] if lines else "")
    if hung:
        waits = [str(r) for r, s in enumerate(statuses) if s is None]
        return "hangs", f"ranks {' '.join(waits)} after {PATIENCE:g} s" + (f"; others: {said}" if said else "")
    return ("fails", said) if any(statuses) else ("ends", "")


def cases():
    """SCRIPT:MISTAKE of every script, the correct one first."""
    for script in sorted(HERE.glob("*.py")):
        text = script.read_text()
        yield f"{script.name}:"
        for word in sorted({w.split('"')[1] for w in text.split("MISTAKE ")[1:] if w.startswith(('== "', '!= "'))}):
            yield f"{script.name}:{word}"


if __name__ == "__main__":
    print("script,mistake,outcome,detail", flush=True)
    for case in sys.argv[1:] or cases():
        script, _, mistake = case.partition(":")
        how, detail = outcome(script, mistake)
        print(f'{script},{mistake},{how},"{detail[:200]}"'.replace('""', ""), flush=True)
