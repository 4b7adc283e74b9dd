"""torchft on weft: a process group whose communicator shrinks and grows as torchft's quorums change.

    from weftcomm_torch import torchft as weft_torchft
    manager = torchft.Manager(pg=weft_torchft.ProcessGroupWeft(timeout=timedelta(seconds=30)), ...)

torchft's configure() names the members of the new quorum by their rank only, and a replica that was started anew has the
number of the one that has died. So the members first exchange through the quorum's store which communicator each has, one key
per member. With that they all decide alike: those that share a communicator (at least two) go on with it, without
the ranks that are gone, and take in the others; where none do, or where one of them does not succeed, all meet anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

try:
    import torchft.process_group as _torchft
except ImportError as missing:
    raise ImportError(f"weftcomm_torch.torchft needs torchft (pip install torchft): {missing}") from missing

from . import _buckets_in_registered_memory, _compiled

__all__ = ["Change", "ProcessGroupWeft"]

_log = logging.getLogger(__name__)
# All members are at the meeting when it begins; also how long survivors wait for a rank that lives but is in no quorum.
_MEETING = timedelta(seconds=10)


class Change(NamedTuple):
    """What one configure() did, and how long each part took."""

    quorum: int | None
    size: int
    how: tuple[str, ...]  # "meet", or of "shrink", "grow", "order"; nothing: the communicator has stayed as it was
    seconds: dict[str, float]  # also "exchange" and "agree"


class _Member(NamedTuple):
    """What the others learn of a member's communicator."""

    key: str  # random
    session: str  # all that have it have been made members of one communicator; empty: this one has none
    rank: int  # in it
    size: int
    calls: int  # so far
    whole: bool  # nothing has failed, and nothing is under way


class ProcessGroupWeft(_torchft.ProcessGroupWrapper):  # type: ignore[misc]
    """torchft's ProcessGroup over weft. `log` has a Change for each configure().

    timeout: of calls, and of the members of a quorum to come. reproducible, transport: as weftcomm_torch.Options.
    """

    def __init__(self, timeout: timedelta = timedelta(seconds=60), reproducible: bool = False, transport: str = "") -> None:
        super().__init__(timeout)
        self.log: list[Change] = []
        self._reproducible, self._transport = reproducible, transport
        self._backend: Any = None
        self._session = ""

    def getBackendName(self) -> str:  # noqa: N802 (torchft's name)
        return "torchft-weft"

    def configure(
        self,
        store_addr: str,
        replica_id: str,
        rank: int,
        world_size: int,
        quorum_id: int | None = None,
        group_rank: int | None = None,
        group_world_size: int | None = None,
        global_ranks: list[int] | None = None,
    ) -> None:
        self._replica_id, self._quorum_id, self._rank = replica_id, quorum_id, rank
        self._group_rank, self._group_world_size, self._global_ranks = group_rank, group_world_size, global_ranks
        _buckets_in_registered_memory()
        store = _torchft.create_store_client(store_addr, timeout=self._timeout)
        seconds: dict[str, float] = {}
        before, session = self._backend, self._session
        self._backend, self._pg, self._session = None, None, ""
        with _timed(seconds, "exchange"):
            own = _member(before, session)
            members = [_Member(*json.loads(text)) for text in self._exchanged(store, "member", rank, world_size, json.dumps(own))]
        backend = self._continued(store, rank, members, before, seconds)
        how = tuple(part for part in ("shrink", "grow", "order") if part in seconds)
        if backend is None:
            how = ("meet",)
            if before is not None:
                before.abort()
            with _timed(seconds, "meet"):
                backend = _compiled().join(_within(store, "meet"), rank, world_size, self._options())
        del before
        self._adopt(backend, store, rank, world_size)
        self._session = hashlib.sha256("".join(m.key for m in members).encode()).hexdigest()[:32]
        self.log.append(Change(quorum_id, world_size, how, seconds))
        times = ", ".join(f"{part} {1e3 * taken:.1f} ms" for part, taken in seconds.items())
        _log.info("weft torchft: quorum %s of %d, rank %d: %s (%s)", quorum_id, world_size, rank, " and ".join(how) or "kept", times)

    def abort(self, errored: bool = True) -> None:
        """Ends what runs; the next configure() can still go on with the communicator's members."""
        if self._backend is not None:
            self._backend.abort()
        self._pg = None

    def shutdown(self) -> None:
        self.abort()
        self._backend, self._session = None, ""

    def errored(self) -> Exception | None:
        """The first failure of a call that needs a configure()."""
        import torch.distributed as dist

        text = self._backend.failure() if self._backend is not None else ""
        return dist.DistBackendError(text) if text else None

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout
        if self._backend is not None:
            self._backend._set_default_timeout(timeout)

    # --- what configure() is made of ---

    def _options(self) -> Any:
        """For meetings; calls have the group's own timeout afterwards."""
        options = _compiled().Options(min(_MEETING, self._timeout).total_seconds(), self._reproducible, "", self._transport)
        if self._global_ranks:
            options.global_ranks_in_group = self._global_ranks
        return options

    def _exchanged(self, store: Any, what: str, rank: int, size: int, text: str) -> list[bytes]:
        """Every member's text. Errors: DistStoreError: one did not come within the timeout."""
        store.set(f"weft/{what}/{rank}", text)
        keys = [f"weft/{what}/{r}" for r in range(size)]
        store.wait(keys, self._timeout)
        texts: list[bytes] = store.multi_get(keys)
        return texts

    def _continued(self, store: Any, rank: int, members: list[_Member], before: Any, seconds: dict[str, float]) -> Any:
        """A group of the quorum's members made from the one that some of them share; None: all meet anew."""
        stay = _those_that_stay(members)
        if not stay:
            return None
        group, problem = None, None
        try:
            group = self._changed(store, rank, members, stay, before, seconds)
        except Exception as error:  # torch's errors have no common class; all members learn of it by the agreement
            problem = error
            _log.warning("weft torchft: quorum %s: %s", self._quorum_id, str(error).splitlines()[0])
        with _timed(seconds, "agree"):
            outcomes = self._exchanged(store, "tried", rank, len(members), "failed" if problem else "done")
        return group if all(text == b"done" for text in outcomes) else None

    def _changed(
        self, store: Any, rank: int, members: list[_Member], stay: list[int], before: Any, seconds: dict[str, float]
    ) -> Any:
        come = [r for r in range(len(members)) if r not in stay]
        group: Any = None
        if rank in stay:
            group = before
            first = members[stay[0]]
            if len(stay) < first.size or any(not members[r].whole or members[r].calls != first.calls for r in stay):
                with _timed(seconds, "shrink"):
                    group.abort()
                    here = {members[r].rank for r in stay}  # the others may live, outside of the quorum
                    group = group.shrunk(_within(store, "shrunk"), [r for r in range(first.size) if r not in here])
                if group.size() != len(stay):
                    raise RuntimeError(f"{group.size()} members are left, not the {len(stay)} of the quorum")
        if come:
            with _timed(seconds, "grow"):
                group = self._grown(store, rank, stay, come, group)
        if stay + come != sorted(stay + come):
            with _timed(seconds, "order"):
                group = group.ordered(_within(store, "ordered"), rank)
        return group

    def _grown(self, store: Any, rank: int, stay: list[int], come: list[int], group: Any) -> Any:
        size, options = len(stay) + len(come), self._options()
        if rank in come:
            place = store.get("weft/place").decode()
            number = len(stay) + come.index(rank)
            return _compiled().ProcessGroupWeft.connected(_within(store, "grown"), place, number, size, options)
        opened = None
        if rank == stay[0]:
            opened = _compiled().Place(size, options)
            store.set("weft/place", opened.id)
        return group.grown(_within(store, "grown"), opened.id if opened else "", size)

    def _adopt(self, backend: Any, store: Any, rank: int, size: int) -> None:
        import torch
        from torch.distributed import ProcessGroup

        if backend.rank() != rank or backend.size() != size:
            raise RuntimeError(f"weft: rank {backend.rank()} of {backend.size()}, where torchft says {rank} of {size}")
        backend._set_default_timeout(self._timeout)
        group = ProcessGroup(store, rank, size)
        custom = ProcessGroup.BackendType.CUSTOM
        group._register_backend(torch.device("cpu"), custom, backend)
        group._set_default_backend(custom)
        self._backend, self._pg = backend, group


def _member(backend: Any, session: str) -> _Member:
    key = uuid.uuid4().hex
    if backend is None or not session:
        return _Member(key, "", 0, 0, 0, False)
    return _Member(key, session, backend.rank(), backend.size(), backend._get_sequence_number_for_group(), backend.whole())


def _those_that_stay(members: list[_Member]) -> list[int]:
    """The new ranks of the largest set of members with one communicator, in its order; of fewer than two: none."""
    sessions = Counter(m.session for m in members if m.session)
    if not sessions or max(sessions.values()) < 2:
        return []
    most = max(sessions.values())
    session = next(m.session for m in members if sessions[m.session] == most)
    stay = [r for r, m in enumerate(members) if m.session == session]
    return sorted(stay, key=lambda r: members[r].rank)


def _within(store: Any, prefix: str) -> Any:
    from torch.distributed.distributed_c10d import PrefixStore

    return PrefixStore(f"weft/{prefix}", store)


@contextlib.contextmanager
def _timed(seconds: dict[str, float], part: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    seconds[part] = seconds.get(part, 0.0) + time.monotonic() - began
