"""Asks AIConfigurator for measured rows of one pool, in the form that `weft serve --compare` reads back.

  pip install aiconfigurator==0.12.0
  python bench/aiconfigurator.py ROWS.csv PREDICTIONS.csv [SECONDS]

Rows are taken in an order that a seed fixes, until the time is over. Clients over replicas of attention are its batch; where it has no
tables of the row's release it is asked without one. Configs of models that it would download are named as reasons.
"""

import csv
import logging
import random
import sys
import time

from aiconfigurator.cli.api import cli_estimate


def whole(row, key):
    return int(float(row[key])) if row[key] else 1


def asked(row, release):
    more = {}
    if row["moe_tp_size"] or row["moe_ep_size"]:
        more = {"moe_tp_size": whole(row, "moe_tp_size"), "moe_ep_size": whole(row, "moe_ep_size")}
    replicas = whole(row, "attention_dp_size")
    return cli_estimate(
        row["model_path"], row["system"], mode="agg", backend_name=row["backend"], backend_version=release,
        isl=whole(row, "isl"), osl=whole(row, "osl"), batch_size=max(1, round(float(row["concurrency"]) / replicas)),
        tp_size=whole(row, "tp_size"), pp_size=whole(row, "pp_size"), attention_dp_size=replicas, **more,
    )  # fmt: skip


def answer(row):
    reason = ""
    for release in (row["backend_version"] or None, None):
        try:
            found = asked(row, release)
            return [row["id"], found.ttft, found.tpot, ""]
        except Exception as problem:
            reason = " ".join(str(problem).split())[:120]
    return [row["id"], "", "", reason]


def main():
    logging.disable(logging.CRITICAL)
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["mode"] == "agg"]
    random.Random(1).shuffle(rows)
    until = time.monotonic() + float(sys.argv[3] if len(sys.argv) > 3 else 600)
    with open(sys.argv[2], "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["id", "ttft_ms", "tpot_ms", "reason"])
        for row in rows:
            if time.monotonic() > until:
                break
            out.writerow(answer(row))


if __name__ == "__main__":
    main()
