"""The file of one rehearsed rank: weft.rehearsal/1, one JSON object per line, in the order of the host's program."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from typing import Any

SCHEMA = "weft.rehearsal/1"
PACKAGES = {"site-packages", "dist-packages"}  # folders of installed packages, of whichever Python


class Record:
    """Writes events; knows the line of the user's program that the host executes. Thread: that of the script."""

    def __init__(self, path: str, script: str, rank: int, world: int) -> None:
        import torch

        self.rank, self.world = rank, world
        self.stream = 0  # number of torch.cuda.current_stream()
        self._file = open(path, "w", encoding="utf-8")
        self._folder = os.path.dirname(os.path.abspath(script))
        self._names: dict[str, str | None] = {}
        self._hidden = tuple(
            os.path.join(os.path.realpath(folder), "")
            for folder in {
                os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                os.path.dirname(torch.__file__),
                sysconfig.get_path("stdlib"),
                sysconfig.get_path("purelib"),
                sysconfig.get_path("platlib"),
            }
        )
        self.before_next: Any = None  # called before the next event that takes a place in a stream
        self._noted: set[tuple[str, str]] = set()
        self._ids = 0
        version = torch.__version__.split("+")[0]
        self.write(schema=SCHEMA, rank=rank, world=world, script=os.path.basename(script), torch=version)

    def write(self, **event: Any) -> None:
        if self.before_next is not None and event.get("kind") not in ("memory", "note", "group"):
            self.before_next()
        self._file.write(json.dumps(event, separators=(",", ":")))
        self._file.write("\n")

    def next_id(self) -> int:
        self._ids += 1
        return self._ids

    def _name(self, file: str) -> str | None:
        """A user's file by its name in the script's folder; None for torch, the standard library and packages."""
        known = self._names.get(file, "")
        if known != "":
            return known
        path = os.path.realpath(file)
        name: str | None = path
        if file.startswith("<") or path.startswith(self._hidden) or not PACKAGES.isdisjoint(path.split(os.sep)):
            name = None
        elif path.startswith(os.path.join(os.path.realpath(self._folder), "")):
            name = os.path.relpath(path, os.path.realpath(self._folder))
        self._names[file] = name
        return name

    def line(self) -> str:
        """The innermost line of the user's program in the calling thread, "train.py:12"; empty where there is none."""
        frame = sys._getframe(1)
        while frame is not None:
            name = self._name(frame.f_code.co_filename)
            if name is not None:
                return f"{name}:{frame.f_lineno}"
            frame = frame.f_back  # type: ignore[assignment]
        return ""

    def line_of(self, problem: BaseException) -> str:
        """The innermost line of the user's program at which an exception was raised."""
        found, trace = "", problem.__traceback__
        while trace is not None:
            name = self._name(trace.tb_frame.f_code.co_filename)
            if name is not None:
                found = f"{name}:{trace.tb_lineno}"
            trace = trace.tb_next
        return found

    def note(self, text: str, line: str | None = None) -> None:
        """A rule that was used instead of what the script would have seen; written once per line."""
        line = self.line() if line is None else line
        if (text, line) not in self._noted:
            self._noted.add((text, line))
            self.write(kind="note", text=text, line=line)

    def close(self, error: str = "", line: str = "") -> None:
        self.write(kind="end", error=error, line=line)
        self._file.close()
