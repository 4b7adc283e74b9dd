"""The page of timeouts: this table says what each bounds and what it derives from; the value is read from the source."""

import re

# (heading, [(what it bounds, file, expression whose group is the value, how the cell reads; {} is the value)])
TABLE = [
    ("What programs set: T", [
        ("every wait of a communicator for a peer, and for ranks to meet", "src/base/env.h", r"timeout_ms = (\d+);",
         "{} ms: `WEFT_TIMEOUT_MS`; 0: as long as the peer lives"),
        ("the same, of one communicator", "include/weft/unique_id.h", r"milliseconds timeout\{\s*(\d+)\}",
         "`ConnectOptions::timeout` ({}: as the environment says), then `set_timeout`"),
        ("the same, of one call", "include/weft/communicator.h", r"(std::optional<std::chrono::milliseconds>) timeout = \{\};",
         "`Request::timeout`, of messages their own; unset: the communicator's"),
        ("the longest that can be set", "include/weft/communicator.h", r"kMostTimeout = std::chrono::hours\((24 \* 365 \* 100)\)", "{} hours, 100 years"),
        ("a question to a KV store", "include/weft/kv.h", r"timeout = std::chrono::seconds\((\d+)\)", "{} s: `ClientOptions::timeout`"),
        ("leases and writings of a client", "include/weft/kv.h", r"milliseconds lease = std::chrono::seconds\((\d+)\)", "{} s: `ClientOptions::lease`"),
        ("the same, as the server lets them", "include/weft/kv.h", r"most_lease = std::chrono::seconds\((\d+)\)", "{} s: `ServerOptions::most_lease`"),
        ("`Window.wait` in Python", "python/weftcomm/_window.py", r"timeout: float \| None = ([\d.]+)\) -> int", "{} s: `timeout=`"),
        ("groups of `backend=\"weft\"`", "python/torch/weftcomm_torch/__init__.py", r"seconds = ([\d.]+) if timeout", "{} s, as torch's own groups"),
    ]),
    ("What derives from T", [
        ("`agree()`, `shrink()`: ranks that are not known to have ended and do not come", "src/net/bootstrap/search.h", r"begin_ (>=) timeout_", "T"),
        ("the same: a coordinating rank that is silent is replaced", "src/net/bootstrap/search.cc", r"heard_ > (timeout_ / 4)", "T / 4"),
        ("the same: another rank coordinates as well", "src/net/bootstrap/search.cc", r"begin_ >= (timeout_ \* 3 / 2)", "3 T / 2"),
        ("the same: gives up, `kNoQuorum`", "src/net/bootstrap/search.cc", r"begin_ > (2 \* timeout_)", "2 T"),
        ("the same: answers beyond T, where a rank is stopped", "src/net/bootstrap/search.cc", r"kLateAnswers\{(\d+)\}", "T + {} ms per question"),
        ("the host's word that ranks are missing", "src/net/bootstrap/meeting.cc", r"deadline \+ Milliseconds\((\d+)\)", "T + {} ms"),
        ("rank 0's list of the late in `monitored_barrier(t)`", "src/api/session/monitored_barrier.cc", r"kAnswerTime\{(\d+)\}", "t + {} ms"),
        ("what a rank said of whom it waits for, for the name in a `kTimeout`", "src/net/messages/failure_detector.h", r"kLately\{(\d+)\}", "T / 4, at least {} ms"),
        ("TCP: unacknowledged bytes of a cut link", "src/net/link/socket.cc", r"(TCP_USER_TIMEOUT)", "T; silent connections are probed after T / 3, every T / 6"),
    ]),
    ("What is fixed", [
        ("a wait looks for the end of a peer, an abort, and what `set_interrupt` says", "src/net/memory/wait_policy.cc", r"kExamineEvery\{?\(?(\d+)", "every {} ms"),
        ("a meeting looks for `Interruptible`, and `grow()` for old ranks that end", "src/net/bootstrap/meeting.cc", r"kWatchEvery\{(\d+)\}", "every {} ms"),
        ("the answer of a rank's process about its communicators", "src/net/bootstrap/member.cc", r"kAnswerTime\{(\d+)\}", "{} ms"),
        ("the same, of a rank that has let the timeout pass", "src/net/bootstrap/member.cc", r"kSilentTime\{(\d+)\}", "{} ms: it reads the news when it goes on"),
        ("a stranger's greeting", "src/net/messages/openings.cc", r"kGreetingTime\{(\d+)\}", "{} s"),
        ("a silent stranger where places are short", "src/net/messages/openings.cc", r"kSilentTime\{(\d+)\}", "{} ms"),
        ("the reason of a disagreement, from the rank that differs", "src/net/messages/control.cc", r"kForReason\{(\d+)\}", "{} ms"),
        ("an owner that has not confirmed the writes of a transfer that shall end: its connection is cut", "src/move/transfer/work.h", r"kConfirm\{(\d+)\}", "{} s"),
        ("a KV client whose link is cut", "src/move/kv/server.cc", r"\.cut = (\d+)s", "{} s"),
    ]),
]


def value_of(source, file, expression):
    text = (source / file).read_text()
    found = re.search(expression, text)
    if found is None:
        raise ValueError(f"scripts/reference/timeouts.py: {file} has no {expression}")
    return found[1], text[: found.start()].count("\n") + 1


def page(source):
    out = ["# Timeouts", "", "For developers who must know how long something can take: every time that ends a wait, its default, and what derives",
           "from what. The values are read from the sources. [Recover from a failure](../lifecycle.md#recover-from-a-failure) says what follows from them.", ""]
    for heading, rows in TABLE:
        out += [f"## {heading}", "", "| bounds | is | in |", "|---|---|---|"]
        for what, file, expression, cell in rows:
            value, _ = value_of(source, file, expression)
            out.append(f"| {what} | {cell.format(value)} | [{file.rsplit('/', 1)[1]}](../../{file}) |")
        out.append("")
    return "\n".join(out)
