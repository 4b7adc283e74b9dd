"""A sweep of what-ifs: what an all_reduce takes on clusters with other networks, sizes and faults.

  python examples/what_if.py [--points N] [--dask | --ray]

Each point is a simulation of its own. They are mapped over the processes of concurrent.futures, with --dask over the
workers of Dask (pip install "dask[distributed]"), or with --ray over those of Ray (pip install ray): machines and answers
pickle, and weft needs no scheduler of its own.
"""

import argparse
import concurrent.futures
import importlib
import itertools
import os
from collections.abc import Iterable
from typing import Any

import weftcomm as weft

MACHINES = [
    f"{gpu}:nodes={nodes},net={net}"
    for gpu, nodes, net in itertools.product(("dgx-h100", "dgx-a100", "hgx-b200"), (2, 4), ("ib-hdr", "ib-ndr"))
]
FAULTS: list[str | None] = [None, *(f"nic:0/{nic}=down" for nic in range(8)), *(f"nic:1/{nic}=50%" for nic in range(5))]
SIZES = weft.sizes(64 << 10, 64 << 20, 4)


def simulate(point: tuple[str, int, str | None]) -> dict[str, Any]:
    """One point: a flat row, with the machine and the fault in front."""
    machine, size, fault = point
    report = weft.Machine(machine).bench("all_reduce", size, fault=[fault] if fault else [])
    return {"machine": machine, "fault": fault or "", **report.rows()[0]}


def points(limit: int) -> list[tuple[str, int, str | None]]:
    """The first points of the sweep; faults change first, then sizes, then machines."""
    return list(itertools.islice(itertools.product(MACHINES, SIZES, FAULTS), limit))


def sweep(executor: Any, limit: int) -> list[dict[str, Any]]:
    """Any executor with a map() as concurrent.futures has it."""
    found: Iterable[dict[str, Any]] = executor.map(simulate, points(limit))
    return list(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=len(MACHINES) * len(FAULTS) * len(SIZES))
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--dask", action="store_true")
    where.add_argument("--ray", action="store_true")
    options = parser.parse_args()
    workers = os.cpu_count() or 1
    if options.dask:
        dask: Any = importlib.import_module("dask.distributed")
        with dask.Client(n_workers=workers, threads_per_worker=1, dashboard_address=None, timeout=240) as client:
            rows = sweep(client.get_executor(), options.points)
    elif options.ray:
        ray: Any = importlib.import_module("ray")
        pools: Any = importlib.import_module("ray.util.multiprocessing")
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
        with pools.Pool(workers) as pool:
            rows = sweep(pool, options.points)
        ray.shutdown()
    else:
        with concurrent.futures.ProcessPoolExecutor(workers) as pool:
            rows = sweep(pool, options.points)
    print(f"{len(rows)} simulations")
    whole = {(row["machine"], row["bytes"]): row["time_us"] for row in rows if not row["fault"]}
    broken = [row for row in rows if row["fault"]]
    for row in sorted(broken, key=lambda r: r["time_us"] / whole[r["machine"], r["bytes"]])[-3:]:
        ratio = row["time_us"] / whole[row["machine"], row["bytes"]]
        print(f"{row['fault']} on {row['machine']} at {row['bytes']} B: {ratio:.2f} times as long")


if __name__ == "__main__":
    main()
