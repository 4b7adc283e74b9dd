"""`python -m weftcomm COMMAND ...`: the command weft that is installed beside this Python."""

import os
import shutil
import sys
import sysconfig

beside = os.path.join(sysconfig.get_path("scripts"), "weft")
command = beside if os.path.exists(beside) else shutil.which("weft")
if command is None:
    sys.exit("weftcomm: the command weft is not installed")
os.execv(command, [command, *sys.argv[1:]])
