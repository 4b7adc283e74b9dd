"""Stores of keys and values for inference, here and in other processes: weft/kv.h from Python."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import numpy as np

from . import _core, _errors
from .transfer import Agent, List, Page, Region

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self

__all__ = ["Client", "Counters", "Lease", "Server", "Store", "Writing", "block_bytes"]

Tokens = Union[Sequence[int], "NDArray[Any]"]
Salt = Union[str, bytes]


class Counters(NamedTuple):
    """What a store has done, in blocks unless said otherwise. pages: room in memory; blocks: those that can be found.
    leases, writings: that are open. asked, found: by match(). expired: leases and writings that ended by their deadline.
    tier_blocks: in the second tier; reloaded: read back from it; lost: not written to it, or damaged there; recovered,
    damaged: found there by the start, dropped by it."""

    pages: int
    blocks: int
    leases: int
    writings: int
    asked: int
    found: int
    committed: int
    evicted: int
    expired: int
    tier_blocks: int
    reloaded: int
    lost: int
    recovered: int
    damaged: int


def block_bytes(config: str | os.PathLike[str], block_tokens: int, tp: int = 1, type: str = "") -> int:
    """Bytes that one rank of `tp` keeps of a block, from a model's config.json: grouped heads, latent vectors (MLA), copies
    where tp exceeds the heads. type: elements of the cache instead of the model's. Raises: InvalidArgument."""
    return _core.kv_block_bytes(os.fspath(config), block_tokens, tp, type)


class Lease:
    """Pages that are read: they are neither evicted nor given to another block until it ends, at the latest with this
    object; a context manager. pages: of the blocks, in order. tokens: that they stand for."""

    def __init__(self, core: _core.KvLease) -> None:
        self._core = core
        self.pages = [Page(*page) for page in core.pages]
        self.tokens = core.tokens

    def end(self) -> None:
        """Does nothing where it has ended."""
        self._core.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()


class Writing:
    """Pages of blocks that are being written, those behind the longest prefix that the store has; a context manager, which
    gives them back where commit() was not called. first_block: of the prompt, that pages[0] is for."""

    def __init__(self, core: _core.KvWriting) -> None:
        self._core = core
        self.pages = [Page(*page) for page in core.pages]
        self.first_block = core.first_block

    def commit(self) -> int:
        """The blocks can be found from here on. Returns how many are new; ends it in any case. Raises: InvalidArgument: it has
        ended, or its deadline has passed; Mismatch: a client's page was not written whole with its checksum; PeerDied, Timeout."""
        return self._core.commit()

    def abandon(self) -> None:
        """Gives the pages back; a writer that still writes is refused. Does nothing where it has ended."""
        self._core.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.abandon()


class Store:
    """Blocks of keys and values in pages of `agent`, found by their tokens and a tenant's salt.

    pages: 1 to 2^20. page_bytes: of one block; or model: the path of a config.json, with tp and type as in block_bytes().
    block_tokens: of one block; tokens behind the last whole block of a prompt are ignored. policy: lru, lfu or s3fifo. tier: a
    file behind the memory, which a later store goes on with, also after a crash; tier_blocks: that fit in it (0: as many as it
    has), layout: what blocks hold, write_back: written when their page is given up and by flush(), not by commit(), sync:
    every write reaches the disk, check_tier: compares all checksums now. A context manager. Thread: any. Raises:
    InvalidArgument, NoResources.
    """

    def __init__(
        self,
        agent: Agent,
        pages: int,
        page_bytes: int = 0,
        *,
        model: str | os.PathLike[str] = "",
        tp: int = 1,
        type: str = "",
        block_tokens: int = 16,
        policy: str = "lru",
        tier: str | os.PathLike[str] = "",
        tier_blocks: int = 0,
        layout: str = "",
        write_back: bool = False,
        sync: bool = False,
        check_tier: bool = False,
    ) -> None:
        self._core = _core.open_kv_store(
            agent._core, pages, page_bytes, os.fspath(model), tp, type, block_tokens, policy, os.fspath(tier), tier_blocks,
            layout, write_back, sync, check_tier,
        )  # fmt: skip
        self.region = Region(*self._core.region, _agent=weakref.ref(agent))
        self._memory = agent._core.hold(self.region.number)
        self.page_bytes = self._core.page_bytes
        self.block_tokens = self._core.block_tokens

    def match(self, tokens: Tokens, salt: Salt = "") -> Lease:
        """The longest prefix that is here. Blocks that only the second tier has are read into memory."""
        return Lease(self._core.match(_bytes(salt), _tokens(tokens)))

    def begin(self, tokens: Tokens, salt: Salt = "") -> Writing:
        """Pages for the blocks behind that prefix; evicts what the policy gives up. Raises: NoResources: every page is being
        read, written or copied; nothing has been kept."""
        return Writing(self._core.begin(_bytes(salt), _tokens(tokens)))

    def array(self, page: Page) -> NDArray[np.uint8]:
        """The bytes of a page: to be read under its lease, to be written before its commit(). It keeps the store's memory,
        also beyond close()."""
        if not 0 <= page.number < self.region.bytes // self.page_bytes:
            raise ValueError(f"the store has no page {page.number}")
        if self._memory is None:
            raise ValueError("the store has been closed")
        at = self.region.address + page.number * self.page_bytes
        interface = {"data": (at, False), "shape": (self.page_bytes,), "typestr": "|u1", "version": 3}
        return np.asarray(type("Memory", (), {"__array_interface__": interface, "held": self._memory})())

    def flush(self) -> None:
        """Written back: writes to the second tier what it has not. Raises: the first error, after all were tried."""
        self._core.flush()

    def counters(self) -> Counters:
        return Counters(**self._core.counters())

    @property
    def tier_problem(self) -> str:
        """Why the second tier last lost a block; "": it has lost none."""
        return self._core.tier_problem()

    def serve(self, listen: str = "127.0.0.1:0", key: str | None = None, most_lease: float = 60.0) -> Server:
        """Serves clients in other processes. key: they must have the same; None: WEFT_KEY of the environment; "": the
        loopback only. most_lease: seconds after which what a client holds ends at the latest. Raises: InvalidArgument, Error."""
        return Server(self._core.serve(listen, _key(key), most_lease))

    def close(self) -> None:
        """Written back: flushes. Leases and writings end; clients get an error."""
        self._core.close()
        self._memory = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Server:
    """Serves a store in a thread of its own, made by Store.serve(). What a client holds ends when the client says so, when
    its deadline passes, or when its connection or its process ends. A context manager. Thread: any."""

    def __init__(self, core: _core.KvServer) -> None:
        self._core = core

    @property
    def address(self) -> str:
        """For Client: "127.0.0.1:4711"."""
        return self._core.address

    @property
    def clients(self) -> int:
        """Clients that are connected."""
        return self._core.clients

    def close(self) -> None:
        """Ends all connections, and what clients hold."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Client:
    """A store of another process, at `address`. Blocks move between `agent` and the store's agent by the cheapest path and
    are compared with their writers' checksums.

    key: as the server's; None: WEFT_KEY of the environment. timeout: seconds for every question. lease: seconds until leases and
    writings end. Errors name the store. After PeerDied, Timeout or Ctrl-C in a question the connection is of no use: make
    another client. A context manager. Thread: any; questions exclude each other. Raises: InvalidArgument: another key or layout;
    PeerDied, Timeout.
    """

    def __init__(
        self, agent: Agent, address: str, key: str | None = None, *, timeout: float = 5.0, lease: float = 10.0
    ) -> None:
        times = _errors.seconds(timeout, "connect"), _errors.seconds(lease, "connect")
        self._core = _core.connect_kv_client(agent._core, address, _key(key), *times)
        self.peer = self._core.peer
        self.page_bytes = self._core.page_bytes
        self.block_tokens = self._core.block_tokens

    def match(self, tokens: Tokens, salt: Salt = "") -> Lease:
        """The longest prefix that the store has. Raises: NoResources: too many leases are open."""
        return Lease(self._core.match(_bytes(salt), _tokens(tokens)))

    def begin(self, tokens: Tokens, salt: Salt = "") -> Writing:
        """Pages for the blocks behind that prefix. Raises: NoResources."""
        return Writing(self._core.begin(_bytes(salt), _tokens(tokens)))

    def extend(self, held: Lease | Writing) -> None:
        """Sets its deadline anew, `lease` seconds from now. Raises: InvalidArgument: it has ended."""
        if isinstance(held, Lease):
            self._core.extend_lease(held._core)
        else:
            self._core.extend_writing(held._core)

    def read(self, lease: Lease, memory: Region, offset: int = 0) -> None:
        """Copies all pages into memory of the client's agent, one behind the other. Raises: Mismatch: the bytes are not those
        that were written, or the lease has ended and the page is another block's; Timeout, PeerDied."""
        self._core.read(lease._core, memory.number, offset)

    def write(self, writing: Writing, memory: Region, offset: int = 0) -> None:
        """Copies memory into all pages, with checksums. Raises: Mismatch: the writing has ended; Timeout, PeerDied."""
        self._core.write(writing._core, memory.number, offset)

    def get(self, tokens: Tokens, memory: Region, offset: int = 0, *, salt: Salt = "") -> int:
        """The longest prefix that the store has, copied as by read(): returns the tokens whose blocks were read."""
        return self._core.get(_bytes(salt), _tokens(tokens), memory.number, offset)

    def put(self, tokens: Tokens, memory: Region, offset: int = 0, *, salt: Salt = "") -> int:
        """begin(), write() and commit() of a prompt whose blocks stand in memory, the first at `offset`; those that the store
        has are not moved. Returns how many blocks are new."""
        return self._core.put(_bytes(salt), _tokens(tokens), memory.number, offset)

    @property
    def pages(self) -> List:
        """All pages of the store, for requests of one's own: an element's number is the page's. Requests name the pages'
        generations and set `verify`."""
        return List(self._core.pages)

    def counters(self) -> Counters:
        """The store's."""
        return Counters(**self._core.counters())

    def close(self) -> None:
        """Ends the connection, when the last lease and writing of it have ended, too."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _key(key: str | None) -> str:
    return os.environ.get("WEFT_KEY", "") if key is None else key


def _bytes(salt: Salt) -> bytes:
    return salt.encode() if isinstance(salt, str) else salt


def _tokens(tokens: Tokens) -> NDArray[np.int32]:
    given = np.asarray(tokens)
    if given.ndim != 1 or (given.size > 0 and given.dtype.kind not in "iu"):
        raise ValueError(f"tokens are a list of whole numbers, not of shape {given.shape} and type {given.dtype}")
    limits = np.iinfo(np.int32)
    if given.dtype != np.int32 and given.size > 0 and not limits.min <= int(given.min()) <= int(given.max()) <= limits.max:
        raise ValueError("a token has more than 32 bits")
    return np.ascontiguousarray(given, dtype=np.int32)
