"""`python -m weftcomm.nixl` prints the folder for PYTHONPATH."""

from . import path

print(path())
