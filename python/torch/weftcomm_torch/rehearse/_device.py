"""torch.cuda without CUDA: what it asks the driver for is answered from the rehearsed machine; streams are recorded."""

from __future__ import annotations

import contextlib
import os
import types
from typing import Any

import torch

GIB = 1 << 30


def nothing() -> Any:
    """A function of its own that does nothing: torch._dynamo distinguishes functions by identity."""
    return lambda *_, **__: None


def install(record: Any, allocator: Any) -> None:
    cuda = torch.cuda
    gpus = int(os.environ.get("WEFT_REHEARSAL_GPUS", "8"))
    capacity = int(os.environ.get("WEFT_REHEARSAL_MEMORY", str(80 * GIB)))
    cuda._lazy_init = nothing()  # asked for with the first device index
    streams_made = [1]
    current_device = lambda *_: torch._C._accelerator_getDeviceIndex()  # noqa: E731

    class Event:
        def __init__(self, *_: Any, **__: Any) -> None:
            self.number = 0  # not recorded yet: waiting for it is no wait

        def record(self, stream: Any = None) -> None:
            self.number = record.next_id()
            record.write(kind="record", event=self.number, stream=record.stream if stream is None else stream.number)

        def wait(self, stream: Any = None) -> None:
            (cuda.current_stream() if stream is None else stream).wait_event(self)

        def synchronize(self) -> None:
            if self.number:
                record.write(kind="synchronize", event=self.number, line=record.line())

        def query(self) -> bool:
            return True

        def elapsed_time(self, _: Any) -> float:
            record.note("elapsed_time of events is answered with 1 ms")
            return 1.0

    class Stream:
        def __init__(self, *_: Any, number: int | None = None, **__: Any) -> None:
            self.number = streams_made[0] if number is None else number
            if number is None:
                streams_made[0] += 1
            self.device = torch.device("cuda", current_device())
            self.device_index, self.device_type, self.stream_id = self.device.index, 1, self.number
            self.cuda_stream = self.number

        def wait_stream(self, other: Any) -> None:
            self.wait_event(other.record_event())

        def wait_event(self, event: Any) -> None:
            if event.number:
                record.write(kind="wait_event", event=event.number, stream=self.number)

        def record_event(self, event: Any = None) -> Any:
            event = Event() if event is None else event
            event.record(self)
            return event

        def synchronize(self) -> None:
            self.record_event().synchronize()

        def query(self) -> bool:
            return True

        def is_capturing(self) -> bool:
            return False

        def __enter__(self) -> Any:
            self._before = record.stream
            record.stream = self.number
            return self

        def __exit__(self, *_: Any) -> None:
            record.stream = self._before

    default = Stream(number=0)
    streams: dict[int, Stream] = {0: default}

    def current_stream(*_: Any) -> Any:
        return streams.setdefault(record.stream, Stream(number=record.stream))

    def set_stream(stream: Any) -> None:
        record.stream = stream.number

    asked = [False]  # for the current device, or to change it

    def asked_device(*_: Any) -> int:
        asked[0] = True
        return current_device()

    def set_device(device: Any) -> None:
        asked[0] = True
        if device is not None:
            index = device if isinstance(device, int) else torch.device(device).index
            if index is not None and not 0 <= index < gpus:
                raise RuntimeError(f"invalid device ordinal: cuda:{index} of {gpus} GPUs of a node")
            if index is not None:
                torch._C._accelerator_setDeviceIndex(index)

    class DeviceContext:
        """torch.cuda.device(index)."""

        def __init__(self, device: Any) -> None:
            self._wanted = device

        def __enter__(self) -> None:
            self._before = current_device()
            set_device(self._wanted)

        def __exit__(self, *_: Any) -> None:
            set_device(self._before)

    properties = types.SimpleNamespace(
        name=os.environ.get("WEFT_REHEARSAL_CARD", "rehearsed GPU"), total_memory=capacity, multi_processor_count=132, major=9, minor=0, gcnArchName=""
    )
    statistics = lambda: {  # noqa: E731
        "allocated_bytes.all.current": allocator.allocated,
        "allocated_bytes.all.peak": allocator.peak_since,
        "reserved_bytes.all.current": allocator.reserved,
        "reserved_bytes.all.peak": allocator.peak_reserved_since,
        "num_alloc_retries": 0,
        "num_ooms": 0,
    }
    answers: dict[str, Any] = {
        "Stream": Stream,
        "Event": Event,
        "device": DeviceContext,
        "is_available": lambda: True,
        "is_initialized": lambda: asked[0] or allocator.peak > 0,  # device meshes set LOCAL_RANK's device where it is not
        "is_bf16_supported": lambda *_, **__: True,
        "device_count": lambda: gpus,
        "current_device": asked_device,
        "set_device": set_device,
        "current_stream": current_stream,
        "default_stream": lambda *_: default,
        "set_stream": set_stream,
        "stream": lambda stream: contextlib.nullcontext() if stream is None else stream,
        "synchronize": lambda *_: default.synchronize(),
        "get_device_name": lambda *_: properties.name,
        "get_device_properties": lambda *_: properties,
        "get_device_capability": lambda *_: (9, 0),
        "mem_get_info": lambda *_: (capacity - allocator.reserved, capacity),
        "memory_allocated": lambda *_: allocator.allocated,
        "max_memory_allocated": lambda *_: allocator.peak_since,
        "memory_reserved": lambda *_: allocator.reserved,
        "max_memory_reserved": lambda *_: allocator.peak_reserved_since,
        "memory_stats": lambda *_: statistics(),
        "reset_peak_memory_stats": allocator.reset_peaks,
        "empty_cache": allocator.give_back,
        "manual_seed": nothing(),
        "manual_seed_all": nothing(),
        "ipc_collect": nothing(),
        "is_current_stream_capturing": lambda: False,
        "_lazy_call": nothing(),
        "get_rng_state": lambda *_: torch.zeros(16, dtype=torch.uint8),
        "set_rng_state": nothing(),
    }
    for name, answer in answers.items():
        setattr(cuda, name, answer)
    torch._C._cuda_getDevice = lambda: current_device()  # what packages call beside torch.cuda
    torch._C._cuda_setDevice = lambda device: set_device(device)
    cuda.default_generators = tuple(torch.Generator() for _ in range(gpus))
    cuda.nccl.version = lambda: (2, 28, 9)  # of torch 2.13's CUDA wheels; distributed checkpoints log it
    torch.Stream, torch.Event = Stream, Event  # type: ignore[misc]
    torch.Tensor.record_stream = nothing()  # type: ignore[method-assign,assignment]
    torch.accelerator.current_stream = current_stream  # type: ignore[assignment]
    torch.accelerator.set_stream = set_stream
    torch.accelerator.synchronize = answers["synchronize"]
    torch.accelerator.current_device_index = answers["current_device"]
