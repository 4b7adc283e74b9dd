"""A rank of a DDP training is killed, stopped or cut off at any step: the others raise the right class with its name, and
can go on; their losses are those of a training in which nobody failed.

CHAOS=N: N cases at random (CHAOS_SEED) instead of the chosen ones; CHAOS=every: every step and moment. A rank is cut off
where ranks have network namespaces of their own, over TCP: its interface goes down. That needs root.
"""

import contextlib
import itertools
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).with_name("chaos_program.py")
RANKS = 3
WAYS = ("kill", "stop", "cut")
MOMENTS = ("forward", "backward", "step")
STEPS = range(10)
CHOSEN = [("kill", 0, "forward"), ("kill", 2, "backward"), ("kill", 5, "step"), ("stop", 3, "backward"), ("cut", 4, "backward")]
EVERY = list(itertools.product(WAYS, STEPS, MOMENTS))
if os.environ.get("CHAOS") == "every":
    CHOSEN = EVERY
elif "CHAOS" in os.environ:
    chance = random.Random(int(os.environ.get("CHAOS_SEED", "1")))
    CHOSEN = [chance.choice(EVERY) for _ in range(int(os.environ["CHAOS"]))]


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextlib.contextmanager
def hosts():
    """Words before a rank's command: it then runs in a network namespace of its own, on a bridge with the others'."""
    names = [f"weft-chaos-{os.getpid()}-{n}" for n in (*range(RANKS), "bridge")]
    *ranks, middle = names
    try:
        for name in names:
            ip("netns", "add", name)
        ip("-n", middle, "link", "add", "bridge", "type", "bridge")
        ip("-n", middle, "link", "set", "bridge", "up")
        for number, name in enumerate(ranks):
            ip("-n", middle, "link", "add", f"to-{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("-n", middle, "link", "set", f"to-{number}", "master", "bridge", "up")
            ip("-n", name, "address", "add", f"10.78.0.{number + 1}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", name, "link", "set", device, "up")
        yield [["ip", "netns", "exec", name] for name in ranks]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def namespaces_can_be_made():
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    probe = f"weft-chaos-{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True).returncode == 0
    subprocess.run(["ip", "netns", "delete", probe], capture_output=True)
    return made


@pytest.fixture(scope="session")
def losses(tmp_path_factory):
    """The losses of a training in which nobody fails."""
    file = tmp_path_factory.mktemp("whole") / "meet"
    out = subprocess.run([sys.executable, PROGRAM, "0", "1", file, "nobody", "-1", "-"], capture_output=True, text=True, timeout=120)
    assert out.returncode == 0, out.stderr
    return [float(loss) for loss in out.stdout.split()[1:]]


@pytest.mark.parametrize("how, step, moment", CHOSEN)
def test_survivors_name_the_rank_that_failed_and_go_on_without_it(how, step, moment, tmp_path, losses):
    if how == "cut" and not namespaces_can_be_made():
        pytest.skip("network namespaces need root and iproute2")
    with hosts() if how == "cut" else contextlib.nullcontext([[]] * RANKS) as prefixes:
        more = {"WEFT_IFACE": "eth0"} if how == "cut" else {}
        ranks = [
            subprocess.Popen(
                [*prefixes[rank], sys.executable, PROGRAM, str(rank), str(RANKS), str(tmp_path / "meet"), how, str(step), moment],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **more},
            )
            for rank in range(RANKS)
        ]  # fmt: skip
        try:
            survivors = [ranks[0].communicate(timeout=120), ranks[2].communicate(timeout=120)]
        finally:
            for process in ranks:
                process.send_signal(signal.SIGKILL)
                process.wait()
    for out, err in survivors:
        first, before, after = out.splitlines()
        assert first == "DistBackendError names rank 1: True, soon: True", out + err[-2000:]
        # A failure in forward or backward ends that step for all ranks, one after backward the next step. The average of
        # three equal gradients is rounded.
        seen = [float(loss) for loss in before.split()[1:]]
        assert len(seen) == (step + 1 if moment == "step" else step), before
        assert seen == pytest.approx(losses[: len(seen)], rel=1e-5)
        assert after == "went on as 2 ranks, alike: True", out + err[-2000:]
