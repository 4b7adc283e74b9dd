"""Objects of S3, in a server of moto's: weftcomm.transfer and NIXL's names. `make s3` runs it; skipped without moto."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest

import weftcomm
from weftcomm import nixl
from weftcomm.nixl import nixl_agent, nixl_agent_config
from weftcomm.transfer import Agent

SERVER = shutil.which("moto_server", path=os.path.dirname(sys.executable)) or shutil.which("moto_server")


def started(**environment):
    if SERVER is None:
        pytest.skip("moto's server is not installed: pip install 'moto[server]'")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    return port, subprocess.Popen(
        [SERVER, "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )


@pytest.fixture(scope="module")
def server():
    port, process = started()
    endpoint = f"http://127.0.0.1:{port}"
    kept = dict(os.environ)
    os.environ.update(
        AWS_ENDPOINT_URL=endpoint, AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="secret", AWS_REGION="us-east-1"
    )
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(urllib.request.Request(f"{endpoint}/bucket", method="PUT"), timeout=5)
                break
            except OSError:
                time.sleep(0.1)
        yield endpoint
    finally:
        process.terminate()
        process.wait()
        os.environ.clear()
        os.environ.update(kept)


def moved(agent, op, memory, region, offset, size):
    local = agent.prepare("", [(memory.number, 0, size)])
    remote = agent.prepare("", [(region.number, offset, size)])
    (agent.write if op == "write" else agent.read)(local, remote, deadline=60.0).run()


@pytest.mark.parametrize("size", [1, 1000, 20 << 20, 40 << 20])
def test_what_was_written_is_read_back_also_in_parts(server, size):
    agent = Agent("a")
    memory = agent.allocate(size)
    view = memory.array()
    view[:] = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    expected = view.copy()
    object = agent.add_object(f"s3://bucket/a folder/=!():@+,;$&'{size}+é", size)
    moved(agent, "write", memory, object, 0, size)
    view[:] = 0
    moved(agent, "read", memory, object, 0, size)
    assert (view == expected).all()
    half = size // 2
    if half:
        moved(agent, "read", memory, object, half, size - half)
        assert (view[: size - half] == expected[half:]).all()
    assert agent.add_object(f"s3://bucket/a folder/=!():@+,;$&'{size}+é").bytes == size


def test_another_client_reads_what_weft_writes_and_the_other_way(server):
    boto3 = pytest.importorskip("boto3")
    client = boto3.client("s3", endpoint_url=server, region_name="us-east-1", aws_access_key_id="id", aws_secret_access_key="secret")
    agent = Agent("a")
    memory = agent.allocate(20 << 20)
    memory.array()[:] = 7
    moved(agent, "write", memory, agent.add_object("s3://bucket/ours", 20 << 20), 0, 20 << 20)
    assert client.get_object(Bucket="bucket", Key="ours")["Body"].read() == bytes([7]) * (20 << 20)
    client.put_object(Bucket="bucket", Key="theirs", Body=b"0123456789")
    moved(agent, "read", memory, agent.add_object("s3://bucket/theirs"), 2, 5)
    assert bytes(memory.array()[:5]) == b"23456"


def test_errors_name_bucket_key_and_status(server):
    agent = Agent("a")
    with pytest.raises(weftcomm.Error, match=r"s3://bucket/none GET: 404 NoSuchKey"):
        agent.add_object("s3://bucket/none")
    memory = agent.allocate(10)
    with pytest.raises(weftcomm.Error, match=r"s3://no-such-bucket/k PUT: 404 NoSuchBucket"):
        moved(agent, "write", memory, agent.add_object("s3://no-such-bucket/k", 10), 0, 10)


def test_a_store_goes_on_with_the_blocks_in_its_bucket(server):
    from weftcomm.kv import Store

    prompt = list(range(48))
    for run in range(2):
        agent = Agent("a")
        with Store(agent, pages=8, page_bytes=4096, tier="s3://bucket/cache") as store:
            if run == 0:
                with store.begin(prompt) as writing:
                    for page in writing.pages:
                        store.array(page)[:] = 5
                    writing.commit()
            else:
                assert store.counters().recovered == 3
                with store.match(prompt) as lease:
                    assert lease.tokens == 48
                    assert all((store.array(page) == 5).all() for page in lease.pages)


def test_nixls_backend_obj(server):
    agent = nixl_agent("a", nixl_agent_config(backends=[]))
    agent.create_backend("OBJ", {"bucket": "bucket", "endpoint_override": server, "access_key": "id", "secret_key": "secret"})
    assert "OBJ_SEG" in agent.get_backend_mem_types("OBJ")
    data = np.arange(4096, dtype=np.uint8)
    memory = agent.register_memory([(data.ctypes.data, data.nbytes, 0, "")], "DRAM", backends=["OBJ"])
    objects = agent.register_memory([(0, 2048, 1, "one"), (0, 2048, 2, "two")], "OBJ", backends=["OBJ"])
    local = agent.get_xfer_descs([(data.ctypes.data, 2048, 0), (data.ctypes.data + 2048, 2048, 0)], "DRAM")
    remote = agent.get_xfer_descs([(0, 2048, 1), (0, 2048, 2)], "OBJ")
    expected = data.copy()
    for op in ("WRITE", "READ"):
        handle = agent.initialize_xfer(op, local, remote, "a", backends=["OBJ"])
        state = agent.transfer(handle)
        while state == "PROC":
            state = agent.check_xfer_state(handle)
        assert state == "DONE"
        agent.release_xfer_handle(handle)
        if op == "WRITE":
            data[:] = 0
    assert (data == expected).all()
    assert agent.query_memory([(0, 0, 1, "one"), (0, 0, 3, "none")], "OBJ", "OBJ") == [{"size": "2048"}, None]
    agent.deregister_memory(objects)
    agent.deregister_memory(memory)
    lost = nixl_agent("c", nixl_agent_config(backends=[]))
    lost.create_backend("OBJ", {"bucket": "no-such-bucket", "endpoint_override": server, "access_key": "id", "secret_key": "secret"})
    with pytest.raises(nixl.nixlBackendError, match="NoSuchBucket"):  # is not an object that is missing
        lost.query_memory([(0, 0, 1, "one")], "OBJ", "OBJ")
    with pytest.raises(nixl.nixlInvalidParamError, match="colour"):
        nixl_agent("b", nixl_agent_config(backends=[])).create_backend("OBJ", {"colour": "red"})


def test_a_server_that_checks_signatures_takes_wefts_and_refuses_those_of_another_key():
    boto3 = pytest.importorskip("boto3")
    port, process = started(INITIAL_NO_AUTH_ACTION_COUNT="4")  # then moto asks for signatures
    try:
        to = {"endpoint_url": f"http://127.0.0.1:{port}", "region_name": "us-east-1"}
        for _ in range(300):
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        iam = boto3.client("iam", aws_access_key_id="x", aws_secret_access_key="x", **to)
        iam.create_user(UserName="weft")
        key = iam.create_access_key(UserName="weft")["AccessKey"]
        policy = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}'
        iam.put_user_policy(UserName="weft", PolicyName="all", PolicyDocument=policy)
        boto3.client("s3", aws_access_key_id="x", aws_secret_access_key="x", **to).create_bucket(Bucket="bucket")
        agent = Agent("a")
        memory = agent.allocate(20 << 20)
        memory.array()[:] = 9
        of = {"endpoint": to["endpoint_url"], "location": "us-east-1", "key_id": key["AccessKeyId"]}
        object = agent.add_object("s3://bucket/a b+é=!():@,;$&/k", 20 << 20, secret=key["SecretAccessKey"], **of)
        moved(agent, "write", memory, object, 0, 20 << 20)
        memory.array()[:] = 0
        moved(agent, "read", memory, object, 0, 20 << 20)
        assert (memory.array() == 9).all()
        wrong = agent.add_object("s3://bucket/k", 10, secret="another", **of)
        with pytest.raises(weftcomm.Error, match=r"s3://bucket/k PUT: 403 SignatureDoesNotMatch"):
            moved(agent, "write", memory, wrong, 0, 10)
    finally:
        process.terminate()
        process.wait()
