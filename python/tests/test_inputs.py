"""Lists, numbers and complex numbers as NumPy takes them; keywords that do not exist."""

import ctypes
import mmap

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


@pytest.mark.parametrize("array", [["a"], [[1], [1, 2]], [None], [[1], 2]])
def test_lists_of_other_things_are_refused_by_one_line(array):
    with pytest.raises(weft.InvalidArgument, match="of lists, only those of numbers") as caught:
        weft.threads(1)[0].all_reduce(array)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("array", [[2**70], 2**70, [[1, -(2**64)]]])
def test_integers_beyond_64_bits_are_refused_for_their_size(array):
    with pytest.raises(weft.InvalidArgument, match="no type of NumPy holds it, which has integers of up to 64 bits"):
        weft.threads(1)[0].all_reduce(array)


def test_bytes_are_read_and_become_arrays_of_bytes():
    def program(comm):
        mine = b"ab" if comm.rank == 0 else b"cd"
        gathered, on_root = comm.all_gather(mine), comm.gather(mine)
        sent = comm.broadcast(mine if comm.rank == 0 else bytearray(2))
        return bytes(gathered), on_root if on_root is None else bytes(on_root), bytes(sent)

    assert on_two(program) == [(b"abcd", b"abcd", b"ab"), (b"abcd", None, b"ab")]


def read_only_page():
    """Memory that a store into would end the process."""
    pages = mmap.mmap(-1, 4096)
    pages[:8] = np.arange(8, dtype=np.uint8).tobytes()
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(4096), mmap.PROT_READ) == 0
    array = np.frombuffer(pages, np.uint8, 8)
    array.flags.writeable = False
    return array


def test_the_root_of_a_broadcast_only_reads_its_array():
    def program(comm):
        root = comm.rank == 1
        frozen = read_only_page() if root else np.zeros(8, np.uint8)
        every_other = np.arange(6.0)[::2] if root else np.zeros(3)
        first, second = comm.broadcast(frozen, root=1), comm.broadcast(every_other, root=1)
        later = comm.broadcast(frozen if root else np.zeros(8, np.uint8), root=1, wait=False)
        later.wait()
        assert first is frozen and second is every_other
        return first.tolist(), second.tolist(), later.result().tolist()

    assert on_two(program) == [(list(range(8)), [0.0, 2.0, 4.0], list(range(8)))] * 2
    comm = weft.threads(2)[0]
    with pytest.raises(weft.InvalidArgument, match="the output is not contiguous"):
        comm.broadcast(np.arange(6.0)[::2], root=1)


def test_what_an_element_type_is_called_is_what_numpy_calls_it():
    comm = weft.threads(1)[0]
    for array, name in (
        (np.zeros(2, [("x", "f8"), ("n", "i4")]), "[('x', '<f8'), ('n', '<i4')]"),
        (np.array(["ab"]), "str64"),
        (np.zeros(1, "longdouble"), np.dtype("longdouble").name),
        (np.zeros(1, "datetime64[ns]"), "datetime64[ns]"),
    ):
        with pytest.raises(weft.InvalidArgument) as caught:
            comm.all_reduce(array)
        assert f"element type {name} cannot be communicated" in str(caught.value)


def test_an_output_that_is_no_array_is_named():
    comm = weft.threads(1)[0]
    with pytest.raises(weft.InvalidArgument, match="the output is of type list, which is no array"):
        comm.all_reduce([1, 2], out=[0, 0])
    with pytest.raises(weft.InvalidArgument, match="out None: it is the array that this rank's part comes into"):
        comm.scatter([1, 2], None)


@pytest.mark.parametrize("scalar, why", [(3j, "it is a real number"), (np.complex64(1 + 2j), "it is a real number"),
                                         (10**400, "it is more than a double holds"), ("2", "it is a number")])  # fmt: skip
@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_scalars_are_real_numbers_that_a_double_holds(scalar, why, kind):
    comm = weft.threads(1)[0]
    with pytest.raises(weft.InvalidArgument, match=why):
        comm.all_reduce(np.ones(1, kind), "premul_sum", scalar=scalar)
    assert comm.all_reduce(np.ones(1, kind), "premul_sum", scalar=np.complex128(2)) == 2


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
    with pytest.raises(weft.InvalidArgument, match="the input is of complex128 and the output of float64"):
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
    with pytest.raises(weft.InvalidArgument, match="all_gather has no keyword axis: there are x, .*, channels$"):
        comm.all_gather([1], axis=1)
    with pytest.raises(weft.InvalidArgument, match="no keyword timeout: there are .*; set_timeout\\(\\) is for all calls"):
        comm.all_reduce([1], timeout=2)
    with pytest.raises(weft.InvalidArgument, match="all_reduce has no keyword counts"):
        comm.all_reduce([1], counts=[1])
