"""A pytest plugin: the ranks of torch's MultiProcessTestCase are forked, which spares each of them the import of torch.

SUITE_SECONDS: how long a test may take. SUITE_REPORT: a file that gets [test, "begun"|"passed"|"failed"|"skipped", reason]
as a line when a test begins and when a part of it ends, so that an ended run still reports what came before. Nothing has
used torch's threads or made a group in the process that forks.
"""

import json
import os

import torch.multiprocessing as mp
import torch.testing._internal.common_distributed as common


def _fork_processes(self):
    self._start_processes(mp.get_context("fork").Process)


common.MultiProcessTestCase._spawn_processes = _fork_processes
common.TIMEOUT_DEFAULT = int(os.environ["SUITE_SECONDS"])


def _tell(test, outcome, reason=""):
    with open(os.environ["SUITE_REPORT"], "a", encoding="utf-8") as report:
        print(json.dumps([test.split("::", 1)[1], outcome, reason]), file=report)


def pytest_runtest_logstart(nodeid):
    _tell(nodeid, "begun")


def pytest_runtest_logreport(report):
    if report.skipped and isinstance(report.longrepr, tuple):
        _tell(report.nodeid, "skipped", report.longrepr[2])
    elif report.failed or report.when == "call":
        _tell(report.nodeid, report.outcome, report.longreprtext)
