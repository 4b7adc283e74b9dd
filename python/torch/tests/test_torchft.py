"""torchft's manager and lighthouse over weftcomm_torch.torchft; skipped without torchft."""

import json
import pathlib
import subprocess
import sys
import time

import pytest
import torch

pytest.importorskip("torchft")
JOB = pathlib.Path(__file__).parent / "torchft_job.py"


def alone(steps):
    """The weights after each step of one process that averages over the members, in the order of their ranks."""
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1, dtype=torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step, members in steps:
        sums = [torch.zeros_like(p) for p in model.parameters()]
        for replica in members:
            x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1000 * step + replica), dtype=torch.float64)
            model.zero_grad()
            (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
            for total, p in zip(sums, model.parameters()):
                total += p.grad
        for total, p in zip(sums, model.parameters()):
            p.grad = total / len(members)
        optimizer.step()
        yield [w.hex() for w in model.weight[0].tolist()]


@pytest.mark.parametrize("killed", [1, 0, 2])
def test_a_replica_is_killed_and_comes_back_and_each_step_is_that_of_its_members(tmp_path, killed):
    from torchft.coordination import LighthouseServer

    server = LighthouseServer(bind="127.0.0.1:0", min_replicas=2, join_timeout_ms=3000, quorum_tick_ms=20, heartbeat_timeout_ms=1000)
    address = "http://127.0.0.1:" + server.address().rsplit(":", 1)[1]
    logs = [tmp_path / f"replica{r}" for r in range(3)]
    outputs = [open(tmp_path / f"out{r}", "w") for r in range(3)]

    def start(replica, *more):
        words = [sys.executable, str(JOB), str(replica), address, str(logs[replica]), *more]
        return subprocess.Popen(words, stdout=outputs[replica], stderr=subprocess.STDOUT)

    replicas = [start(r, "4") if r == killed else start(r) for r in range(3)]
    try:
        assert replicas[killed].wait(120) == -9
        logs[killed].write_text("")
        replicas[killed] = start(killed, "joins")
        until = time.monotonic() + 150
        codes = [p.wait(max(1, until - time.monotonic())) for p in replicas]
    except subprocess.TimeoutExpired:
        codes = [p.poll() for p in replicas]
    finally:
        for p in replicas:
            p.kill()
        server.shutdown()
    said = "\n".join((tmp_path / f"out{r}").read_text()[-3000:] for r in range(3))
    assert codes == [0, 0, 0], said
    lines = [[json.loads(line) for line in log.read_text().splitlines()] for log in logs]
    survivors = [lines[r] for r in range(3) if r != killed]
    steps = [line for line in survivors[0] if "step" in line]
    assert steps == [line for line in survivors[1] if "step" in line]
    assert [s["members"] for s in lines[killed] if "step" in s] == [[0, 1, 2]] * 5
    assert {len(s["members"]) for s in steps} == {2, 3}
    expected = list(alone([(s["step"], s["members"]) for s in steps]))
    assert [s["weights"] for s in steps] == expected
    assert lines[killed][-2]["weights"] == expected[-1]
    changes = survivors[0][-1]["changes"]
    print(json.dumps(changes), json.dumps(lines[killed][-1]))
    assert [c["how"] for c in changes] == [["meet"], ["shrink"], ["grow", "order"] if killed < 2 else ["grow"]]
    assert all("exchange" in c["ms"] for c in changes)


def test_quorums_are_made_of_the_communicator_that_their_members_share():
    job = JOB.with_name("torchft_quorums.py")
    done = subprocess.run([sys.executable, str(job)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    later = "('grow',), (), ('shrink',), ('order',)]"
    for number in (0, 1):
        assert f"quorums of {number} [('meet',), ('shrink',), {later}" in done.stdout, done.stdout
    assert f"quorums of 2 [('meet',), {later}" in done.stdout, done.stdout
