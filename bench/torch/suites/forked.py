"""A pytest plugin: the ranks of torch's MultiProcessTestCase are forked, which spares each of them the import of torch.

SUITE_SECONDS: how long a test may take. Nothing has used torch's threads or made a group in the process that forks.
"""

import os

import torch.multiprocessing as mp
import torch.testing._internal.common_distributed as common


def _fork_processes(self):
    self._start_processes(mp.get_context("fork").Process)


common.MultiProcessTestCase._spawn_processes = _fork_processes
common.TIMEOUT_DEFAULT = int(os.environ["SUITE_SECONDS"])
