"""weftcomm.m2n: the names of nccl.m2n over ranks that are threads; compared with NumPy."""

import numpy as np
import pytest

import weftcomm
from weftcomm import m2n


def part(whole, mesh, placements, rank):
    """What a rank of a mesh holds of a tensor that is shared out evenly; None outside of it."""
    if rank not in mesh.ranks:
        return None
    at = np.unravel_index(rank - mesh.start_rank, mesh.dims)
    for index, size, placement in zip(at, mesh.dims, placements):
        if isinstance(placement, m2n.Shard):
            whole = np.split(whole, size, placement.dim)[index]
    return np.ascontiguousarray(whole)


S, R = m2n.Shard, m2n.Replicate()


@pytest.mark.parametrize(
    "source,of,target,to",
    [
        (m2n.Mesh((2,)), [S(0)], m2n.Mesh((2,), 2), [S(1)]),
        (m2n.Mesh((4,)), [S(1)], m2n.Mesh((1,)), [R]),
        (m2n.Mesh((3,)), [R], m2n.Mesh((2, 2)), [S(0), R]),
        (m2n.Mesh((2, 2)), [R, S(0)], m2n.Mesh((2,), 1), [S(1)]),
    ],
)
def test_m_ranks_give_n_ranks_what_they_want(source, of, target, to):
    whole = np.arange(12 * 8, dtype=np.float32).reshape(12, 8)

    def program(comm):
        src, wanted = part(whole, source, of, comm.rank), part(whole, target, to, comm.rank)
        dst = None if wanted is None else np.zeros_like(wanted)
        shape = part(whole, source, of, source.start_rank).shape
        m2n.reshard(
            src, dst, comm,
            src_mesh=source, src_placements=of, src_local_shape=shape, src_dtype="float32",
            dst_mesh=target, dst_placements=to,
        )
        assert wanted is None or (dst == wanted).all()

    weftcomm.run_threads(4, program)


def test_calls_of_a_group_run_at_its_end_and_none_where_it_is_left_by_an_error():
    def program(comm):
        mesh, a, b = m2n.Mesh((2,)), np.full(4, 1.0 + comm.rank), np.zeros(8)
        sides = dict(src_mesh=mesh, src_placements=[S(0)], dst_mesh=mesh, dst_placements=[R])
        with m2n.group():
            m2n.reshard(a, b, comm, **sides)
            assert not b.any()
        assert b.tolist() == [1.0] * 4 + [2.0] * 4
        b[:] = 0
        with pytest.raises(KeyError), m2n.group():
            m2n.reshard(a, b, comm, **sides)
            raise KeyError
        assert not b.any()

    weftcomm.run_threads(2, program)


def test_what_does_not_fit_on_one_rank_is_an_error_on_all():
    def program(comm):
        mesh = m2n.Mesh((2,))
        memory = np.zeros(8)
        sides = dict(src_mesh=mesh, src_placements=[S(0)], dst_mesh=mesh, dst_placements=[R])
        own = memory[:4] if comm.rank == 1 else np.zeros(4)  # rank 1 would read what it writes
        with pytest.raises(weftcomm.InvalidArgument, match="overlap" if comm.rank == 1 else "rank 1: src and dst overlap"):
            m2n.reshard(own, memory, comm, **sides)
        with pytest.raises(weftcomm.InvalidArgument, match=r"the shape \[8\], dst \[9\]"):
            m2n.reshard(np.zeros(4), np.zeros(9), comm, **sides)
        with pytest.raises(weftcomm.InvalidArgument, match="no buffer" if comm.rank == 0 else "rank 0: .*no buffer"):
            m2n.reshard(None if comm.rank == 0 else np.zeros(4), memory, comm, src_local_shape=[4], src_dtype="float64", **sides)
        m2n.reshard(np.ones(4), memory, comm, **sides)  # and the communicator works on
        assert memory.all()

    weftcomm.run_threads(2, program)
    for wrong in (lambda: m2n.Mesh((0,)), lambda: m2n.Mesh.from_ranks([0, 2]), lambda: m2n.Config(max_cta=4)):
        with pytest.raises(weftcomm.InvalidArgument):
            wrong()
