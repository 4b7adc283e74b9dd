"""Stores of metadata: real servers on the loopback where they are installed, and what etcd may answer."""

import http.server
import json
import shutil
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import weftcomm
from weftcomm.transfer import Agent, Etcd, Folder, Rows

PAGE = 4096
KEY = "0123456789abcdef"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def answers(port, until):
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            time.sleep(0.05)
    return False


def started(program, *command, port):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    process = subprocess.Popen([program, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not answers(port, time.monotonic() + 20):
        process.kill()
        process.wait()
        pytest.fail(f"{program} does not listen")
    return process


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    """The address of an etcd of its own."""
    port, peers = free_port(), free_port()
    url, peer_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
    process = started(
        "etcd", "--data-dir", str(tmp_path_factory.mktemp("etcd")), "--listen-client-urls", url,
        "--advertise-client-urls", url, "--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url,
        "--initial-cluster", f"default={peer_url}", port=port,
    )  # fmt: skip
    until = time.monotonic() + 20  # it listens before it has elected itself
    while True:
        try:
            Etcd(url).get("ready")
            break
        except weftcomm.Error:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
    yield url
    process.kill()
    process.wait()


def meet(store):
    """Two agents meet by the store, and one reads the other's memory."""
    near, far = Agent("near", key=KEY), Agent("far/1", key=KEY)
    there = far.add_memory(np.full(PAGE, 7, dtype=np.uint8))
    far.publish(store)
    assert near.fetch(store, "far/1", timeout=5) == "far/1"
    here = near.allocate(PAGE)
    near.read(near.prepare("", [Rows(here.number, 0, PAGE)]), near.prepare("far/1", [Rows(there.number, 0, PAGE)])).run()
    assert here.array().tolist() == [7] * PAGE


def test_agents_meet_by_etcd(etcd):
    meet(Etcd(etcd))
    meet(Etcd(f"http://127.0.0.1:1,{etcd}", prefix="a/job/"))
    with pytest.raises(weftcomm.Timeout, match="agent 'nobody' has published nothing for 0.05 s"):
        Agent("near").fetch(Etcd(etcd), "nobody", timeout=0.05)


def test_etcd_keeps_any_bytes_and_keys_of_another_prefix_apart(etcd):
    one, two = Etcd(etcd, prefix="one/"), Etcd(etcd, prefix="two/")
    every = bytes(range(256)) * 3
    one.set("ключ", every)
    assert one.get("ключ") == every and two.get("ключ") is None
    one.set("empty", b"")
    assert one.get("empty") == b""
    two.set("x", b"2")
    assert one.delete("", prefix=True) == 2
    assert one.get("ключ") is None and two.get("x") == b"2"
    assert two.delete("x") == 1 and two.delete("x") == 0


def test_agents_meet_by_redis():
    redis = pytest.importorskip("redis", reason="the Python package redis is not installed")
    port = free_port()
    process = started("redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", port=port)
    try:
        meet(redis.Redis(port=port))
    finally:
        process.kill()
        process.wait()


def test_the_command_compares_a_store_with_redis(tmp_path):
    port, path = free_port(), tmp_path / "socket"
    options = ["--port", str(port), "--bind", "127.0.0.1", "--unixsocket", str(path), "--save", ""]
    process = started("redis-server", *options, port=port)
    try:
        for address in (f"127.0.0.1:{port}", str(path)):
            command = ["bench", "kv", "--block", "4K", "--check", "--redis", address, "--json", "-"]
            done = subprocess.run([sys.executable, "-m", "weftcomm", *command], capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (0, "")
            report = json.loads(done.stdout)
            assert report["schema"] == "weft.bench_kv/1" and report["redis"].count(".") == 2
            assert [row["tokens"] for row in report["rows"]] == [16, 64, 256, 1024]
            assert all(row["wrong"] == 0 and row["redis_get_us"] > 0 and row["get_us"] > 0 for row in report["rows"])
    finally:
        process.kill()
        process.wait()
    done = subprocess.run([sys.executable, "-m", "weftcomm", "bench", "kv", "--redis", f"127.0.0.1:{port}"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "Connection refused" in done.stderr


@pytest.mark.parametrize("kind", ["TCPStore", "FileStore"])
def test_agents_meet_by_torchs_stores(kind, tmp_path):
    torch = pytest.importorskip("torch.distributed", reason="torch is not installed")
    if kind == "TCPStore":
        meet(torch.TCPStore("127.0.0.1", free_port(), 1, is_master=True))
    else:
        meet(torch.FileStore(str(tmp_path / "store"), 1))


@pytest.fixture
def fake():
    """A server that answers as `reply` says: status, body."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.server.asked.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))), self.headers["Authorization"]))
            status, body = self.server.reply(self.path)
            if status == 0:  # says nothing
                time.sleep(1)
                return
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(
    "status, body, match",
    [
        (503, b'{"error": "etcdserver: no leader", "code": 14}', "etcd at http://127.0.0.1:[0-9]+: etcdserver: no leader$"),
        (404, b"<html>\nnot here</html>", "HTTP 404 Not Found$"),
        (200, b"no json", "Expecting value"),
        (200, b"[1]", "it answers no object$"),
        (0, b"", "timed out$"),
    ],
)
def test_what_goes_wrong_is_one_line(fake, status, body, match):
    fake.reply = lambda path: (status, body)
    with pytest.raises(weftcomm.Error, match=match) as raised:
        Etcd(f"http://127.0.0.1:{fake.server_port}", timeout=0.2).get("key")
    assert "\n" not in str(raised.value)


def test_nobody_is_named():
    port = free_port()
    with pytest.raises(weftcomm.Error, match=f"etcd at http://127.0.0.1:{port}: .*refused"):
        Etcd(f"http://127.0.0.1:{port}").set("key", b"")
    for url in ("", "127.0.0.1:2379", "ftp://host"):
        with pytest.raises(weftcomm.InvalidArgument, match="etcd: "):
            Etcd(url)


def test_a_user_is_authenticated_and_an_expired_token_is_renewed(fake):
    tokens = iter(["first", "second"])

    def reply(path):
        if path.endswith("authenticate"):
            return 200, json.dumps({"token": next(tokens)}).encode()
        if fake.asked[-1][2] == "first" and len(fake.asked) > 2:
            return 401, b'{"error": "etcdserver: invalid auth token"}'
        return 200, b"{}"

    fake.reply = reply
    store = Etcd(f"http://127.0.0.1:{fake.server_port}", user="u", password="p")
    assert store.get("a") is None and store.get("b") is None
    assert [(path.rpartition("/")[2], token) for path, _, token in fake.asked] == [
        ("authenticate", None), ("range", "first"), ("range", "first"), ("authenticate", None), ("range", "second"),
    ]  # fmt: skip
    assert fake.asked[0][1] == {"name": "u", "password": "p"}


def test_nixls_names_meet_by_etcd(etcd, monkeypatch):
    import weftcomm.nixl as nixl

    bad = nixl.nixl_agent("alone")
    monkeypatch.delenv("NIXL_ETCD_ENDPOINTS", raising=False)
    with pytest.raises(nixl._bindings.nixlInvalidParamError, match="set NIXL_ETCD_ENDPOINTS"):
        bad.send_local_metadata()
    monkeypatch.setenv("NIXL_ETCD_ENDPOINTS", etcd)
    one, two = nixl.nixl_agent("one"), nixl.nixl_agent("two")
    memory = np.arange(64, dtype=np.uint8)
    descs = one.register_memory([(memory.ctypes.data, 64, 0, "")], "DRAM")
    two.fetch_remote_metadata("one")
    assert not two.check_remote_metadata("one")
    one.send_local_metadata()
    two.fetch_remote_metadata("one")
    assert two.check_remote_metadata("one")
    assert Etcd(etcd).get("/nixl/agents/one/metadata") is not None
    with pytest.raises(nixl._bindings.nixlInvalidParamError, match="under a label"):
        one.send_partial_agent_metadata(descs)
    one.send_partial_agent_metadata(descs, label="part")
    monkeypatch.setenv("NIXL_ETCD_NAMESPACE", "/other")
    two.remove_remote_agent("one")
    two.fetch_remote_metadata("one", label="part")
    assert not two.check_remote_metadata("one"), "another namespace has nothing"
    monkeypatch.delenv("NIXL_ETCD_NAMESPACE")
    two.fetch_remote_metadata("one", label="part")
    assert two.check_remote_metadata("one")
    one.invalidate_local_metadata()
    assert Etcd(etcd).get("/nixl/agents/one/part") is None


def test_a_key_of_a_folder_is_a_file_of_that_folder(tmp_path):
    folder = Folder(tmp_path / "in")
    folder.set("../escape", b"x")
    assert folder.get("../escape") == b"x" and sorted(p.name for p in tmp_path.iterdir()) == ["in"]
    for key in ("", ".", "..", 5):
        with pytest.raises(weftcomm.InvalidArgument, match="key"):
            folder.set(key, b"x")
    with pytest.raises(weftcomm.InvalidArgument, match="it is bytes"):
        folder.set("key", "text")
