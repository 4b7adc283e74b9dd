"""A Slurm cluster of one node for this user: munged, slurmctld and slurmd with files in one folder, ended by their ids."""

import os
import shutil
import socket
import subprocess
import time

TOOLS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")
CONFIGURATION = """
ClusterName=weft
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldParameters=enable_configless
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def why_not():
    """Why no cluster can be started here; empty: it can."""
    missing = [tool for tool in TOOLS if shutil.which(tool, path=PATH) is None]
    if missing:
        return f"{', '.join(missing)} missing (apt-get install slurm-wlm munge)"
    return "" if os.geteuid() == 0 else "slurmd needs root"


PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Cluster:
    def __init__(self, folder):
        self.folder, self.daemons = folder, []
        folder.chmod(0o755)
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        for name in ("state", "spool"):
            (folder / name).mkdir()
        host = socket.gethostname().split(".")[0]
        (folder / "slurm.conf").write_text(CONFIGURATION.format(host=host, folder=folder, controller=free_port(), node=free_port()))
        self.environment = {**{k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "WEFT_", "PMI", "OMPI"))},
                            "PATH": PATH, "SLURM_CONF": str(folder / "slurm.conf")}

    def __enter__(self):
        folder = self.folder
        try:
            self.start("munged", "--foreground", "--force", f"--key-file={folder}/munge.key", f"--socket={folder}/munge.socket",
                       f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed")
            self.wait_until("munged opens its socket", lambda: (folder / "munge.socket").exists())
            self.start("slurmctld", "-D", "-i", "-f", folder / "slurm.conf")
            self.start("slurmd", "-D", "-f", folder / "slurm.conf")
            self.wait_until("the node is idle", lambda: self.run("sinfo", "-h", "-o", "%T").stdout.strip() == "idle")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def start(self, *words):
        log = open(self.folder / f"{words[0]}.out", "w")
        self.daemons.append(subprocess.Popen([str(w) for w in words], env=self.environment, stdin=subprocess.DEVNULL,
                                             stdout=log, stderr=subprocess.STDOUT))

    def wait_until(self, what, holds, seconds=60):
        until = time.monotonic() + seconds
        while not holds():
            ended = [d.args[0] for d in self.daemons if d.poll() is not None]
            if ended or time.monotonic() > until:
                said = "".join((self.folder / f"{d.args[0]}.out").read_text()[-600:] for d in self.daemons)
                raise AssertionError(f"{what}: not within {seconds} s; ended: {ended}\n{said}")
            time.sleep(0.1)

    def run(self, *words, timeout=120, **variables):
        return subprocess.run([str(w) for w in words], env={**self.environment, **variables}, capture_output=True, text=True,
                              timeout=timeout, stdin=subprocess.DEVNULL, cwd=self.folder)

    def close(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
