"""Calls that were started and not waited for."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Generic, TypeVar

from . import _core, _errors

T = TypeVar("T")


class Work(Generic[T]):
    """A call that was started with wait=False. May be dropped; the call still runs. Awaitable: `y = await work`."""

    def __init__(self, core: _core.Work) -> None:
        self._core = core

    def done(self) -> bool:
        """True once the call has ended, well or not."""
        return self._core.done()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the call has ended, at most `timeout` seconds; False: it has not. Does not raise its error."""
        return self._core.wait(-1.0 if timeout is None else _errors.seconds(timeout, "wait"))

    def result(self) -> T:
        """Waits for the call and returns what the call returns without wait=False. Raises: as the call."""
        value: T = self._core.result()
        return value

    def __await__(self) -> Generator[Any, None, T]:
        if not self._core.done():
            import asyncio

            loop = asyncio.get_running_loop()
            ended: asyncio.Future[None] = loop.create_future()

            def settle() -> None:
                if not ended.done():
                    ended.set_result(None)

            self._core.when_done(lambda: loop.call_soon_threadsafe(settle))
            yield from ended.__await__()
        return self.result()


class Message:
    """What a receive with a tag has taken: the sender, the tag, and how many elements came."""

    __slots__ = ("count", "source", "tag")

    def __init__(self, source: int, tag: int, count: int) -> None:
        self.source = source
        self.tag = tag
        self.count = count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and repr(other) == repr(self)

    def __hash__(self) -> int:
        return hash((self.source, self.tag, self.count))

    def __repr__(self) -> str:
        return f"Message(source={self.source}, tag={self.tag}, count={self.count})"


class MessageWork:
    """A send or receive with a tag that was started with wait=False; `await` gives what wait=True returns.

    It moves on while any call of its communicator runs, done() included. Started messages do not wait for each other.
    """

    def __init__(self, core: _core.Tagged, sends: bool) -> None:
        self._core = core
        self._sends = sends

    def done(self) -> bool:
        """True once it has ended, well or not; moves it on."""
        return self._core.done()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it has ended, at most `timeout` seconds; False: it has not. Does not raise its error."""
        return self._core.wait(-1.0 if timeout is None else _errors.seconds(timeout, "wait"))

    def result(self) -> Message | None:
        """Waits for it. Of a receive: what came. Raises: as the call."""
        taken = self._core.result()
        return None if self._sends else Message(*taken)

    def __await__(self) -> Generator[Any, None, Message | None]:
        import asyncio

        while not self._core.done():
            yield from asyncio.sleep(0.0002).__await__()
        return self.result()
