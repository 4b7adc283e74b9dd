#!/usr/bin/env python3
"""Tokens per second of vLLM's CPU build with its own shared memory, with weft and with gloo, by turns.

    bench/consumers/vllm_rates.py --python VENV/bin/python [--rounds 4] [--only own weft gloo] [-- --hidden 1024 --compiled]

What stands after -- goes to vllm_generate.py. Each turn starts an engine, warms it up and times eight generations of 512
tokens. Reported are the median and the greatest of all generations, and the ratio of the medians to vLLM's own.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
WAYS = {"own": ("0", ["own"]), "weft": ("1", []), "gloo": ("0", [])}


def rates_of(python, way, words):
    """Tokens per second of each generation of one engine, and the digest of its tokens."""
    as_gloo, first = WAYS[way]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE), "WEFT_AS_GLOO": as_gloo}
    command = [python, str(HERE / "vllm_generate.py"), *first, "--times", "8", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=400)
    said = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith(("ANSWER", "CARRIED"))}
    if "CARRIED" not in said:
        sys.exit(f"{way}: exit {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")
    carrier, rates = said["CARRIED"].removeprefix("CARRIED ").removesuffix(" tokens/s").rsplit(", ", 1)
    expected = {"own": "vLLM's shared memory"}.get(way, way)
    if carrier != f"{expected},{expected}":
        sys.exit(f"{way}: the group is carried by {carrier}")
    return [float(rate) for rate in rates.split()], said["ANSWER"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("words", nargs="*")
    given = parser.parse_args()
    found, answers = {way: [] for way in given.only}, set()
    for turn in range(given.rounds):
        for way in given.only:
            rates, answer = rates_of(given.python, way, given.words)
            found[way] += rates
            answers.add(answer)
            print(f"turn {turn + 1}, {way}: {' '.join(f'{rate:.0f}' for rate in rates)}", file=sys.stderr, flush=True)
    print("| carried by | tokens/s, median | greatest | median over that of vLLM's own |\n|---|---|---|---|")
    for way, rates in found.items():
        ratio = f"{statistics.median(rates) / statistics.median(found['own']):.2f}" if "own" in found else "–"
        print(f"| {way} | {statistics.median(rates):.0f} | {max(rates):.0f} | {ratio} |")
    print(f"\nTokens: {'the same from all' if len(answers) == 1 else 'they differ'}.")


if __name__ == "__main__":
    main()
