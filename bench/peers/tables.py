"""What bench/peers/run measured, round by round, and its tables."""

import collections
import math
import statistics

Series = collections.namedtuple("Series", "library name command")
Time = collections.namedtuple("Time", "median least")  # microseconds


def show_size(size):
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def show_time(us):
    return "–" if us is None else f"{us:.3f}" if us < 10 else f"{us:.1f}" if us < 1000 else f"{us:.0f}"


def middle(times):
    """Over the rounds: the median of the medians, and the least of all."""
    return Time(statistics.median(t.median for t in times), min(t.least for t in times))


class Comparison:
    """All that was measured of one collective on one number of ranks, whose cores lay at one distance."""

    def __init__(self, ranks, sizes, series, cores):
        self.ranks, self.sizes, self.series = ranks, sizes, series
        self.title = f"{ranks} ranks on {cores} cores"
        self.peers = collections.defaultdict(list)  # (series name, place, bytes) -> Time of each round
        self.weft = collections.defaultdict(list)   # (place, bytes) -> microseconds of each round

    def peer(self, name, place, size):
        times = self.peers.get((name, place, size))
        return middle(times) if times else None

    def best(self, size, library=None):
        """The lowest median of one library or of all: (microseconds, series and place); None where nothing is known."""
        found = [(time.median, s.name + (" in place" if place == "in" else ""))
                 for s in self.series if library in (None, s.library) for place in ("out", "in")
                 if (time := self.peer(s.name, place, size))]
        return min(found) if found else None

    def weft_time(self, size, place):
        return statistics.median(self.weft[place, size]) if self.weft.get((place, size)) else None

    def weft_best(self, size):
        """The lower median of both places: (microseconds, series and place); None where nothing is known."""
        found = [(us, "weft" + (" in place" if place == "in" else ""))
                 for place in ("out", "in") if (us := self.weft_time(size, place))]
        return min(found) if found else None

    def table(self):
        libraries = list(dict.fromkeys(s.library for s in self.series))
        rows = [["size", *(f"{library} µs" for library in libraries), "best peer", "weft µs", "best peer / weft"]]
        ratios = []
        for size in self.sizes:
            best, weft = self.best(size), self.weft_best(size)
            ratio = best[0] / weft[0] if best and weft else None
            ratios += [ratio] if ratio else []
            each = [self.best(size, library) for library in libraries]
            rows.append([show_size(size), *(show_time(b[0] if b else None) for b in each), best[1] if best else "–",
                         show_time(weft[0] if weft else None), f"{ratio:.2f}" if ratio else "–"])
        return rows, ratios

    def all_series(self):
        columns = [(s.name, place) for s in self.series for place in ("out", "in")
                   if any((s.name, place, size) in self.peers for size in self.sizes)]
        own = [place for place in ("out", "in") if any(self.weft_time(size, place) for size in self.sizes)]
        named = [*columns, *(("weft", place) for place in own)]
        rows = [["size", *(name + (" in place" if place == "in" else "") for name, place in named)]]
        for size in self.sizes:
            times = [self.peer(name, place, size) for name, place in columns]
            rows.append([show_size(size)])
            rows[-1] += [f"{show_time(t.median)} ({show_time(t.least)})" if t else "–" for t in times]
            rows[-1] += [show_time(self.weft_time(size, place)) for place in own]
        return rows


def markdown(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def summary(ratios):
    if not ratios:
        return "weft was not measured."
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    return f"best peer / weft (more than 1: weft is faster): geometric mean {mean:.2f}, least {min(ratios):.2f}."
