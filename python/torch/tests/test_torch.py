"""backend="weft" of torch.distributed, ranks as processes."""

import socket
import subprocess
import sys

import pytest
from conftest import needs, run_ranks

def run(name, tmp_path, ranks=2, backend="weft", **environment):
    return run_ranks("jobs.py", name, tmp_path, ranks, backend, **environment)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("job", ["collectives", "objects", "bf16_hook", "fp8_hook", "topk_hook"])
def test_collectives_and_objects_on_every_rank(job, ranks, tmp_path):
    assert run(job, tmp_path, ranks) == ["right"] * ranks


def test_reproducible_sums_have_the_same_bits_whatever_their_size(tmp_path):
    assert run("reproducible", tmp_path, ranks=4) == ["right"] * 4


@pytest.mark.parametrize("job", ["messages", "dropped", "asynchronous", "coalesced", "powersgd", "memory", "refused", "numbered", "restarted"])
def test_with_two_ranks(job, tmp_path):
    assert run(job, tmp_path) == ["right"] * 2


@pytest.mark.parametrize("job", ["to_itself", "made_again", "gaps"])
def test_messages_to_itself_groups_on_one_store_and_memory_with_gaps(job, tmp_path):
    assert run_ranks("message_jobs.py", job, tmp_path, ranks=3) == ["right"] * 3


def test_messages_move_whoever_waits_for_them_and_where_nobody_does(tmp_path):
    assert run_ranks("message_jobs.py", "whoever_moves_them", tmp_path) == ["right"] * 2


@pytest.mark.parametrize("job", ["peer_dies_first", "peer_dies_later"])
def test_who_waits_for_a_message_of_a_lost_rank_learns_at_once_which_one_and_why(job, tmp_path):
    said = run_ranks("message_jobs.py", job, tmp_path, ranks=3)
    assert said[0] == said[2] == "right", said


@pytest.mark.parametrize("job", ["store_dies_first", "sizes_differ"])
def test_messages_that_cannot_come_are_errors_that_name_the_call(job, tmp_path):
    assert run_ranks("message_jobs.py", job, tmp_path) == ["right"] * 2


@needs("ephemeral_timeout")
def test_a_timeout_is_longer_until_the_first_call_has_ended(tmp_path):
    assert run_ranks("message_jobs.py", "longer_for_one_call", tmp_path) == ["right"] * 2


def test_messages_of_a_shrunk_group_do_not_meet_those_of_the_group_before(tmp_path):
    assert run_ranks("message_jobs.py", "messages_after_shrinking", tmp_path, ranks=4) == ["right"] * 4


def test_groups_whose_ranks_call_new_group_with_their_own_list_only_do_not_meet_each_other(tmp_path):
    assert run_ranks("message_jobs.py", "own_lists", tmp_path, ranks=4) == ["right"] * 4


def test_two_lists_for_one_group_are_named(tmp_path):
    said = run_ranks("message_jobs.py", "other_list", tmp_path, ranks=3)
    for rank in (1, 2):
        assert "ranks 0 1 2 here, and with 0 1 on another of these ranks" in said[rank], said


def test_set_pg_timeout_is_heeded(tmp_path):
    assert run_ranks("message_jobs.py", "set_timeout", tmp_path)[0] == "right"


def test_a_list_that_is_too_long_is_counted(tmp_path):
    for said in run_ranks("message_jobs.py", "long_list", tmp_path):
        assert said == "ValueError: weft: a list of 3 tensors, but one for each of the group's 2 ranks is expected"


@needs("gather_single")
@pytest.mark.parametrize("ranks", [2, 3])
def test_gather_into_one_tensor(ranks, tmp_path):
    assert run("gather_single", tmp_path, ranks) == ["right"] * ranks


@needs("hooks")
@pytest.mark.parametrize("job", ["pre_and_post_hooks", "abort_hooks", "abort_hooks_after_a_timeout", "recorded_by_torchs_hook"])
def test_torchs_hooks_around_calls_and_before_errors(job, tmp_path):
    assert run(job, tmp_path) == ["right"] * 2


def test_groups_of_some_ranks(tmp_path):
    assert run("groups", tmp_path, ranks=3) == ["right"] * 3


def test_a_training_has_the_same_loss_as_with_gloo(tmp_path):
    weft, gloo = run("train", tmp_path), run("train", tmp_path, backend="gloo")
    assert weft[0].startswith("loss ")
    assert weft == gloo


def test_every_survivor_gets_an_exception_that_names_the_killed_rank(tmp_path):
    printed = run("killed", tmp_path, ranks=3)
    expected = "DistBackendError names rank 1: True, within a second: True"
    assert printed == [expected, "", expected]


def test_a_rank_that_is_late_is_named(tmp_path):
    assert run("late", tmp_path) == ["timeout names rank 1: True", ""]


def test_a_mismatch_names_both_calls_without_detail(tmp_path):
    assert "mismatch: True" in run("differs", tmp_path)


@pytest.mark.parametrize(
    "job, says",
    [
        ("forked", ["DistBackendError: weft: this process was forked after the group was made; make a group in the child"] * 2),
        ("other_size", ["DistBackendError: weft: Timed out", "ValueError: weft: rank 1 disagrees with the host at"]),
        ("orphaned", ["", "DistBackendError: weft: the store that the ranks meet by does not answer: "]),
    ],
)
def test_bad_input_is_an_exception_of_the_right_class(job, says, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    printed = run(job, tmp_path, STORE_PORT=str(port))
    for line, beginning in zip(printed, says):
        assert line.startswith(beginning) and "\n" not in line and (line == "" or beginning), printed


@pytest.mark.parametrize("disabled, registered", [(None, True), ("1", False)])
def test_buckets_of_ddp_are_registered_memory_unless_torchs_variable_says_no(disabled, registered, tmp_path):
    more = {} if disabled is None else {"DDP_DISABLE_COMM_MEM": disabled}
    for line in run("buckets", tmp_path, **more):
        count, said = line.split(" buckets, ")
        assert int(count) >= 6 and said == f"registered: {registered}, none: {not registered}", line


def analysed(folder):
    """What torch's own analyser says about the flight records in a folder."""
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", folder], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_torchs_analyser_matches_the_calls_in_flight_records(tmp_path):
    folder = tmp_path / "records"
    folder.mkdir()
    assert run("recorded", tmp_path, RECORDS=str(folder)) == ["right"] * 2
    said = analysed(folder)
    assert "Error type" not in said and "mismatch" not in said.lower(), said


def test_torchs_analyser_finds_the_mismatch_in_the_records_that_failed_ranks_wrote(tmp_path):
    folder = tmp_path / "records"
    folder.mkdir()
    run("differs_after_some", tmp_path, TORCH_FR_DUMP_TEMP_FILE=f"{folder}/record_")
    assert sorted(f.name for f in folder.iterdir()) == ["record_0", "record_1"]
    said = analysed(folder)
    assert "SIZE_OR_SYNTAX_MISMATCH" in said and "Collective sequence number: 4 has errors" in said, said


def test_the_backend_is_known_after_import_torch_alone():
    code = "import torch.distributed as d; import torch; print(d.Backend.WEFT)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout.strip() == "weft", out.stderr


def test_ctrl_c_ends_a_call_and_the_wait_for_a_work(tmp_path):
    waited, other = run("interrupted", tmp_path)
    assert waited.splitlines() == ["KeyboardInterrupt soon: True"] * 2, waited
    assert "rank 0" in other, other


def test_what_a_script_raised_is_read_by_the_ranks_that_wait_for_it(tmp_path):
    assert "rank 1 raised RuntimeError: no data" in run("raises", tmp_path)[0]


def test_a_new_group_whose_store_has_died_is_an_error(tmp_path):
    (said,) = run("loses_the_store", tmp_path, ranks=1)
    assert "the store that the ranks meet by does not answer" in said and said.endswith("True"), said
