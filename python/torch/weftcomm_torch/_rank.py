"""`_rank.py COMMAND ...`: a rank of `weft run` takes torchrun's names, too, and becomes the command."""

import os
import sys

rank, size = os.environ["WEFT_RANK"], os.environ["WEFT_SIZE"]
os.environ.update(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=size, LOCAL_WORLD_SIZE=size)
try:
    os.execvp(sys.argv[1], sys.argv[1:])
except OSError as problem:
    print(f"weftcomm: cannot start {sys.argv[1]}: {problem.strerror}", file=sys.stderr)
    sys.exit(127)
