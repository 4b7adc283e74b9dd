"""dispatch and combine: experts on ranks are experts in one process."""

import pytest
from conftest import run_ranks


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("job", ["equals_dense", "gradients", "trains", "none_chosen", "refusals"])
def test_experts_on_ranks_are_experts_in_one_process(job, ranks, tmp_path):
    assert run_ranks("experts_job.py", job, tmp_path, ranks) == ["right"] * ranks


def test_experts_of_a_lost_rank_are_masked(tmp_path):
    assert run_ranks("experts_job.py", "lost_rank", tmp_path, 3) == ["right", "right", ""]


def test_experts_are_reached_over_gloo_as_well(tmp_path):
    assert run_ranks("experts_job.py", "equals_dense", tmp_path, 2, backend="gloo") == ["right"] * 2
