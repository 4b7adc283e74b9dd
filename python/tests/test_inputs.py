"""Lists, numbers and complex numbers as NumPy takes them; keywords that do not exist."""

import numpy as np
import pytest

import weftcomm as weft


def on_two(program):
    return weft.run_threads(2, program)


def test_lists_tuples_and_numbers_are_arrays_as_numpy_makes_them():
    def program(comm):
        given = [comm.rank, 5]
        sent = comm.broadcast(given, root=1)
        assert given == [comm.rank, 5]
        return (comm.all_reduce([1, 2]).tolist(), comm.all_reduce(((1.5,), (2,))).tolist(), float(comm.all_reduce(2.5)),
                comm.all_gather([comm.rank]).tolist(), comm.reduce_scatter([1, 2, 3, 4]).tolist(),
                comm.all_to_all([10 * comm.rank, 10 * comm.rank + 1]).tolist(), sent.tolist())  # fmt: skip

    assert on_two(program) == [
        ([2, 4], [[3.0], [4.0]], 5.0, [0, 1], [2, 4], [0, 10], [1, 5]),
        ([2, 4], [[3.0], [4.0]], 5.0, [0, 1], [6, 8], [1, 11], [1, 5]),
    ]


@pytest.mark.parametrize("array", [["a"], [[1], [1, 2]], [None], [2**70], [[1], 2]])
def test_lists_of_other_things_are_refused_by_one_line(array):
    with pytest.raises(weft.InvalidArgument, match="of lists, only those of numbers") as caught:
        weft.threads(1)[0].all_reduce(array)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["complex64", "complex128"])
def test_complex_numbers_are_summed_moved_and_counted_as_one_element_each(kind):
    z = (np.arange(4) * (1 + 2j)).astype(kind)

    def program(comm):
        assert comm.all_reduce(z).dtype == kind
        np.testing.assert_allclose(comm.all_reduce(z), 2 * z)
        np.testing.assert_allclose(comm.all_reduce(z, "avg"), z)
        np.testing.assert_allclose(comm.all_reduce(z, "premul_sum", scalar=0.5), z)
        np.testing.assert_allclose(comm.all_reduce(z[::2]), 2 * z[::2])
        np.testing.assert_allclose(comm.reduce_scatter(z), 2 * z[2 * comm.rank :][:2])
        np.testing.assert_allclose(comm.all_gather(z[: comm.rank + 1], counts=[1, 2]), z[[0, 0, 1]])
        np.testing.assert_allclose(comm.broadcast(z * comm.rank, root=1), z)
        if comm.rank == 0:
            comm.send(z, 1, tag=1)
            return 4
        out = np.empty(6, kind)
        message = comm.receive(out, 0, tag=1)
        np.testing.assert_allclose(out[:4], z)
        return message.count

    assert on_two(program) == [4, 4]


def test_what_complex_numbers_do_not_have_is_one_line():
    comm = weft.threads(1)[0]
    with pytest.raises(weft.InvalidArgument, match="complex numbers have sum, avg and premul_sum only"):
        comm.all_reduce(np.ones(2, "complex128"), "max")
    with pytest.raises(weft.InvalidArgument, match="differ in their element type"):
        comm.all_reduce(np.ones(2, "complex128"), out=np.ones(4))
    with pytest.raises(weft.InvalidArgument, match="must be equal and divisible by 2 ranks"):
        weft.threads(2)[0].all_to_all(np.ones(3, "complex128"), out=np.ones(3, "complex128"))


def test_a_misspelt_keyword_is_named_with_the_one_that_was_probably_meant():
    comm = weft.threads(1)[0]
    for given, meant in (("algoritm", "algorithm"), ("chanels", "channels"), ("reproducable", "reproducible")):
        with pytest.raises(weft.InvalidArgument, match=f"all_reduce has no keyword {given}: did you mean {meant}\\?"):
            comm.all_reduce([1], **{given: 1})
    with pytest.raises(weft.InvalidArgument, match="broadcast has no keyword rot: did you mean root"):
        comm.broadcast([1], rot=0)
    with pytest.raises(weft.InvalidArgument, match="gather has no keyword nonsense: there are x, root, out, stack, wait"):
        comm.gather([1], nonsense=0)
    with pytest.raises(weft.InvalidArgument, match="all_reduce has no keyword counts"):
        comm.all_reduce([1], counts=[1])
