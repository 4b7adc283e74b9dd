"""`weftcomm run --elastic MIN:MAX`: starts the members of an elastic job, and new ones in place of those that are lost.

Also run as a script, by its path. The launcher that --join does not name a job for serves the store by which members meet,
and lives as long as the job. In that store: elastic/named, the number of members that were ever named; elastic/lost/M and
elastic/ended/M, what a launcher knows of its member M; elastic/left/M, whom the others have lost; elastic/beats, which launchers
that have joined add to, so that those whose host is lost are not waited for.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from typing import IO, Any, NoReturn

USAGE = """weftcomm run --elastic MIN:MAX [-n N] [--replace N] [--join HOST:PORT] [--listen ADDRESS]
                    {script.py | -m MODULE | COMMAND} [ARGUMENTS...]"""
WITH_VALUE = ("--elastic", "-n", "--ranks", "--nproc", "--replace", "--join", "--listen")
VARIABLE = "WEFTCOMM_ELASTIC"
GRACE = 5.0  # seconds that members have to end by themselves after the first one has
BEAT = 1.0  # seconds between two signs of life of a launcher that has joined
SILENCE = 15.0  # seconds without one after which such launchers are not waited for


def fail(text: str, status: int = 2) -> NoReturn:
    print(f"weftcomm run: {text}", file=sys.stderr)
    sys.exit(status)


def missing(program: list[str]) -> str:
    """As ../_launch.py has it, which this script loads by its path: the package would import torch."""
    file = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_launch.py")
    spec = importlib.util.spec_from_file_location("weftcomm_torch_launch", file)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.missing(program))


def place_of(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        fail(f"--join {address}: HOST:PORT is needed")
    return host, int(port)


def check_listens(address: str) -> None:
    """The store would try for ever to reach itself at an address that is not this host's."""
    try:
        family, kind, _, _, place = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.bind(place)
    except (OSError, UnicodeError) as problem:
        fail(f"--listen {address} is no address of this host: {getattr(problem, 'strerror', None) or problem}")


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
    at = 0
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] not in ("-m", "--"):
        at += 2 if arguments[at] in WITH_VALUE else 1
    given = parser.parse_args(arguments[:at])
    program = arguments[at + 1 :] if arguments[at : at + 1] == ["--"] else arguments[at:]
    if not program or program == ["-m"]:
        fail(f"which program?\nusage: {USAGE}")
    if given.join:
        place_of(given.join)
    else:
        check_listens(given.listen)
    lacks = missing(program)
    given.program = [sys.executable, *program] if program[0] == "-m" or program[0].endswith(".py") else program
    least, most = given.elastic
    given.ranks = given.ranks or (1 if given.join else most)
    if given.ranks < 1 or given.ranks > most or (given.ranks < least and not given.join):
        fail(f"-n {given.ranks} is not between {least} and {most}, as --elastic says")
    if given.replace < 0:
        fail(f"--replace {given.replace} is negative")
    if lacks:
        fail(lacks)
    return given


class Launcher:
    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.replace = given, given.replace
        self.lines = selectors.DefaultSelector()
        self.first: socket.socket | None = None  # to the first launcher, which never says anything by it: it ends when that one does
        if given.join:
            self.join()
        else:
            from torch._C._distributed_c10d import TCPStore

            self.store = TCPStore(given.listen, 0, is_master=True, wait_for_workers=False)
            self.address = f"{given.listen}:{self.store.port}"
            self.store.add("elastic/named", given.ranks)
        self.living: dict[int, subprocess.Popen[bytes]] = {}
        self.rest: dict[int, bytes] = {}
        self.finished = 0
        self.stopped = False
        self.beats, self.last_sign = 0, time.monotonic()  # of life: this launcher's, or that of those that have joined

    def join(self) -> None:
        self.address = self.given.join
        try:
            self.first = socket.create_connection(place_of(self.address), timeout=10)
        except OSError:
            fail(f"no job answers at {self.address}", 1)
        self.first.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.lines.register(self.first, selectors.EVENT_READ)
        from datetime import timedelta

        from torch._C._distributed_c10d import TCPStore

        try:
            self.store = TCPStore(*place_of(self.address), is_master=False, timeout=timedelta(seconds=10))
            elastic, done = self.store.check(["elastic/named"]), self.store.check(["elastic/done"])
        except RuntimeError:
            fail(f"no job answers at {self.address}", 1)
        if not elastic or done:
            fail(f"the job at {self.address} {'has ended' if done else 'is not elastic'}", 1)

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
        while self.living or self.others_go_on():
            ready = [key for key, _ in self.lines.select(0.1)]
            if any(key.fileobj is self.first for key in ready):
                return self.left_alone()
            for key in ready:
                self.copy(key.fileobj, key.data)  # type: ignore[arg-type]
            if self.given.join and time.monotonic() - self.last_sign > BEAT:
                self.last_sign = time.monotonic()
                self.store.add("elastic/beats", 1)
            for member, process in list(self.living.items()):
                if process.poll() is not None:
                    self.ended(member, process)
        return 0 if self.finished or (not self.given.join and self.store.check(["elastic/done"])) else 1

    def left_alone(self) -> int:
        """The first launcher has ended, and members that need its store are ended, too."""
        if self.finished:
            return 0
        self.say(f"the job at {self.address} has ended")
        return 1

    def of_job(self) -> int:
        """The members of the job that live, as far as the store knows, those of all launchers and those that still wait."""
        gone = ("lost", "left", "ended")
        named = self.store.add("elastic/named", 0)
        return sum(not any(self.store.check([f"elastic/{how}/{member}"]) for how in gone) for member in range(named))

    def others_go_on(self) -> bool:
        """Do members of other launchers need the store, while none of this one's are left?"""
        if self.given.join or self.stopped or self.of_job() == 0:
            return False
        beats, now = self.store.add("elastic/beats", 0), time.monotonic()
        if beats != self.beats:
            self.beats, self.last_sign = beats, now
        if now - self.last_sign > SILENCE:
            self.say(f"the launchers of the other members have been silent for {SILENCE:.0f} s")
            return False
        return True

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
        if not self.given.join:
            self.last_sign = time.monotonic()
        self.finished += code == 0
        self.store.set(f"elastic/{'lost' if code else 'ended'}/{member}", "1")
        if code == 0:
            return
        if self.stopped:
            return
        how = f"was ended by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"ended with exit status {code}"
        least, left = self.given.elastic[0], self.of_job()
        if self.finished or self.store.check(["elastic/done"]):
            self.say(f"member {member} {how} as the job ended")
        elif self.replace > 0:
            self.replace -= 1
            self.say(f"member {member} {how}; member {self.newcomer()} is started in its place")
        elif left < least and not self.given.join:
            self.say(f"member {member} {how}; fewer than {least} are left, and --replace {self.given.replace} is used up")
            self.stop()
        else:
            self.say(f"member {member} {how}; {left} go on")

    def stop(self) -> None:
        self.stopped = True
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
    except RuntimeError:  # of the store
        if not launcher.given.join:
            raise
        return launcher.left_alone()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        launcher.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
