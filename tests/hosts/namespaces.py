"""Hosts for tests: network, mount, process and name spaces on a bridge, each with an sshd of its own.

Needs root, `ip`, `unshare` and sshd; why_not() says what is missing.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import time

SUBNET = "10.77.0"


def why_not():
    """Why hosts cannot be made here; empty: they can."""
    if os.geteuid() != 0:
        return "needs root"
    for tool in ("ip", "unshare", "nsenter", "ssh", "ssh-keygen"):
        if shutil.which(tool) is None:
            return f"{tool} is missing"
    if sshd() is None:
        return "sshd is missing (openssh-server)"
    probe = subprocess.run(["unshare", "--net", "ip", "link", "add", "probe", "type", "bridge"], capture_output=True)
    return "" if probe.returncode == 0 else "the kernel lets no bridge be made in a network namespace"


def sshd():
    return shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")


class Space:
    """One set of namespaces, kept by a process that sleeps. Host 1 is where launchers run and has the bridge."""

    def __init__(self, name, number, folder):
        self.name, self.address, self.folder = name, f"{SUBNET}.{number}", folder
        self.keeper = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
             f"hostname {name}; mount --bind {folder}/etc_hosts /etc/hosts; mount -t tmpfs tmpfs /dev/shm; "
             "mount -t tmpfs tmpfs /run; mkdir /run/sshd; "
             "ip link set lo up; echo ready; while :; do sleep 1000; done"], stdout=subprocess.PIPE, text=True)
        assert self.keeper.stdout.readline() == "ready\n"
        # The shell in the new process namespace is the child of unshare.
        self.pid = int(pathlib.Path(f"/proc/{self.keeper.pid}/task/{self.keeper.pid}/children").read_text().split()[0])

    def command(self, *words):
        return ["nsenter", "-t", str(self.pid), "-n", "-m", "-u", "-p", "--", *map(str, words)]

    def run(self, *words):
        done = subprocess.run(self.command(*words), capture_output=True, text=True)
        assert done.returncode == 0, f"{words} on {self.name}: {done.stderr}"
        return done.stdout

    def start_sshd(self):
        log = open(self.folder / f"sshd-{self.name}.log", "wb")
        self.sshd = subprocess.Popen(self.command(sshd(), "-D", "-e", "-f", self.folder / "sshd_config"), stderr=log)

    def processes(self):
        """Command lines of what runs there, but for the keeper, sshd itself and what looks."""
        lines = self.run("ps", "-e", "-o", "pid=,args=").splitlines()
        own = ("sleep 1000", "sshd", "ps -e", "sh -c hostname")
        found = [line.split(None, 1)[1] for line in lines if len(line.split(None, 1)) == 2]
        return [line for line in found if not any(o in line for o in own)]

    def close(self):
        self.keeper.send_signal(signal.SIGKILL)
        self.keeper.wait()


class Network:
    """A launcher's host and others, on one bridge, with keys that let root in."""

    def __init__(self, folder, names):
        self.folder = folder
        for key in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
        (folder / "authorized").write_text((folder / "user_key.pub").read_text())
        (folder / "sshd_config").write_text(
            f"HostKey {folder}/host_key\nAuthorizedKeysFile {folder}/authorized\nPermitRootLogin yes\nStrictModes no\n"
            "UsePAM no\nPasswordAuthentication no\nPidFile none\n")
        # Names as pods of an indexed job with a headless service have them.
        (folder / "etc_hosts").write_text("127.0.0.1 localhost\n" + "".join(
            f"{SUBNET}.{number} pod-{number - 2}.job.test {name} pod-{number - 2}\n" for number, name in enumerate(names, 2)))
        self.launcher = Space("launcher", 1, folder)
        self.hosts = {name: Space(name, number, folder) for number, name in enumerate(names, 2)}
        self.launcher.run("ip", "link", "add", "bridge", "type", "bridge")
        self.launcher.run("ip", "address", "add", f"{self.launcher.address}/24", "dev", "bridge")
        self.launcher.run("ip", "link", "set", "bridge", "up")
        config = f"IdentityFile {folder}/user_key\nUserKnownHostsFile {folder}/known\nStrictHostKeyChecking no\nLogLevel ERROR\nUser root\n"
        for name, host in self.hosts.items():
            # In the network namespace only: process ids are those of this side.
            subprocess.run(["nsenter", "-t", str(self.launcher.pid), "-n", "ip", "link", "add", f"to-{name}", "type", "veth",
                            "peer", "name", "eth0", "netns", str(host.pid)], check=True)
            self.launcher.run("ip", "link", "set", f"to-{name}", "master", "bridge", "up")
            host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
            host.run("ip", "link", "set", "eth0", "up")
            host.start_sshd()
            config += f"Host {name}\n  HostName {host.address}\n"
        config += f"Host refusing\n  HostName {self.launcher.address}\n"
        (folder / "ssh_config").write_text(config)
        self.ssh = f"ssh -F {folder}/ssh_config"
        for name in names:
            self.wait_for_sshd(name)

    def wait_for_sshd(self, name):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if subprocess.run(self.launcher.command(*self.ssh.split(), name, "true"), capture_output=True).returncode == 0:
                return
            time.sleep(0.05)
        raise AssertionError(f"sshd on {name}: " + (self.folder / f"sshd-{name}.log").read_text())

    def close(self):
        for space in (*self.hosts.values(), self.launcher):
            space.close()
