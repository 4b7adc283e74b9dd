"""dispatch and combine: tokens of mixtures of experts."""

import numpy as np
import pytest

import weftcomm as weft

TOKENS, HIDDEN, PER_TOKEN, EACH = 5, 3, 2, 2


def goes(experts, rank):
    """Which tokens of all ranks have an expert on this rank; of shape (size, tokens)."""
    return np.any((experts >= 0) & (experts // EACH == rank), axis=2)


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("kind", ["float32", "int64"])
def test_tokens_go_to_the_ranks_of_their_experts_and_sums_come_back(ranks, kind):
    experts = np.random.default_rng(ranks).integers(-1, EACH * ranks, (ranks, TOKENS, PER_TOKEN))
    tokens = np.arange(ranks * TOKENS * HIDDEN).reshape(ranks, TOKENS, HIDDEN).astype(kind)

    def program(comm):
        known = comm.all_gather(experts[comm.rank], stack=True)
        came = comm.dispatch(tokens[comm.rank], known, EACH * comm.size)
        here = goes(known, comm.rank)
        np.testing.assert_array_equal(came, np.where(here[:, :, None], tokens, 0))
        return comm.combine(came * (comm.rank + 1), known, EACH * comm.size)

    sums = sum(goes(experts, r)[:, :, None] * tokens * (r + 1) for r in range(ranks))
    for rank, back in enumerate(weft.run_threads(ranks, program)):
        assert back.dtype == kind and back.shape == (TOKENS, HIDDEN)
        np.testing.assert_array_equal(back, sums[rank])


def test_rows_of_a_given_output_that_no_token_comes_to_keep_their_values():
    experts = np.array([[[0], [-1]], [[1], [0]]])  # of two ranks with an expert each

    def program(comm):
        out = np.full((2, 2, 1), -7.0)
        work = comm.dispatch(np.full((2, 1), comm.rank + 1.0), experts, 2, out=out, wait=False)
        assert work.result() is out
        return out[:, :, 0].tolist()

    assert weft.run_threads(2, program) == [[[1, -7], [-7, 2]], [[-7, -7], [2, -7]]]


@pytest.mark.parametrize(
    "experts, count, text",
    [
        ([[[0.5]]], 2, "whole numbers of shape"),
        ([[[0], [1]]], 2, "whole numbers of shape"),
        ([[[2]]], 2, "0 to 1, or -1 for none"),
        ([[[-2]]], 2, "0 to 1, or -1 for none"),
        ([[[0]]], 0, "expert_count"),
        ("0", 2, "whole numbers of shape"),
    ],
)
def test_a_table_that_is_none_is_refused(experts, count, text):
    def program(comm):
        with pytest.raises(weft.InvalidArgument, match=text):
            comm.dispatch(np.ones((1, 4)), experts, count)
        with pytest.raises(weft.InvalidArgument, match=text):
            comm.combine(np.ones((1, 1, 4)), experts, count)

    weft.run_threads(1, program)
