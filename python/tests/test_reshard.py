"""weftcomm.reshard: layouts, plans, versions; compared with NumPy."""

import ast
import contextlib
import io
import pathlib
import random
import re
import subprocess
import sys

import numpy as np
import pytest

import weftcomm
from weftcomm.reshard import Layout, Plan, Receiver, Sender
from weftcomm.transfer import Agent


def layout(ranks, placement, shape=(24, 10), dtype="float32", more=()):
    made = Layout(ranks)
    made.mesh("m", {"tp": ranks})
    made.tensor("w", shape, dtype, [placement], "m")
    for row in more:
        made.tensor(*row, "m")
    return made


def part(whole, ranks, placement, rank):
    """As torch.chunk: pieces of ceil(n / ranks) rows."""
    if placement == "Replicate()":
        return whole
    dim = int(placement[-2])
    size = -(-whole.shape[dim] // ranks)
    return np.take(whole, range(min(rank * size, whole.shape[dim]), min((rank + 1) * size, whole.shape[dim])), dim)


def job(plan, ranks_to):
    agents = [Agent(f"from{r}") for r in range(plan.senders)]
    senders = [Sender(plan, r, agent) for r, agent in enumerate(agents)]
    receivers = [Receiver(plan, r, Agent(f"to{r}"), [s.address() for s in senders]) for r in range(ranks_to)]
    return agents, senders, receivers


def test_random_layouts_move_what_numpy_says():
    rng = random.Random(5)
    for _ in range(60):
        a, b = rng.randint(1, 5), rng.randint(1, 5)
        shape = (rng.randint(1, 30), rng.randint(1, 30))
        kinds = ["Shard(0)", "Shard(1)", "Replicate()"]
        of, to = rng.choice(kinds), rng.choice(kinds)
        whole = np.random.default_rng(a).standard_normal(shape, dtype=np.float32)
        plan = Plan(layout(a, of, shape), layout(b, to, shape))
        agents, senders, receivers = job(plan, b)
        for version in (1, 2):
            for r, sender in enumerate(senders):
                sender.begin()
                sender.tensors["w"][:] = part(whole, a, of, r)
                sender.publish(version)
            for r, receiver in enumerate(receivers):
                receiver.pull(version)
                assert (receiver.tensors["w"] == part(whole, b, to, r)).all(), (a, of, b, to, shape)
            whole = whole + 1
        assert agents


def test_a_version_of_which_little_has_changed_moves_little():
    plan = Plan(layout(2, "Shard(0)", (1024, 1024)), layout(1, "Replicate()", (1024, 1024)))
    agents, senders, (receiver,) = job(plan, 1)
    for sender in senders:
        sender.tensors["w"][:] = 1
        sender.publish(1)
    receiver.pull(1)
    assert receiver.arrived == 4 << 20
    senders[1].begin()
    senders[1].tensors["w"][5, 5] = 7
    senders[1].publish(2)
    senders[0].publish(2)
    receiver.pull(2)
    assert receiver.arrived == 16 << 10
    assert receiver.tensors["w"][512 + 5, 5] == 7
    with pytest.raises(weftcomm.Error, match="rank 0 of from has version 2, not version 3"):
        receiver.pull(3)
    assert agents


def test_a_dead_sender_without_a_replica_is_named_with_its_tensor_and_one_that_returns_goes_on():
    plan = Plan(layout(2, "Shard(0)"), layout(1, "Replicate()"))
    agents, senders, (receiver,) = job(plan, 1)
    for sender in senders:
        sender.publish(1)
    senders.pop()
    agents.pop()
    del sender
    with pytest.raises(weftcomm.Error, match="tensor w: rank 0: rank 1 of from is lost"):
        receiver.pull(1)
    again = Agent("from1")
    sender = Sender(plan, 1, again)
    sender.tensors["w"][:] = 3
    sender.publish(1)
    receiver.returned(1, sender.address())
    receiver.pull(1)
    assert (receiver.tensors["w"][12:] == 3).all()


def test_floats_become_bfloat16_and_float8_with_scales():
    to = layout(1, "Replicate()", (256, 256), "float8_e4m3fn", [("w_scale_inv", (2, 2), "float32", ["Replicate()"])])
    of = layout(2, "Shard(0)", (256, 256))
    with pytest.raises(weftcomm.Error, match="tensor w: has elements of float8_e4m3fn, in from of float32"):
        Plan(of, to)
    plan = Plan(of, to, convert=True)
    assert sum(p.bytes for p in plan.pairs()) == 256 * 256 + 16
    agents, senders, (receiver,) = job(plan, 1)
    whole = np.random.default_rng(1).standard_normal((256, 256), dtype=np.float32)
    for r, sender in enumerate(senders):
        sender.tensors["w"][:] = whole[128 * r : 128 * r + 128]
        sender.publish(1)
    receiver.pull(1)
    types = pytest.importorskip("ml_dtypes")
    scales = np.repeat(np.repeat(receiver.tensors["w_scale_inv"], 128, 0), 128, 1)
    expected = (whole / scales).astype(types.float8_e4m3fn)
    assert (receiver.tensors["w"].view(types.float8_e4m3fn) == expected).all()
    assert agents


class Placement:  # as torch's print themselves
    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


def test_what_has_a_mesh_and_placements_is_read_as_a_dtensor():
    class Mesh:
        mesh, mesh_dim_names = np.arange(4).reshape(2, 2), ("dp", "tp")

    class Tensor:
        device_mesh, shape, dtype = Mesh, (6, 5), "torch.bfloat16"
        placements = (Placement("_StridedShard(dim=0, sf=2)"), Placement("Shard(dim=0)"))

    made = Layout.of_dtensors({"w": Tensor})
    plan = Plan(made, made, same_ranks=True)
    assert plan.senders == 4
    shapes = [plan._core.parts("to", rank)[0][0][3] for rank in range(4)]
    assert sum(rows for rows, _ in shapes) == 6 and {columns for _, columns in shapes} == {5}


def test_dtensors_say_their_mesh_and_placements():
    torch = pytest.importorskip("torch")
    placement = pytest.importorskip("torch.distributed.tensor")

    class Mesh:  # what a DeviceMesh has, without processes
        mesh, mesh_dim_names = torch.arange(4).reshape(2, 2), ("dp", "tp")

    class Tensor:
        device_mesh, shape, dtype = Mesh, torch.Size([6, 4]), torch.float32
        placements = (placement.Shard(0), placement.Replicate())

    made = Layout.of_dtensors({"w": Tensor, "step": torch.zeros(3)})
    plan = Plan(made, made, same_ranks=True)
    assert plan.senders == 4
    parts, _ = plan._core.parts("to", 3)
    assert [(name, shape) for name, _, _, shape, _ in parts] == [("w", (3, 4)), ("step", (3,))]


def test_torchs_dtensors_go_in_and_out_as_full_tensor_says(tmp_path):
    pytest.importorskip("torch.distributed.tensor")
    job = pathlib.Path(__file__).parent / "jobs" / "dtensors.py"
    run = subprocess.run(
        [sys.executable, str(job), str(tmp_path / "store"), "12"], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert "equal to full_tensor()" in run.stdout


def test_parts_are_copied_from_and_to_arrays_by_name():
    plan = Plan(layout(2, "Shard(0)"), layout(1, "Replicate()"))
    agents, senders, (receiver,) = job(plan, 1)
    whole = np.arange(240, dtype=np.float32).reshape(24, 10)
    for r, sender in enumerate(senders):
        sender.copy_from({"w": whole[12 * r : 12 * r + 12]})
        sender.publish(1)
    receiver.pull(1)
    out = np.zeros((24, 10), np.float32)
    receiver.copy_to({"w": out})
    assert (out == whole).all()
    for tensors, message in [
        ({}, "tensor w: is missing"),
        ({"w": out, "x": out}, "tensor x: the layout gives this rank no part of it"),
        ({"w": out[:3]}, r"tensor w: this rank's part has shape \[24, 10\], not \[3, 10\]"),
        ({"w": out.astype(np.float64)}, "tensor w: has elements of float32, not of float64"),
        ({"w": [1.0]}, "tensor w: is a list, no array and no torch tensor"),
    ]:
        with pytest.raises(weftcomm.InvalidArgument, match=message):
            receiver.copy_to(tensors)
    assert agents


def test_versions_are_whole_numbers_that_only_go_up():
    plan = Plan(layout(1, "Replicate()"), layout(1, "Replicate()"))
    agents, (sender,), (receiver,) = job(plan, 1)
    sender.begin()
    sender.tensors["w"][:12] = 2  # half written, not published
    for version in (0, -1, 0.5, True, None, "1", 2**63, 2**70):
        with pytest.raises(weftcomm.InvalidArgument, match="^(version|pull)"):
            receiver.pull(version)
        with pytest.raises(weftcomm.InvalidArgument, match="^(version|publish)"):
            sender.publish(version)
    assert receiver.arrived == 0 and (receiver.tensors["w"] == 0).all()
    sender.publish(2)
    receiver.pull(2)
    sender.begin()
    sender.tensors["w"][:] = 9
    for version in (1, 2):  # who has version 2 would keep the old content
        with pytest.raises(weftcomm.InvalidArgument, match=f"version {version}: 3 or more"):
            sender.publish(version)
    sender.publish(3)
    receiver.pull(3)
    assert (receiver.tensors["w"] == 9).all()
    assert agents


def test_a_sender_that_cannot_be_reached_is_lost_and_one_that_holds_the_same_takes_over(tmp_path):
    words = str(tmp_path / "two.json")
    pathlib.Path(words).write_text(layout(2, "Replicate()").text())
    plan = Plan(words, words)
    agents, senders, _ = job(plan, 1)
    for sender in senders:
        sender.tensors["w"][:] = 4
        sender.publish(1)
    addresses = [sender.address() for sender in senders]
    program = (
        "from weftcomm.reshard import Plan, Sender; from weftcomm.transfer import Agent;"
        f"s = Sender(Plan({words!r}, {words!r}), 0, Agent('gone')); s.publish(1); print(repr(s.address()))"
    )
    ended = ast.literal_eval(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
    receiver = Receiver(plan, 0, Agent("to"), [ended, addresses[1]])
    receiver.pull(1)
    assert (receiver.tensors["w"] == 4).all()
    with pytest.raises(weftcomm.Error, match="cannot be reached"):
        receiver.returned(0, ended)
    with pytest.raises(weftcomm.Error, match="tensor w: rank 0: rank [01] of .*two.json is lost, and no other has its part"):
        Receiver(plan, 0, Agent("alone"), [ended, None]).pull(1)
    for wrong, says in ((addresses[:1], "1 addresses for 2 ranks"), (addresses * 2, "4 addresses"), (addresses[:1] * 2, "one address"), (7, "several")):
        with pytest.raises(weftcomm.InvalidArgument, match=says):
            Receiver(plan, 0, agents[-1], wrong)
    assert agents


def test_layouts_that_do_not_fit_are_one_line_with_the_tensor():
    with pytest.raises(weftcomm.Error, match=r"tensor w: has shape \[24, 10\], in from \[24, 11\]"):
        Plan(layout(2, "Shard(0)", (24, 11)), layout(1, "Replicate()"))
    with pytest.raises(weftcomm.Error, match="Partial"):
        Plan(layout(2, "Partial()"), layout(1, "Replicate()"))


def test_the_pages_program_prints_what_the_page_says():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "reshard.md").read_text()
    program, printed = re.search(r"```python\n(.*?)```\s+It prints\n\n(.*?)\n\n(?!    )", page, re.DOTALL).groups()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(program, "docs/reshard.md", "exec"), {"__name__": "page"})
    assert out.getvalue().split("\n")[:-1] == [line.removeprefix("    ") for line in printed.split("\n")]
