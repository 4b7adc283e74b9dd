"""torch's own distributed_test, from the installed wheel, for one backend: collected by pytest, started by ./run.

BACKEND, WORLD_SIZE and TEMP_DIR are torch's; UNFENCED=1 evaluates decorators as for gloo and then runs with BACKEND, for
decorators that let a test run with gloo only by its name.
"""

import os

BACKEND = os.environ["BACKEND"]
for folder in ("barrier", "test_dir", "init_dir"):
    os.makedirs(os.path.join(os.environ["TEMP_DIR"], folder), exist_ok=True)
os.environ.setdefault("INIT_METHOD", "file://" + os.path.join(os.environ["TEMP_DIR"], "shared_init_file"))

import torch  # noqa: E402,F401 (registers weft)
import torch.testing._internal.common_distributed as common  # noqa: E402

for feature in ("ddp", "subgroup", "plugin", "gpu"):
    common.DistTestCases.backend_feature[feature].add(BACKEND)
if int(os.environ["WORLD_SIZE"]) >= 3:  # torch wants 8 ranks for groups that have two or three of them
    common.skip_if_small_worldsize = lambda test: test
unfenced = os.environ.get("UNFENCED") == "1" and BACKEND != "gloo"
if unfenced:
    os.environ["BACKEND"] = "gloo"
import torch.testing._internal.distributed.distributed_test as suite  # noqa: E402

if unfenced:
    os.environ["BACKEND"] = suite.BACKEND = BACKEND  # children inherit it, and repeat this import
for names in (suite.PROFILING_SUPPORTED_BACKENDS, suite.SEND_RECV_PROFILING_SUPPORTED_BACKENDS):
    if BACKEND not in names:
        names.append(BACKEND)


class TestDistBackendWithSpawn(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._spawn_processes()
