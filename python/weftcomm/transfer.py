"""Agents that move lists of memory between processes and files, without ranks: weft/transfer.h from Python."""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

from . import _core, _errors
from ._errors import Error, InvalidArgument, Timeout, _make
from ._lists import Table, _column, _of_gpu, _table
from ._stores import Etcd, Folder, Store
from ._transfer_values import Costs, Estimate, Notification, Page, Rows, StripeShare, measure_costs

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack

State = Literal["prepared", "running", "done", "failed", "cancelled", "expired"]
STATES: tuple[State, ...] = ("prepared", "running", "done", "failed", "cancelled", "expired")

__all__ = [
    "Agent",
    "Costs",
    "Estimate",
    "Etcd",
    "Folder",
    "List",
    "Notification",
    "Page",
    "Region",
    "Request",
    "Rows",
    "STATES",
    "State",
    "Store",
    "StripeShare",
    "StripeSource",
    "measure_costs",
]


class RequestOptions(TypedDict, total=False):
    """Of Agent.read() and write()."""

    local_blocks: Sequence[int] | NDArray[Any] | None
    remote_blocks: Sequence[int] | NDArray[Any] | None
    generations: Sequence[int] | NDArray[Any] | None
    notify: bytes
    deadline: float
    verify: bool


@dataclass(frozen=True)
class Region:
    """Memory or a file that an agent has registered. address: 0 for a file. page_bytes: 0 where it is not fenced. gpu: as CUDA
    numbers it, -1 where it is not a GPU's memory; a region of a GPU has __cuda_array_interface__, for torch.as_tensor()."""

    number: int
    address: int
    bytes: int
    page_bytes: int
    gpu: int = -1
    _agent: Any = field(default=None, repr=False, compare=False)  # a weak reference; a view of the memory holds the memory

    def _interface(self) -> dict[str, Any]:
        return {"data": (self.address, False), "shape": (self.bytes,), "typestr": "|u1", "version": 3}

    def array(self) -> NDArray[np.uint8]:
        """The memory as bytes. Memory of allocate() stays as long as a view of it; peers see it until deregister(). Raises:
        ValueError for a file, for a GPU's memory and where the agent has been closed, InvalidArgument after deregister()."""
        if self.address == 0:
            raise ValueError("a file has no memory")
        if self.gpu >= 0:
            raise ValueError(f"the memory of GPU {self.gpu} is not for the host")
        agent = self._agent() if self._agent is not None else None
        if agent is None:
            raise ValueError("the agent has been closed")
        held = agent._core.hold(self.number), agent._lent.get(self.number)
        return np.asarray(type("Memory", (), {"__array_interface__": self._interface(), "held": held})())

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.gpu < 0:
            raise AttributeError("the memory is not a GPU's")
        return self._interface()


class List:
    """A checked list of elements at one side of requests; made once, used often. `len()` counts its elements."""

    def __init__(self, core: _core.TransferList) -> None:
        self._core = core

    def __len__(self) -> int:
        return self._core.elements


class Request:
    """One transfer, which may be posted again after each end.

    Each post ends in exactly one of done, failed, cancelled and expired. Data moves inside post(), poll() and wait().
    """

    def __init__(self, core: _core.TransferRequest) -> None:
        self._core = core

    def post(self, notify: bytes | None = None) -> State:
        """Starts it, or starts it again. notify: instead of the notification it was made with. Raises: InvalidArgument
        while it is running; other failures are a state."""
        return STATES[self._core.post(notify)]

    def poll(self) -> State:
        """Moves about 2 MiB and returns the state. Raises: InvalidArgument where it was never posted."""
        return self._posted(self._core.poll(), "poll")

    def wait(self, timeout: float | None = None) -> State:
        """Moves data until the request has ended, at most `timeout` seconds. Ctrl-C raises KeyboardInterrupt. Raises:
        InvalidArgument where it was never posted."""
        return self._posted(self._core.wait(-1.0 if timeout is None else _errors.seconds(timeout, "wait")), "wait")

    def _posted(self, state: int, operation: str) -> State:
        if STATES[state] == "prepared":
            raise _make("invalid_argument", "the request has not been posted", operation, [], [], "")
        return STATES[state]

    def run(self) -> None:
        """post() and wait(). Raises: the error of any end but done."""
        self.post()
        if self.wait() != "done":
            error = self.error
            assert error is not None
            raise error

    def cancel(self) -> None:
        """Ends it as cancelled; its local memory is not touched afterwards. Raises: InvalidArgument if it is not running."""
        self._core.cancel()

    def estimate(self) -> Estimate:
        """What it will take. Raises: Error where the agent's costs do not have a path that it uses."""
        us, error = self._core.estimate()
        return Estimate(us * 1e-6, error)

    def explain(self) -> str:
        """Its path per remote region, and the others: what they would take, or why they are not there."""
        return self._core.explain()

    @property
    def state(self) -> State:
        return STATES[self._core.state]

    @property
    def error(self) -> Error | None:
        """Why it ended in failed, cancelled or expired, with the peer's name; else None."""
        if self._core.state <= STATES.index("done"):
            return None
        code, message = self._core.error
        return _make(code, message, "transfer", [], [], "")

    @property
    def moved_bytes(self) -> int:
        """Progress of the last post."""
        return self._core.moved_bytes

    @property
    def seconds_since_progress(self) -> float:
        """Since moved_bytes last grew."""
        return self._core.seconds_since_progress


@dataclass(frozen=True)
class StripeSource:
    """A place that has some of the blocks of Agent.read_striped(). elements: of `list`, by block; below 0: it does not have the
    block; None: element i has block i. generations: by block, where the list is of a fenced region. start (s) and
    bytes_per_second are what it is expected to take at first; afterwards what it took counts."""

    name: str
    list: List
    elements: Sequence[int] | None = None
    generations: Sequence[int] | None = None
    verify: bool = False
    start: float = 50e-6
    bytes_per_second: float = 1e9


def gpus() -> int:
    """How many GPUs allocate_gpu() and add_memory() may name; 0 also where weft was built without CUDA."""
    return _core.transfer_gpus()


class Agent:
    """Registers memory, exchanges metadata, moves lists.

    name: 1 to 64 bytes; how peers name this agent. key: peers must have the same; without one, metadata is not
    authenticated. listen: "127.0.0.1:0" also serves peers by the network and needs a key. layout: what pages hold (model, type,
    heads, packing, parallel rank); peers must have the same. pages: of all fenced regions together. network: what reaches peers
    whose memory cannot be reached otherwise: "tcp", "ucx", or "" for UCX where this machine has adapters that access remote
    memory and the peer offers UCX, else TCP. only_network: reach peers by it although they are on this machine. Thread:
    any; calls of one agent exclude each other, and the GIL is released while data moves. Raises: InvalidArgument, NoResources.
    """

    def __init__(
        self,
        name: str,
        key: str = "",
        listen: str = "",
        layout: str = "",
        pages: int = 1 << 20,
        network: str = "",
        only_network: bool = False,
    ) -> None:
        self.name = name
        self._core = _core.open_transfer_agent(name, key, listen, layout, pages, network, only_network)
        self._lent: dict[int, Any] = {}

    def _region(self, described: tuple[int, int, int, int, int]) -> Region:
        return Region(*described, weakref.ref(self))

    def allocate(self, bytes: int, page_bytes: int = 0) -> Region:
        """Zeroed memory that peers on this machine map; page_bytes > 0: fenced, in pages of this size. Raises:
        InvalidArgument, NoResources."""
        return self._region(self._core.allocate(bytes, page_bytes))

    def allocate_gpu(self, bytes: int, page_bytes: int = 0, gpu: int = 0) -> Region:
        """Zeroed memory of a GPU, which peers on this machine open. Raises: Error where there is no GPU, InvalidArgument,
        NoResources."""
        return self._region(self._core.allocate_gpu(bytes, page_bytes, gpu))

    def add_memory(self, array: Any, page_bytes: int = 0) -> Region:
        """Registers a contiguous writable array of the host or of a GPU (__cuda_array_interface__), which is kept until
        deregister(), or (address, bytes) or (address, bytes, gpu) of memory that must stay until then. What kernels write to
        it must be done before a request is posted. Raises: InvalidArgument where it overlaps a registered region, Error
        where there is no GPU."""
        gpu = -1
        if isinstance(array, tuple):
            address, size, gpu = (*array, -1)[:3]
        elif hasattr(array, "__cuda_array_interface__"):
            address, size, gpu = _of_gpu(array)
        else:
            if isinstance(array, (str, bytes, list, range)):  # NumPy would make an array of its own
                raise ValueError(f"memory to be registered is an array or a writable buffer, not {type(array).__name__}")
            view = np.asarray(array)
            if not view.flags.c_contiguous or not view.flags.writeable:
                raise ValueError("memory to be registered must be contiguous and writable")
            address, size = view.ctypes.data, view.nbytes
        if gpu >= 0:
            region = self._region(self._core.add_gpu_memory(address, size, page_bytes, gpu))
        else:
            region = self._region(self._core.add_memory(address, size, page_bytes))
        self._lent[region.number] = array
        return region

    def add_file(self, path: str, page_bytes: int = 0, bytes: int = 0, past_cache: bool = False) -> Region:
        """A file that exists, for this agent's own requests. The region has the file's bytes, or `bytes` if these are more:
        writes extend the file, reads beyond its end fail.
        past_cache: elements whose address, size and offset are multiples of 4 KiB go past the page cache."""
        return self._region(self._core.add_file(path, page_bytes, bytes, past_cache))

    def add_open_file(
        self, file: int, page_bytes: int = 0, bytes: int = 0, past_cache: bool = False, name: str = ""
    ) -> Region:
        """The same of an open file, by its descriptor, which is duplicated: what it may do, requests may do.
        name: for messages."""
        return self._region(self._core.add_open_file(file, page_bytes, bytes, past_cache, name))

    def add_object(
        self,
        url: str,
        bytes: int = 0,
        *,
        endpoint: str = "",
        location: str = "",
        key_id: str = "",
        secret: str = "",
        session: str = "",
        authorities: str = "",
    ) -> Region:
        """An object of S3, "s3://BUCKET/KEY", for this agent's own requests. The region has the object's bytes, or `bytes`; then
        it need not exist. A write is one element from offset 0 and replaces the object. Where it is kept is said by the
        environment: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_CA_BUNDLE, or by
        the other arguments; location is the region's name, authorities a file of certificates. Raises: Error where weft was built
        without libcurl, and what the server says."""
        return self._region(self._core.add_object(url, bytes, endpoint, location, key_id, secret, session, authorities))

    def deregister(self, region: Region, timeout: float = 2.0) -> None:
        """No peer begins a copy from here on; waits for those under way. Raises: Timeout naming the peer that still copies."""
        self._core.deregister(region.number, _errors.seconds(timeout, "deregister"))
        self._lent.pop(region.number, None)

    def acquire(self, region: Region, tag: int = 1) -> Page:
        """Takes a free page of a fenced region for owner `tag` (1 … 65535). Raises: NoResources where none is free."""
        return Page(*self._core.acquire(region.number, tag))

    def release(self, region: Region, page: Page) -> None:
        """Requests that name the page's generation fail from here on."""
        self._core.release(region.number, *page)

    def seal(self, region: Region, page: Page) -> None:
        """Notes the checksum of a page that this agent has written itself, for readers that verify."""
        self._core.seal(region.number, *page)

    def free_pages(self, region: Region) -> int:
        """Pages that can be acquired now."""
        return self._core.free_pages(region.number)

    def metadata(self, regions: Sequence[Region] | None = None) -> bytes:
        """What a peer needs to reach this agent, or only these regions of it: bytes for the caller to carry."""
        return self._core.metadata(None if regions is None else [r.number for r in regions])

    def load(self, metadata: bytes) -> str:
        """Reads a peer's metadata and returns its name. A peer that has restarted replaces its former self. Raises:
        InvalidArgument: malformed, another key, layout or version; Error: it cannot be reached."""
        return self._core.load(metadata)

    def publish(self, store: Store, regions: Sequence[Region] | None = None) -> None:
        """Leaves the metadata in a store, under "weft/agent/" and the agent's name, in place of what is there: call it again
        when regions have changed. Raises: what the store raises."""
        store.set("weft/agent/" + self.name, self.metadata(regions))

    def fetch(self, store: Store, peer: str, timeout: float = 30.0) -> str:
        """Loads what the agent `peer` has published, for which it waits. Returns its name. A store that anyone may write calls
        for a key. Raises: Timeout: nothing is there; as load(); InvalidArgument: another agent's metadata stands there."""
        key, deadline = "weft/agent/" + peer, time.monotonic() + _errors.seconds(timeout, "fetch")
        while True:
            try:
                metadata = store.get(key)
            except KeyError:
                metadata = None
            if metadata is not None:
                break
            if time.monotonic() >= deadline:
                raise Timeout(f"agent '{peer}' has published nothing for {timeout:g} s")
            time.sleep(min(0.01, timeout))
        found = self.load(bytes(metadata))
        if found != peer:
            self.forget(found)
            raise InvalidArgument(f"the store has metadata of agent '{found}' under the name '{peer}'")
        return found

    def set_costs(self, costs: Costs) -> None:
        """For estimates from here on, and for the paths of peers that are loaded later."""
        self._core.set_costs(costs._core)

    def forget(self, peer: str) -> None:
        """Requests to this peer fail from here on."""
        self._core.forget(peer)

    def check(self, peer: str) -> None:
        """Whether the peer is there, as far as is known without asking it. Raises: NotFound, PeerDied, PeerLeft."""
        self._core.check(peer)

    def explain(self, peer: str) -> str:
        """One line per region of the peer: the path that is taken, and why the others are not."""
        return self._core.explain(peer)

    def prepare(self, peer: str, rows: Table) -> List:
        """Checks a list once; peer "": this agent's own regions. rows: Rows, or an array of five columns (region, offset,
        bytes, stride, elements). Raises: InvalidArgument: no such peer or region, a row past its region's end, overlapping elements."""
        return List(self._core.prepare(peer, _table(rows, np.int64, (0, 0, 0, 0, 1))))

    def prepare_addresses(self, peer: str, extents: Table) -> List:
        """The same from addresses in the peer's process: rows or columns (address, bytes[, stride, elements])."""
        return List(self._core.prepare_addresses(peer, _table(extents, np.uint64, (0, 0, 0, 1))))

    def read(self, local: List, remote: List, **options: Unpack[RequestOptions]) -> Request:
        """A request from `remote` into `local`; options as of write()."""
        return self._made(False, local, remote, **options)

    def write(self, local: List, remote: List, **options: Unpack[RequestOptions]) -> Request:
        """A request from `local` into `remote`.

        local_blocks, remote_blocks: which elements of the lists, in this order. generations: of the page of every
        remote element, where the remote region is fenced. notify: bytes for the peer after all data. deadline: seconds
        from post(), 0: none. verify: write and compare a checksum per page.
        """
        return self._made(True, local, remote, **options)

    def _made(
        self,
        writes: bool,
        local: List,
        remote: List,
        local_blocks: Any = None,
        remote_blocks: Any = None,
        generations: Any = None,
        notify: bytes = b"",
        deadline: float = 0.0,
        verify: bool = False,
    ) -> Request:
        local_blocks, remote_blocks = _column(local_blocks, np.uint32), _column(remote_blocks, np.uint32)
        generations = _column(generations, np.uint64)
        deadline = _errors.seconds(deadline, "write" if writes else "read")
        return Request(
            self._core.make(
                writes, local._core, remote._core, local_blocks, remote_blocks, generations, notify, deadline, verify
            )
        )

    def read_striped(
        self, local: List, block_bytes: int, sources: Sequence[StripeSource], timeout: float = 0.0
    ) -> list[StripeShare]:
        """Reads every block into the element of the same number of `local`, each from the source that is expected to have it
        first; what one is late with, another reads too. timeout: 0: none. Raises: Error where no source can give a block, with
        each one's reason; Timeout; NoResources."""
        rows = [
            (
                s.name,
                s.list._core,
                [int(e) for e in s.elements] if s.elements is not None else [],
                [int(g) for g in s.generations] if s.generations is not None else [],
                s.verify,
                s.start * 1e6,
                s.bytes_per_second * 1e-6,
            )
            for s in sources
        ]
        seconds = _errors.seconds(timeout, "read_striped")
        return [StripeShare(*share) for share in self._core.read_striped(local._core, block_bytes, rows, seconds)]

    def notify(self, peer: str, bytes: bytes) -> None:
        """Sends a notification of its own; those of one agent arrive in their order, each once, without another call of
        this agent. Raises: NoResources where the peer's queue is full."""
        self._core.notify(peer, bytes)

    def notifications(self) -> list[Notification]:
        """Takes what has arrived."""
        return [Notification(*n) for n in self._core.notifications()]
