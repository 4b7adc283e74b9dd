"""rehearse(fn, on=…): functions and scripts from Python, and the example of docs/rehearse.md."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from weftcomm_torch.rehearse import rehearse

HERE = pathlib.Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "rehearse.md"


def unequal(width):
    """A job of which the last rank reduces another shape."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    last = dist.get_rank() == dist.get_world_size() - 1
    dist.all_reduce(torch.ones(width + last, device="cuda"))  # line: unequal


def too_large():
    import torch

    torch.distributed.init_process_group("nccl")
    return torch.empty(100 << 30, dtype=torch.uint8, device="cuda")


def one_step_of_adam():
    import torch

    torch.distributed.init_process_group("nccl")
    torch.distributed.new_group([0, 1])  # line: unused
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        model(torch.randn(64, 1024, device="cuda")).sum().backward()
        for parameter in model.parameters():
            torch.distributed.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()


def many_small_sums():
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    for _ in range(20):
        dist.all_reduce(torch.ones(16, device="cuda"))  # line: small


def asynchronous_checkpoint(folder, backend):
    import torch
    import torch.distributed.checkpoint as dcp

    torch.distributed.init_process_group(backend)
    dcp.async_save({"weight": torch.ones(1024, device="cuda")}, checkpoint_id=folder).result()


def saved_over(folder):
    import torch
    import torch.distributed.checkpoint as dcp

    torch.distributed.init_process_group("cpu:gloo,cuda:nccl")
    state = {"weight": torch.ones(1024, device="cuda"), "epoch": 7}
    dcp.save(state, checkpoint_id=folder)
    dcp.load(state, checkpoint_id=folder)
    assert state["epoch"] == 7 and state["weight"].shape == (1024,)


def uneven_parts(sizes):
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    parts = [torch.empty(n, device="cuda") for n in sizes]
    dist.all_gather(parts, torch.ones(sizes[dist.get_rank()], device="cuda"))


def batches_cut_by_random_numbers():
    import torch

    torch.distributed.init_process_group("nccl")
    data = torch.arange(10000)
    starts = torch.randint(len(data) - 256, (8,))
    batch = torch.stack([data[i : i + 256] for i in starts])
    assert batch.shape == (8, 256) and [int(row[1] - row[0]) for row in batch] == 8 * [1]


def count_agreed_on():
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    count = torch.tensor([10 * (dist.get_rank() + 1)]).cuda()
    dist.all_reduce(count, dist.ReduceOp.MAX)
    for _ in range(int(count.item())):
        dist.barrier()


def a_parameter_that_rank_1_leaves_out(steps, **options):
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    rank = dist.get_rank()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

        def forward(self, x):
            return self.first(x) if rank == 1 else self.second(self.first(x))

    model = torch.nn.parallel.DistributedDataParallel(Model().cuda(), **options)
    for _ in range(steps):
        model(torch.randn(8, 8, device="cuda")).sum().backward()  # line: left out


def left_out_by_one():
    a_parameter_that_rank_1_leaves_out(1)


def left_out_by_one_in_two_steps():
    a_parameter_that_rank_1_leaves_out(2)


def left_out_and_looked_for():
    a_parameter_that_rank_1_leaves_out(2, find_unused_parameters=True)


def wrong_for_one_call(which):
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    if which == "sizes":
        dist.reduce_scatter_tensor(torch.ones(3, device="cuda"), torch.ones(16, device="cuda"))  # line: sizes
    if which == "cpu":
        dist.all_reduce(torch.ones(3))  # line: cpu
    if which == "spawn":
        torch.multiprocessing.spawn(print, nprocs=2)  # line: spawn


def product_in_float(precision):
    import torch

    torch.set_float32_matmul_precision(precision)
    torch.distributed.init_process_group("nccl")
    a = torch.randn(4096, 4096, device="cuda")
    return [a @ a for _ in range(10)]


def zero_redundancy():
    import torch
    from torch.distributed.optim import ZeroRedundancyOptimizer

    torch.distributed.init_process_group("nccl")
    model = torch.nn.Linear(1024, 1024).cuda()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    for _ in range(3):
        model(torch.randn(4096, 1024, device="cuda")).sum().backward()
        optimizer.step()


def compiled(compile):
    import torch

    torch.distributed.init_process_group("nccl")
    model = torch.nn.Sequential(torch.nn.GELU(), torch.nn.ReLU(), torch.nn.GELU()).cuda()
    result = (torch.compile(model) if compile else model)(torch.randn(1 << 26, device="cuda"))
    torch.cuda.synchronize()
    return result


def line_of(mark):
    lines = pathlib.Path(__file__).read_text().splitlines()
    return f"{pathlib.Path(__file__).name}:{next(i for i, t in enumerate(lines, 1) if t.endswith('# line: ' + mark))}"


def test_the_pages_test_passes_under_pytest(tmp_path):
    script, example = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)[:2]
    imports, program = script.split("dist.init", 1)
    body = "".join(f"    {line}\n" for line in ("dist.init" + program).splitlines())
    (tmp_path / "train.py").write_text(f"{imports}\ndef main():\n{body}")
    (tmp_path / "test_train.py").write_text(example)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "test_train.py"],
        cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_a_function_gets_its_arguments_and_its_findings_name_its_line():
    answer = rehearse(unequal, 16, on="dgx-h100", ranks=4)
    assert [f.rule for f in answer.findings] == ["mismatch"] and not answer.notes
    assert [(p.rank, p.line) for p in answer.findings[0].places] == [(0, line_of("unequal")), (3, line_of("unequal"))]
    assert "16 float" in answer.findings[0].text and "17 float" in answer.findings[0].text
    assert answer.world == 4 and answer.rehearsed == (0, 3) and answer.fits


def test_what_does_not_fit_is_said_by_fits():
    answer = rehearse(too_large, on="dgx-h100", ranks=2, ranks_as=[1])
    assert not answer.fits and answer.allocated == 100 << 30 and answer.rehearsed == (1,)
    assert [f.rule for f in answer.findings] == ["memory"]


def test_a_script_is_rehearsed_with_its_arguments(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import sys, torch.distributed as dist\ndist.init_process_group()\nassert sys.argv[1:] == ['--batch', '8']\n")
    assert rehearse(script, "--batch", 8, on="dgx-h100", ranks=2).findings == ()


def test_bad_input_raises_with_one_line():
    with pytest.raises(ValueError, match="no function of a module's file"):
        rehearse(lambda: None, on="dgx-h100")
    with pytest.raises(ValueError, match="'9' is no rank of 8"):
        rehearse(unequal, 1, on="dgx-h100", ranks_as="9")
    with pytest.raises(ValueError, match="missing.py: no such file"):
        rehearse("missing.py", on="dgx-h100")


def own_kernel(described):
    """An operator of one's own without an implementation for this device; `described`: with its shape."""
    import torch

    library = torch.library.Library("house", "DEF")
    library.define("fused(Tensor x) -> Tensor")
    if described:
        torch.library.register_fake("house::fused", lambda x: torch.empty_like(x))
    torch.distributed.init_process_group("nccl")
    return torch.ops.house.fused(torch.ones(4, device="cuda")).shape  # line: kernel


def test_a_kernel_of_ones_own_is_named_with_what_to_do():
    answer = rehearse(own_kernel, False, on="dgx-h100", ranks=2, ranks_as=[0])
    assert [f.rule for f in answer.findings] == ["error"] and answer.findings[0].places[0].line == line_of("kernel")
    assert "house.fused" in answer.findings[0].text and "register_fake" in answer.findings[0].text
    described = rehearse(own_kernel, True, on="dgx-h100", ranks=2, ranks_as=[0])
    assert described.findings == () and any("house.fused" in n and "no time" in n for n in described.notes)


def alone():
    return 1


def other_world():
    import torch.distributed as dist

    dist.init_process_group("nccl", world_size=64, rank=0)  # line: world


def test_a_script_without_a_process_group_is_answered_with_a_note():
    answer = rehearse(alone, on="dgx-h100", ranks=2)
    assert answer.findings == () and "the script never calls init_process_group: each rank trains alone" in answer.notes


def test_another_world_size_than_the_rehearsals_is_one_line_with_both():
    answer = rehearse(other_world, on="dgx-h100", ranks=2, ranks_as=[0])
    assert [f.rule for f in answer.findings] == ["error"] and answer.findings[0].places[0].line == line_of("world")
    assert "the script asks for 64 ranks, the rehearsal has 2" in answer.findings[0].text


def test_contents_that_the_script_made_itself_are_read_and_files_are_not_written(tmp_path):
    answer = rehearse(contents, str(tmp_path / "model.pt"), on="dgx-h100", ranks=2, ranks_as=[0])
    assert answer.findings == () and not (tmp_path / "model.pt").exists()


def contents(path):
    import torch

    torch.distributed.init_process_group("nccl")
    assert torch.tensor([3], device="cuda").item() == 3
    assert f"{torch.ones(2, device='cuda').sum():.1f}" == "1.0"
    assert torch.ones(2).pin_memory().to("cuda", non_blocking=True).device.type == "cuda"
    torch.cuda.reset_peak_memory_stats()
    large = torch.empty(1 << 20, device="cuda")
    assert torch.cuda.max_memory_allocated() >= large.numel() * 4
    del large
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() < 1 << 20
    torch.save({"step": 4}, path)
    assert torch.load(path) == {"step": 4}


def sharded_step():
    """Parameters of 256 MiB, of which each of 8 ranks has 32."""
    import torch
    from torch.distributed.fsdp import fully_shard

    torch.distributed.init_process_group("nccl")
    model = fully_shard(torch.nn.Linear(8192, 8192, bias=False, device="cuda"))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    model(torch.ones(8, 8192, device="cuda")).sum().backward()
    torch.cuda.reset_peak_memory_stats()
    optimizer.step()
    assert torch.cuda.max_memory_allocated() < 200 << 20  # parameters, gradients, two moments, a temporary one


def test_trials_of_dtensor_on_whole_shapes_are_no_memory_of_a_rank():
    assert rehearse(sharded_step, on="dgx-h100", ranks_as=[0]).findings == ()


def test_the_memory_at_its_peak_is_told_by_category_and_torch_reads_its_snapshot(tmp_path):
    import pickle

    from torch.cuda import _memory_viz

    answer = rehearse(one_step_of_adam, on="dgx-h100", ranks=2, memory=tmp_path)
    held = {h["category"]: h["bytes"] for h in answer.data["memory"]["held"]}
    weights = 4 * (2 * 1024 * 4096 + 1024 + 4096)
    for category, times in (("parameters", 1), ("gradients", 1), ("optimizer", 2)):
        assert times * weights <= held[category] <= times * weights * 1.02, held
    assert sum(held.values()) == answer.allocated
    snapshot = pickle.loads((tmp_path / "memory-1.pickle").read_bytes())
    assert "total_allocated" in _memory_viz.segsum(snapshot)
    assert "free completed" in _memory_viz.trace(snapshot)
    assert _memory_viz.trace_plot(snapshot) and _memory_viz.segment_plot(snapshot)


def test_hints_name_groups_without_use_and_calls_that_could_be_one():
    assert any(h.startswith(line_of("unused")) and "never used" in h
               for h in rehearse(one_step_of_adam, on="dgx-h100", ranks=4).hints)  # fmt: skip
    answer = rehearse(many_small_sums, on="dgx-h100")
    assert not answer.findings and any(h.startswith(line_of("small")) and "20 all_reduce" in h for h in answer.hints)


def test_an_asynchronous_checkpoint_needs_a_back_end_for_the_cpu_as_it_does_for_real(tmp_path):
    assert not rehearse(asynchronous_checkpoint, str(tmp_path), "cpu:gloo,cuda:nccl", on="dgx-h100", ranks=2).findings
    refused = rehearse(asynchronous_checkpoint, str(tmp_path), "nccl", on="dgx-h100", ranks=2)
    assert refused.findings[0].rule == "error" and "CPU backend" in refused.findings[0].text


def test_a_compiled_models_elementwise_kernels_move_their_bytes_once():
    eager, fused = (rehearse(compiled, c, on="dgx-h100", ranks=1).data["ranks"][0]["compute_s"] for c in (False, True))
    assert 0.3 < fused / eager < 0.65, (fused, eager)


def test_a_checkpoint_that_is_there_stays_as_it_is(tmp_path):
    for name in (".metadata", "__0_0.distcp"):
        (tmp_path / name).write_text("as it was")
    assert not rehearse(saved_over, str(tmp_path), on="dgx-h100", ranks=2).findings
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {".metadata": "as it was", "__0_0.distcp": "as it was"}


def test_a_checkpoint_leaves_no_folder_behind(tmp_path):
    assert not rehearse(saved_over, str(tmp_path / "step" / "1"), on="dgx-h100", ranks=2).findings
    assert list(tmp_path.iterdir()) == []


def test_parts_of_different_sizes_are_gathered_by_broadcasts_as_nccls_back_end_does():
    assert not rehearse(uneven_parts, [4, 5, 6], on="dgx-h100", ranks=3).findings


@pytest.mark.parametrize(
    ("which", "text"),
    [("sizes", "same size as output size times world size"), ("cpu", "No backend type"), ("spawn", "as torchrun does")],
)
def test_what_torch_refuses_is_an_error_with_its_line(which, text):
    found = rehearse(wrong_for_one_call, which, on="dgx-h100", ranks=4).findings[0]
    assert found.rule == "error" and text in found.text and line_of(which) in found.text


def test_float_products_take_longer_than_those_in_tf32():
    times = [rehearse(product_in_float, p, on="dgx-h100", ranks=1).data["ranks"][0]["compute_s"] for p in ("highest", "high")]
    assert 4 < times[0] / times[1] < 8  # 67 and 494.5 TFLOP/s at most


def test_a_step_of_a_sharded_optimizer_is_one_step():
    answer = rehearse(zero_redundancy, on="dgx-h100", ranks=2)
    assert answer.step > 0 and answer.data["ranks"][0]["compute_s"] < 4 * answer.step


@pytest.mark.parametrize("options", [["--keep", "a file"], ["--memory", "a file"], ["--ranks", "0"], ["--as", ""]])
def test_options_that_cannot_be_are_one_line(tmp_path, options):
    (tmp_path / "a file").write_text("")
    (tmp_path / "train.py").write_text("")
    words = [sys.executable, "-m", "weftcomm_torch", "rehearse", "--on", "dgx-h100", *options, "train.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and options[0] in done.stderr, done.stderr


def test_data_that_a_script_cuts_by_random_numbers_of_the_cpu_have_their_shape():
    assert not rehearse(batches_cut_by_random_numbers, on="dgx-h100", ranks=1).findings


def test_a_number_that_ranks_agree_on_is_the_same_on_all():
    assert not rehearse(count_agreed_on, on="dgx-h100", ranks=2).findings


def test_a_parameter_that_one_rank_leaves_out_of_ddp_is_found():
    once = rehearse(left_out_by_one, on="dgx-h100", ranks=2).findings
    assert [f.rule for f in once] == ["missing_call"] and "rank 1 never makes this call" in once[0].text
    twice = rehearse(left_out_by_one_in_two_steps, on="dgx-h100", ranks=2).findings
    assert any(f.rule == "error" and "finished reduction" in f.text and line_of("left out") in f.text for f in twice)
    assert not rehearse(left_out_and_looked_for, on="dgx-h100", ranks=2).findings
