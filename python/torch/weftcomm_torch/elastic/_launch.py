"""`weftcomm run --elastic MIN:MAX`: starts the members of an elastic job, and new ones in place of those that are lost.

Also run as a script, by its path. It serves the store by which members meet, and lives as long as the job.
"""

from __future__ import annotations

import argparse
import os
import selectors
import signal
import subprocess
import sys
import time
from typing import IO, NoReturn

USAGE = "weftcomm run --elastic MIN:MAX [-n N] [--replace N] [--join HOST:PORT] {script.py | -m MODULE} [ARGUMENTS...]"
VARIABLE = "WEFTCOMM_ELASTIC"
GRACE = 5.0  # seconds that members have to end by themselves after the first one has


def fail(text: str) -> NoReturn:
    print(f"weftcomm run: {text}", file=sys.stderr)
    sys.exit(2)


def limits(text: str) -> tuple[int, int]:
    least, _, most = text.partition(":")
    if not least.isdigit() or not (most or least).isdigit() or not 1 <= int(least) <= int(most or least):
        raise argparse.ArgumentTypeError(f"{text}: MIN:MAX is needed, e.g. 2:8")
    return int(least), int(most or least)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="weftcomm run", usage=USAGE, allow_abbrev=False,
                                     description="Starts a training that loses ranks and takes in others without a restart "
                                                 "(docs/pytorch.md).")  # fmt: skip
    parser.add_argument("--elastic", type=limits, required=True, metavar="MIN:MAX", help="members that a step needs, and has at most")
    parser.add_argument("-n", "--ranks", "--nproc", type=int, default=0, metavar="N", help="members to start with; default: MAX, or one with --join")
    parser.add_argument("--replace", type=int, default=3, metavar="N", help="processes to start in place of lost ones; default: 3")
    parser.add_argument("--join", default="", metavar="HOST:PORT", help="the address that a running job has printed: members for that one")
    parser.add_argument("--listen", default="127.0.0.1", metavar="ADDRESS", help="where members of other hosts reach this one; default: 127.0.0.1")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="script.py")
    given = parser.parse_args(arguments)
    program = given.program[1:] if given.program[:1] == ["--"] else given.program
    if not program or program == ["-m"]:
        fail(f"which program?\nusage: {USAGE}")
    given.program = [sys.executable, *program] if program[0] == "-m" or program[0].endswith(".py") else program
    least, most = given.elastic
    given.ranks = given.ranks or (1 if given.join else most)
    if given.ranks < 1 or given.ranks > most or (given.ranks < least and not given.join):
        fail(f"-n {given.ranks} is not between {least} and {most}, as --elastic says")
    if given.replace < 0:
        fail(f"--replace {given.replace} is negative")
    return given


class Launcher:
    def __init__(self, given: argparse.Namespace) -> None:
        from datetime import timedelta

        from torch._C._distributed_c10d import TCPStore

        self.given, self.replace = given, given.replace
        if given.join:
            host, _, port = given.join.rpartition(":")
            if not host or not port.isdigit():
                fail(f"--join {given.join}: HOST:PORT is needed")
            self.store = TCPStore(host, int(port), is_master=False, timeout=timedelta(seconds=10))
            self.address = given.join
        else:
            self.store = TCPStore(given.listen, 0, is_master=True, wait_for_workers=False)
            self.address = f"{given.listen}:{self.store.port}"
            self.store.add("elastic/named", given.ranks)
        self.living: dict[int, subprocess.Popen[bytes]] = {}
        self.lines = selectors.DefaultSelector()
        self.rest: dict[int, bytes] = {}
        self.finished = 0
        self.lost = 0

    def start(self, member: int, founders: int) -> None:
        least, most = self.given.elastic
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", VARIABLE: f"{self.address} {member} {founders} {least} {most}"}
        environment.setdefault("OMP_NUM_THREADS", "1")  # as torchrun's
        try:
            process = subprocess.Popen(self.given.program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
        except OSError as problem:
            fail(f"cannot start {self.given.program[0]}: {problem.strerror}")
        self.living[member] = process
        assert process.stdout is not None
        self.lines.register(process.stdout, selectors.EVENT_READ, member)

    def newcomer(self) -> int:
        member: int = self.store.add("elastic/named", 1) - 1
        self.start(member, 0)
        return member

    def say(self, text: str) -> None:
        print(f"weftcomm run: {text}", file=sys.stderr, flush=True)

    def run(self) -> int:
        if self.given.join:
            for _ in range(self.given.ranks):
                self.newcomer()
        else:
            self.say(f"members 0 to {self.given.ranks - 1}; others join by --join {self.address}")
            for member in range(self.given.ranks):
                self.start(member, self.given.ranks)
        while self.living:
            for key, _ in self.lines.select(0.1):
                self.copy(key.fileobj, key.data)  # type: ignore[arg-type]
            for member, process in list(self.living.items()):
                if process.poll() is not None:
                    self.ended(member, process)
        return 0 if self.finished else 1

    def copy(self, stream: IO[bytes], member: int) -> None:
        """Whole lines, each with its member's number."""
        data = os.read(stream.fileno(), 65536)
        lines = (self.rest.pop(member, b"") + data).split(b"\n")
        if data:
            self.rest[member] = lines.pop()
        else:
            self.lines.unregister(stream)
            lines = [line for line in lines if line]
        for line in lines:
            sys.stdout.buffer.write(b"%d: %s\n" % (member, line))
        sys.stdout.buffer.flush()

    def ended(self, member: int, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        while process.stdout in [key.fileobj for key in self.lines.get_map().values()]:
            self.copy(process.stdout, member)
        process.stdout.close()
        del self.living[member]
        code = process.returncode
        if code == 0:
            self.finished += 1
            return
        self.store.set(f"elastic/lost/{member}", "1")
        self.lost += 1
        how = f"was ended by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"ended with exit status {code}"
        least = self.given.elastic[0]
        if self.finished or self.store.check(["elastic/done"]):
            self.say(f"member {member} {how} as the job ended")
        elif self.replace > 0:
            self.replace -= 1
            self.say(f"member {member} {how}; member {self.newcomer()} is started in its place")
        elif len(self.living) < least and not self.given.join:
            self.say(f"member {member} {how}; fewer than {least} are left, and --replace {self.given.replace} is used up")
            self.stop()
        else:
            self.say(f"member {member} {how}; {len(self.living)} go on")

    def stop(self) -> None:
        for process in self.living.values():
            process.terminate()
        until = time.monotonic() + GRACE
        for process in self.living.values():
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()


def main(arguments: list[str]) -> int:
    launcher = Launcher(parse(arguments))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return launcher.run()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        launcher.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
