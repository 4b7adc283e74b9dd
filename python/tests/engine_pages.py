"""Pages of a cache, for tests of what engines call."""

PAGE, PAGES = 4096, 64


def pages_of(array):
    return [(array.ctypes.data + at, PAGE, 0) for at in range(0, array.nbytes, PAGE)]


def value(array, page):
    part = array[page * PAGE : (page + 1) * PAGE]
    assert part.min() == part.max()
    return int(part[0])
