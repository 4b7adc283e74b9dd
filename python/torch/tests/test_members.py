"""A group changes its members and stays the same object (reconfigure), and ranks reach each other's tensors (windows)."""

import pytest
from conftest import needs, run_ranks


@needs("reconfigure")
@pytest.mark.parametrize("job", ["changes", "numbers_begin_anew", "training_goes_on", "calls_under_way_end", "after_a_timeout"])
@pytest.mark.parametrize("backend", ["weft"])
def test_a_group_gets_other_members(job, backend, tmp_path):
    assert run_ranks("reconfigure_jobs.py", job, tmp_path, 3, backend) == ["right"] * 3


@needs("reconfigure")
def test_a_group_under_gloos_name_gets_other_members(tmp_path):
    assert run_ranks("reconfigure_jobs.py", "changes", tmp_path, 3, "gloo", WEFT_AS_GLOO="1") == ["right"] * 3


@needs("reconfigure")
def test_a_killed_rank_is_replaced_by_a_new_process(tmp_path):
    printed = run_ranks("reconfigure_jobs.py", "a_rank_dies_and_another_takes_its_place", tmp_path, 3)
    assert sorted(printed[0].split()) == ["newcomer", "right"] and printed[1:] == ["", "right"], printed


@needs("reconfigure")
def test_wrong_members_are_refused_and_the_group_can_try_again(tmp_path):
    assert run_ranks("reconfigure_jobs.py", "refusals", tmp_path, 2) == ["right"] * 2


@needs("window")
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("job", ["put_in_a_ring", "loads_and_stores", "sizes_differ", "refusals"])
def test_windows_reach_other_ranks_tensors(job, ranks, tmp_path):
    assert run_ranks("window_jobs.py", job, tmp_path, ranks) == ["right"] * ranks


@needs("window")
def test_signals_of_a_window_are_counted(tmp_path):
    assert run_ranks("window_jobs.py", "signals_are_counted", tmp_path) == ["right"] * 2


@needs("window")
def test_windows_of_groups_of_some_ranks(tmp_path):
    assert run_ranks("window_jobs.py", "of_some_ranks", tmp_path, 3) == ["right"] * 3


@needs("window")
def test_a_group_over_tcp_has_no_windows(tmp_path):
    assert run_ranks("window_jobs.py", "without_shared_memory", tmp_path, TRANSPORT="tcp") == ["right"] * 2


@needs("window")
def test_waiting_for_the_signal_of_a_killed_rank_is_an_error_that_names_it(tmp_path):
    printed = run_ranks("window_jobs.py", "killed_while_a_peer_waits", tmp_path)
    assert printed == ["DistBackendError names rank 1: True, within a second: True", ""]
