"""Stores of keys and values for inference, here and in other processes: weft/kv.h from Python."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import numpy as np

from . import _arguments, _core, _errors
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
    call = "block_bytes"
    return _core.kv_block_bytes(
        _path(config, "config", call),
        _arguments.integer(block_tokens, "block_tokens", call, *_arguments.INT64),
        _arguments.integer(tp, "tp", call, *_arguments.INT64),
        _arguments.text(type, "type", call),
    )


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
        whole, text, flag, call = _arguments.integer, _arguments.text, _arguments.flag, "Store"
        self._core = _core.open_kv_store(
            _arguments.kind_of(agent, Agent, "agent", call)._core,
            whole(pages, "pages", call, *_arguments.INT64),
            whole(page_bytes, "page_bytes", call, *_arguments.INT64),
            _path(model, "model", call),
            whole(tp, "tp", call, *_arguments.INT64),
            text(type, "type", call),
            whole(block_tokens, "block_tokens", call, *_arguments.INT64),
            text(policy, "policy", call),
            _path(tier, "tier", call),
            whole(tier_blocks, "tier_blocks", call, *_arguments.INT64),
            text(layout, "layout", call),
            flag(write_back, "write_back", call),
            flag(sync, "sync", call),
            flag(check_tier, "check_tier", call),
        )
        self.region = Region(*self._core.region, _agent=weakref.ref(agent))
        self._memory = agent._core.hold(self.region.number)
        self.page_bytes = self._core.page_bytes
        self.block_tokens = self._core.block_tokens

    def match(self, tokens: Tokens, salt: Salt = "") -> Lease:
        """The longest prefix that is here. Blocks that only the second tier has are read into memory."""
        return Lease(self._core.match(_bytes(salt, "match"), _tokens(tokens, "match")))

    def begin(self, tokens: Tokens, salt: Salt = "") -> Writing:
        """Pages for the blocks behind that prefix; evicts what the policy gives up. Raises: NoResources: every page is being
        read, written or copied; nothing has been kept."""
        return Writing(self._core.begin(_bytes(salt, "begin"), _tokens(tokens, "begin")))

    def array(self, page: Page) -> NDArray[np.uint8]:
        """The bytes of a page: to be read under its lease, to be written before its commit(). It keeps the store's memory,
        also beyond close()."""
        if self._memory is None:
            raise ValueError("the store has been closed")
        pages = self.region.bytes // self.page_bytes
        number = _arguments.integer(
            _arguments.kind_of(page, Page, "page", "array").number, "the page's number", "array", 0, pages - 1
        )
        at = self.region.address + number * self.page_bytes
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
        seconds = _errors.some_seconds(most_lease, "serve")
        return Server(self._core.serve(_arguments.text(listen, "listen", "serve"), _key(key, "serve"), seconds))

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
        times = _errors.some_seconds(timeout, "Client"), _errors.some_seconds(lease, "Client")
        core = _arguments.kind_of(agent, Agent, "agent", "Client")._core
        self._core = _core.connect_kv_client(core, _arguments.text(address, "address", "Client"), _key(key, "Client"), *times)
        self.peer = self._core.peer
        self.page_bytes = self._core.page_bytes
        self.block_tokens = self._core.block_tokens

    def match(self, tokens: Tokens, salt: Salt = "") -> Lease:
        """The longest prefix that the store has. Raises: NoResources: too many leases are open."""
        return Lease(self._core.match(_bytes(salt, "match"), _tokens(tokens, "match")))

    def begin(self, tokens: Tokens, salt: Salt = "") -> Writing:
        """Pages for the blocks behind that prefix. Raises: NoResources."""
        return Writing(self._core.begin(_bytes(salt, "begin"), _tokens(tokens, "begin")))

    def extend(self, held: Lease | Writing) -> None:
        """Sets its deadline anew, `lease` seconds from now. Raises: InvalidArgument: it has ended."""
        if isinstance(held, Lease):
            self._core.extend_lease(held._core)
        else:
            self._core.extend_writing(_arguments.kind_of(held, Writing, "held", "extend")._core)

    def read(self, lease: Lease, memory: Region, offset: int = 0) -> None:
        """Copies all pages into memory of the client's agent, one behind the other. Raises: Mismatch: the bytes are not those
        that were written, or the lease has ended and the page is another block's; Timeout, PeerDied."""
        core = _arguments.kind_of(lease, Lease, "lease", "read")._core
        self._core.read(core, *_place(memory, offset, "read"))

    def write(self, writing: Writing, memory: Region, offset: int = 0) -> None:
        """Copies memory into all pages, with checksums. Raises: Mismatch: the writing has ended; Timeout, PeerDied."""
        core = _arguments.kind_of(writing, Writing, "writing", "write")._core
        self._core.write(core, *_place(memory, offset, "write"))

    def get(self, tokens: Tokens, memory: Region, offset: int = 0, *, salt: Salt = "") -> int:
        """The longest prefix that the store has, copied as by read(): returns the tokens whose blocks were read."""
        return self._core.get(_bytes(salt, "get"), _tokens(tokens, "get"), *_place(memory, offset, "get"))

    def put(self, tokens: Tokens, memory: Region, offset: int = 0, *, salt: Salt = "") -> int:
        """begin(), write() and commit() of a prompt whose blocks stand in memory, the first at `offset`; those that the store
        has are not moved. Returns how many blocks are new."""
        return self._core.put(_bytes(salt, "put"), _tokens(tokens, "put"), *_place(memory, offset, "put"))

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


def _key(key: str | None, operation: str) -> str:
    return os.environ.get("WEFT_KEY", "") if key is None else _arguments.text(key, "key", operation)


def _path(path: Any, name: str, operation: str) -> str:
    try:
        text = os.fspath(path)
    except TypeError:
        text = None
    if not isinstance(text, str) or "\0" in text:
        raise _arguments.refuse(f"{name} {_arguments.shown(path)}: it is a path", operation)
    return _arguments.text(text, name, operation)


def _place(memory: Any, offset: Any, operation: str) -> tuple[int, int]:
    region = _arguments.kind_of(memory, Region, "memory", operation)
    return region.number, _arguments.integer(offset, "offset", operation, 0, _arguments.MOST_BYTES)


def _bytes(salt: Salt, operation: str) -> bytes:
    if not isinstance(salt, (str, bytes)):
        raise _arguments.refuse(f"salt {_arguments.shown(salt)}: it is a text or bytes", operation)
    return _arguments.text(salt, "salt", operation).encode() if isinstance(salt, str) else salt


def _tokens(tokens: Tokens, operation: str) -> NDArray[np.int32]:
    try:
        given = np.asarray(tokens)
    except (TypeError, ValueError, OverflowError):
        given = np.empty((), object)
    if given.ndim != 1 or (given.size > 0 and given.dtype.kind not in "iu"):
        text = f"tokens are a list of whole numbers, not of shape {given.shape} and type {given.dtype}"
        raise _arguments.refuse(text, operation)
    limits = np.iinfo(np.int32)
    if given.dtype != np.int32 and given.size > 0:
        for token in (int(given.min()), int(given.max())):
            if not limits.min <= token <= limits.max:
                raise _arguments.refuse(f"token {token} has more than 32 bits", operation)
    return np.ascontiguousarray(given, dtype=np.int32)
