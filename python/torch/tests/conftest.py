"""What several test files need: ranks as processes, and which parts of torch.distributed the installed torch has."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest
import torch.distributed as dist

# A shell that starts pytest in its background ignores SIGINT, and so would the tests and every process of theirs.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = pathlib.Path(__file__).parent
HAS = {name: hasattr(dist, attribute) for name, attribute in
       {"reconfigure": "_reconfigure", "window": "_new_window", "gather_single": "gather_single"}.items()}  # fmt: skip
HAS["ephemeral_timeout"] = hasattr(dist.ProcessGroup, "_add_ephemeral_timeout")
HAS["hooks"] = hasattr(dist.ProcessGroup, "register_pre_hook")


def pytest_collection_modifyitems(config, items):
    """WEFT_TEST_PART=2/3: every third test, from the second on. CI has no time for all each day."""
    if part := os.environ.get("WEFT_TEST_PART"):
        first, step = (int(number) for number in part.split("/"))
        chosen = items[first - 1 :: step]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


def needs(part):
    """Marks tests of a part of torch.distributed that the installed torch may lack: 2.13 has none of them."""
    return pytest.mark.skipif(not HAS[part], reason=f"this torch has no {part}: torch 2.14 or 2.15 has")


def run_ranks(program, name, tmp_path, ranks=2, backend="weft", **environment):
    """What every rank of a program printed."""
    file = tmp_path / f"meet_{backend}"
    processes = [
        subprocess.Popen(
            [sys.executable, str(HERE / program), name, str(rank), str(ranks), str(file), backend],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        for rank in range(ranks)
    ]
    printed = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=120)
            printed.append(out.strip() if process.returncode <= 0 else f"exit {process.returncode}: {out}{err[-3000:]}")
    finally:
        for process in processes:
            process.kill()
    return printed
