"""Where an array lies."""


def is_shared(array):
    at = array.__array_interface__["data"][0]
    with open("/proc/self/maps") as maps:
        for line in maps:
            place, access = line.split()[:2]
            first, last = (int(word, 16) for word in place.split("-"))
            if first <= at < last:
                return access[3] == "s"
    return False
