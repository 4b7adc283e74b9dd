"""The members of an elastic job: who they are, what a loss and a newcomer change, and in which order all learn of it.

On every communicator all members make the same calls in the same order: an exchange of positions, what brings the state to
those who lack it, the step's calls, and `agree`, which ends a step. After a failure every member says no to the next
`agree`, shrinks, and exchanges positions anew; then the step's calls begin again from what was kept.
"""

from __future__ import annotations

import functools
import io
import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

VARIABLE = "WEFTCOMM_ELASTIC"  # what _launch.py hands down: HOST:PORT MEMBER FOUNDERS LEAST MOST
POLL = 0.02  # seconds
ATTEMPTS = 8  # of a recovery, in which members may be lost, too


class Change(NamedTuple):
    """A change of the members: who, when, and how long each phase took."""

    step: int
    at: str  # "bucket 3", "forward or backward", "the step's beginning", "the step's end"
    left: tuple[int, ...]
    joined: tuple[int, ...]
    members: tuple[int, ...]  # afterwards, in the order of their ranks
    seconds: dict[str, float]  # by phase


class Lost(RuntimeError):
    """A part of a sharded state is gone: the member that held it and the one that held its copy were lost at once."""


class State(Protocol):
    """What a newcomer lacks."""

    ready: bool  # this member has the state of the last finished step

    def restore(self, members: Members, have: list[bool]) -> None:
        """Brings the state to the members that lack it. Called by all after every change; `have`: by rank."""

    def adopt(self) -> None:
        """What restore() has brought is the state from now on: all members have it."""


class Settings(NamedTuple):
    store: Any
    member: int
    founders: int  # 0: this process is a newcomer
    least: int
    most: int


def settings() -> Settings:
    """Errors: RuntimeError, where no launcher has started this process."""
    from torch._C._distributed_c10d import TCPStore

    words = os.environ.get(VARIABLE, "").split()
    if len(words) != 5:
        raise RuntimeError("weftcomm_torch.elastic: start this program by `weftcomm run --elastic MIN:MAX`")
    host, port = words[0].rsplit(":", 1)
    store = TCPStore(host, int(port), is_master=False)
    return Settings(store, *map(int, words[1:]))


class Members:
    """The members of this job, this process among them; made by `join()`."""

    def __init__(self, given: Settings, options: Any, wait: float) -> None:
        self.member = given.member
        self.members: tuple[int, ...] = ()
        self.step = -1 if given.founders == 0 else 0
        self.log: list[Change] = []
        self._given, self._options, self._wait = given, options, wait
        self._epoch, self._taken = 0, 0  # of the members' meetings; tickets of newcomers that have been served
        self._served: list[int] = []  # rank 0: the tickets that are served next
        self._state: State | None = None
        self._group: Any = None
        self._unchanged = 0
        self._unsaid: list[Change] = []

    # --- what programs use ---

    @property
    def rank(self) -> int:
        return self.members.index(self.member)

    @property
    def size(self) -> int:
        return len(self.members)

    def steps(self, end: int) -> Iterator[int]:
        """The numbers of the steps up to `end`, from where the job stands. Each takes in who waits, and ends by a commit.

        Errors: RuntimeError: the body of the loop did not commit.
        """
        if self._group is None:
            self._meet()
        while self.step < end:
            self._begin()
            now = self.step
            if now >= end:
                break
            yield now
            if self.step == now:
                raise RuntimeError("weftcomm_torch.elastic: the step ended without commit() or step()")
        self._given.store.set("elastic/done", "1")

    def keep(self, state: State) -> None:
        """`state` is what newcomers get. Errors: RuntimeError: there is one, or the steps have begun."""
        if self._state is not None or self._group is not None:
            raise RuntimeError("weftcomm_torch.elastic: one state is kept, from before the first step")
        state.ready = self.member == 0  # the others begin with what member 0 has
        self._state = state

    # --- meeting ---

    def _meet(self) -> None:
        from .. import _compiled

        store, (_, member, founders, _, _) = self._given.store, self._given
        group = _compiled().ProcessGroupWeft
        if founders > 0:
            place = None
            if member == 0:
                place = _compiled().Place(founders, self._options)
                store.set("elastic/place", place.id)
            place_id = self._read("elastic/place").decode()
            self._adopt(group.connected(self._own_store(), place_id, member, founders, self._options))
            return
        while self._group is None:
            ticket = store.add("elastic/waiting", 1) - 1
            store.set(f"elastic/waits/{ticket}", str(member))
            place_id, rank, size, epoch = self._read(f"elastic/ticket/{ticket}", forever=True).decode().split()
            self._epoch = int(epoch)
            try:
                self._adopt(group.connected(self._own_store(), place_id, int(rank), int(size), self._options))
            except _error():  # a member was lost meanwhile: the next step takes this one in
                self._group = None

    def _read(self, key: str, forever: bool = False) -> bytes:
        """The value that another member writes. A newcomer to a job that has ended ends, too."""
        until = time.monotonic() + self._wait
        while not self._given.store.check([key]):
            if forever and self._given.store.check(["elastic/done"]):
                print("weftcomm_torch.elastic: the job has ended without this process", file=sys.stderr)
                sys.exit(0)
            if not forever and time.monotonic() > until:
                raise _error()(f"weft: no member wrote {key} within {self._wait:.0f} s")
            time.sleep(POLL)
        value: bytes = self._given.store.get(key)
        return value

    def _own_store(self) -> Any:
        from torch.distributed.distributed_c10d import PrefixStore

        return PrefixStore(f"elastic/group/{self._epoch}", self._given.store)

    def _adopt(self, group: Any) -> None:
        """The default group of torch.distributed is this one from now on."""
        import torch.distributed as dist
        from torch.distributed.distributed_c10d import PrefixStore

        before, self._group = self._group, group
        if dist.is_initialized():
            dist.destroy_process_group()
        del before
        store = PrefixStore("torch", self._own_store())
        dist.init_process_group(
            "weft", store=store, rank=group.rank(), world_size=group.size(), timeout=timedelta(seconds=self._wait), pg_options=Over(group)
        )

    # --- steps ---

    def _begin(self) -> None:
        try:
            newcomers = self._exchange({}, admits=True)
            if newcomers:
                self._grow(newcomers)
        except _error() as problem:
            self.recover("the step's beginning", problem, isinstance(problem, _all_know()))

    def agree(self, yes: bool, at: str) -> bool:
        """The end of a step: did all members get all of it? False: this one has recovered, and does the step anew."""
        agreed, _ = self._group.agree(yes)
        if agreed:
            self._unchanged = 0
            self._say()
            return True
        self.recover(at, None, said_no=True)
        return False

    def recover(self, at: str, problem: BaseException | None, said_no: bool = False) -> None:
        """Goes on with the members that are left. All of them come here, each from where it stands.

        Errors: DistBackendError, the one that brought all here, if nobody was lost in two tries, one after the other; Lost.
        """
        attempts, before = 0, self.members
        while True:
            phases: dict[str, float] = {}
            try:
                with _timed(phases, "agree"):
                    if not said_no:
                        self._group.agree(False)
                with _timed(phases, "shrink"):
                    self._epoch += 1
                    self._adopt(self._group.shrunk(self._own_store()))
                self._exchange(phases, changed=True)
            except _error() as again:
                problem, said_no, attempts = again, isinstance(again, _all_know()), attempts + 1
                if attempts == ATTEMPTS:
                    raise
                continue
            lost = tuple(m for m in before if m not in self.members)
            self._note(at, lost, (), phases)
            if lost and self.rank == 0:  # their launchers may be lost with them
                for member in lost:
                    self._given.store.set(f"elastic/left/{member}", "1")
            self._unchanged = 0 if lost else self._unchanged + 1
            if self._unchanged > 1:
                raise problem or RuntimeError("weftcomm_torch.elastic: the members could not agree on a step twice, and none was lost")
            return

    def _exchange(self, phases: dict[str, float], changed: bool = False, admits: bool = False) -> int:
        """All learn who the members are and who lacks the state, and (returned) how many processes are to come in.

        Errors: DistBackendError.
        """
        import torch
        import torch.distributed as dist

        state, known = self._state, bool(self.members)
        ready = state is None or state.ready
        with _timed(phases, "exchange"):
            newcomers = self._next_tickets() if admits and self._group.rank() == 0 else 0
            mine = torch.tensor([self.member, self.step, int(ready), self._epoch, newcomers, self._taken])
            of_all = torch.empty(self._group.size() * mine.numel(), dtype=torch.int64)
            getattr(dist, "all_gather_single", dist.all_gather_into_tensor)(of_all, mine)  # its name from torch 2.13 on
        rows = of_all.view(-1, mine.numel()).tolist()
        self.members = tuple(row[0] for row in rows)
        self._epoch, self._taken = max(row[3] for row in rows), max(row[5] for row in rows)
        have = [bool(row[2]) for row in rows]
        if not any(have):
            raise Lost("weftcomm_torch.elastic: the members that had the state are lost")
        self.step = max(row[1] for row in rows if row[2])
        if state is not None and (changed or not known or not all(have)):
            with _timed(phases, "state"):
                state.restore(self, have)
                agreed, _ = self._group.agree(True)
                if not agreed:
                    raise _all_know()("weft: a member was lost while the state was brought to the others")
                state.adopt()
        return int(rows[0][4])

    def broadcast(self, value: Any, source: int) -> Any:
        """A value of one rank: numbers, texts, lists, dicts, tensors. Errors: DistBackendError."""
        import torch
        import torch.distributed as dist

        if self.size == 1:
            return value
        file = io.BytesIO()
        if self.rank == source:
            torch.save(value, file)
        data = torch.frombuffer(bytearray(file.getbuffer()), dtype=torch.uint8) if self.rank == source else torch.empty(0, dtype=torch.uint8)
        length = torch.tensor([data.numel()])
        dist.broadcast(length, source)
        if self.rank != source:
            data = torch.empty(int(length), dtype=torch.uint8)
        dist.broadcast(data, source)
        return value if self.rank == source else torch.load(io.BytesIO(data.numpy().tobytes()), weights_only=True)

    # --- growing ---

    def _next_tickets(self) -> int:
        """How many newcomers are to come in now; below MIN this waits for them. Rank 0 only.

        Errors: RuntimeError: they did not come.
        """
        store, until = self._given.store, time.monotonic() + 0.8 * self._wait
        size, least, most = self._group.size(), self._given.least, self._given.most
        while True:
            tickets = range(self._taken, store.add("elastic/waiting", 0))
            alive = [t for t in tickets if not store.check([f"elastic/lost/{store.get(f'elastic/waits/{t}').decode()}"])]
            if size + len(alive) >= least:
                self._served = alive[: max(0, most - size)]
                return len(self._served)
            if time.monotonic() > until:
                raise RuntimeError(f"weftcomm_torch.elastic: {size} members are left of at least {least}, and no other came")
            time.sleep(POLL)

    def _grow(self, newcomers: int) -> None:
        from .. import _compiled

        phases: dict[str, float] = {}
        before, size = self.members, self.size + newcomers
        self._epoch += 1
        place, grown = None, None
        with _timed(phases, "grow"):
            try:
                if self.rank == 0:
                    place = _compiled().Place(size, self._options)
                    for k, ticket in enumerate(self._served):
                        self._given.store.set(f"elastic/ticket/{ticket}", f"{place.id} {self.size + k} {size} {self._epoch}")
                    self._taken = self._served[-1] + 1
                grown = self._group.grown(self._own_store(), place.id if place else "", size)
            except _error():
                pass  # what all of them agree on decides
            agreed, _ = self._group.agree(grown is not None)
        if not agreed:
            self.recover("the step's beginning", None, said_no=True)
            return
        self._adopt(grown)
        self._exchange(phases, changed=True)
        self._note("the step's beginning", (), tuple(m for m in self.members if m not in before), phases)

    def _note(self, at: str, left: tuple[int, ...], joined: tuple[int, ...], phases: dict[str, float]) -> None:
        change = Change(self.step, at, left, joined, self.members, phases)
        self.log.append(change)
        self._unsaid.append(change)

    def _say(self) -> None:
        """Rank 0 says what has changed, once it is over with."""
        for change in self._unsaid:
            if self.rank == 0:
                say(change)
        self._unsaid.clear()

    def redone(self, seconds: float) -> None:
        """How long the calls of the step took that a loss has made void."""
        if self._unsaid:
            self._unsaid[-1].seconds["redo"] = seconds


def say(change: Change) -> None:
    """One line on stderr; with WEFTCOMM_ELASTIC_LOG=FILE also one of JSON there."""
    names = ", ".join(map(str, change.members))
    moved = " and ".join(
        f"member{'s' if len(who) > 1 else ''} {', '.join(map(str, who))} {did}"
        for who, did in ((change.left, "lost"), (change.joined, "joined")) if who
    )  # fmt: skip
    times = ", ".join(f"{phase} {1e3 * seconds:.1f} ms" for phase, seconds in change.seconds.items())
    print(f"weft elastic: step {change.step}, at {change.at}: {moved or 'nobody lost'}; members {names} go on ({times})", file=sys.stderr, flush=True)
    name = os.environ.get("WEFTCOMM_ELASTIC_LOG")
    if name:
        with open(name, "a") as file:
            file.write(json.dumps({"schema": "weft.elastic/1", "time": time.time(), **change._asdict()}) + "\n")


class Over(NamedTuple):
    """pg_options of a default group that is made already."""

    made_by_elastic: Any


class _timed:
    """Adds the time of a block to a phase."""

    def __init__(self, phases: dict[str, float], phase: str) -> None:
        self.phases, self.phase = phases, phase

    def __enter__(self) -> None:
        self.began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.phases[self.phase] = self.phases.get(self.phase, 0.0) + time.monotonic() - self.began


def _error() -> Any:
    import torch.distributed as dist

    return dist.DistBackendError


@functools.cache
def _all_know() -> Any:
    """The class of an error that all members have in the same call: none has to say no to the others first."""
    return type("AllKnow", (_error(),), {})

