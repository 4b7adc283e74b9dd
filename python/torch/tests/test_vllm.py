"""weft as vLLM's communicator on CPUs, by the entry point that vLLM loads in each of its processes."""

import json
import os
import subprocess
import sys

from conftest import HERE


def answers_of(tmp_path, as_gloo, platform="cpu", ranks=4):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "WEFT_AS_GLOO": as_gloo}
    file = tmp_path / f"meet_{as_gloo}_{platform}"
    command = [sys.executable, str(HERE / "vllm_job.py")]
    processes = [
        subprocess.Popen([*command, str(rank), str(ranks), str(file), platform], stdout=subprocess.PIPE, env=environment)
        for rank in range(ranks)
    ]
    try:
        return [json.loads(process.communicate(timeout=120)[0]) for process in processes]
    finally:
        for process in processes:
            process.kill()


def test_its_tensor_parallel_groups_are_carried_by_weft_with_the_answers_of_gloo(tmp_path):
    weft, gloo = answers_of(tmp_path, "1"), answers_of(tmp_path, "0")
    assert [rank.pop("carrier") for rank in weft] == ["weftcomm_torch.vllm"] * 4
    assert [rank.pop("carrier") for rank in gloo] == ["gloo"] * 4
    assert [rank.pop("own") for rank in weft] == [False] * 4  # its shared memory is left alone
    assert [rank.pop("own") for rank in gloo] == [True] * 4
    assert weft == gloo
    assert [rank["sum"] for rank in weft] == [[3.0] * 3] * 2 + [[7.0] * 3] * 2
    assert [rank["gathered"] for rank in weft] == [None, [0, 1], None, [2, 3]]


def test_on_another_platform_than_the_cpu_vllm_stays_as_it_is(tmp_path):
    for rank in answers_of(tmp_path, "1", platform="cuda"):
        assert (rank["carrier"], rank["own"]) == ("gloo", True)
