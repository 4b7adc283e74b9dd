"""Does the wheel's library export all names of weft that the module takes from it? Run at the end of the link.

    python check_exported.py [--nm NM] MODULE LIBRARY

A name that exported.map lacks would be found only by `import weftcomm`. Exit: 0 nothing is missing, 1 names of weft are
missing (each in one line, as exported.map writes it), 2 nm cannot read a file.
"""

import argparse
import subprocess
import sys


def names(nm: str, which: str, path: str) -> dict[str, str]:
    """Dynamic symbols of a file, by their mangled names, as C++ has them."""
    found = {}
    for options in (["-D", which], ["-D", "-C", which]):
        done = subprocess.run([nm, *options, path], capture_output=True, text=True)
        if done.returncode != 0:
            print(f"check_exported: {path}: {done.stderr.strip()}", file=sys.stderr)
            sys.exit(2)
        found[len(options)] = [line.split(None, 2 if line[0] != " " else 1)[-1] for line in done.stdout.splitlines()]
    return {mangled.split("@")[0]: plain.split("@")[0] for mangled, plain in zip(found[2], found[3], strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nm", default="nm")
    parser.add_argument("module")
    parser.add_argument("library")
    given = parser.parse_args()
    exported = names(given.nm, "--defined-only", given.library)
    missing = [
        plain
        for mangled, plain in names(given.nm, "--undefined-only", given.module).items()
        if mangled not in exported and "4weft" in mangled
    ]
    for plain in sorted(missing):
        print(f"{given.library} does not export {plain}: python/exported.map lacks it", file=sys.stderr)
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
