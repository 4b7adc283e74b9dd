"""The calls that vLLM 0.33.0's tier of objects makes of NIXL, in their order and with their arguments, without the engine."""

import http.server
import shutil
import ssl
import subprocess
import threading

import numpy as np
import pytest

from weftcomm import nixl
from weftcomm.nixl import nixl_agent, nixl_agent_config, nixlBind

from engine_pages import PAGE, PAGES, pages_of, value

# Objects: vLLM's v1/kv_offload/tiering/obj, LMCache's storage with the back end OBJ.


class Bucket(http.server.BaseHTTPRequestHandler):
    """As much of S3 as one transfer of a small object needs."""

    protocol_version = "HTTP/1.1"
    kept: dict[str, tuple[bytes, str]] = {}

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.kept[self.path] = body, self.headers.get("x-amz-meta-weft-crc32c", "")
        self.answer(200, ETag='"1"')

    def do_GET(self):
        if self.path not in self.kept:
            return self.answer(404, b"<Error><Code>NoSuchKey</Code><Message>It is not there.</Message></Error>")
        body, crc = self.kept[self.path]
        known = {"ETag": '"1"', "x_amz_meta_weft_crc32c": crc}
        if self.command == "HEAD":
            return self.answer(200, Content_Length=str(len(body)), **known)
        asked = self.headers.get("Range")
        if asked is None:
            return self.answer(200, body, **known)
        first, last = (int(n) for n in asked.removeprefix("bytes=").split("-"))
        last = min(last, len(body) - 1)
        return self.answer(206, body[first : last + 1], Content_Range=f"bytes {first}-{last}/{len(body)}", **known)

    do_HEAD = do_GET


@pytest.fixture
def bucket():
    Bucket.kept.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def object_params(server, scheme="http"):
    known = {"bucket": "bucket", "access_key": "id", "secret_key": "secret", "region": "us-east-1", "num_threads": "4"}
    return {**known, "endpoint_override": f"{scheme}://localhost:{server.server_address[1]}", "scheme": scheme}


class Objects:
    """vLLM's tier: each transfer registers its objects under numbers that no other has had."""

    def __init__(self, params):
        if not weft_has_objects():
            pytest.skip("weft was built without libcurl")
        self.agent = nixl_agent("ObjAgent", nixl_agent_config(backends=[], capture_telemetry=True))
        self.agent.create_backend("OBJ", params)
        self.memory = np.zeros(PAGE * PAGES, dtype=np.uint8)
        self.agent.register_memory([(self.memory.ctypes.data, self.memory.nbytes, 0, "")], "DRAM")
        self.local = self.agent.prep_xfer_dlist("NIXL_INIT_AGENT", pages_of(self.memory), "DRAM")
        self.next = 1

    def there(self, *keys):
        return [found is not None for found in self.agent.query_memory([(0, 1, 0, key) for key in keys], "OBJ", "OBJ")]

    def move(self, operation, blocks, keys):
        agent = self.agent
        objects = agent.register_memory([(0, PAGE, number, key) for number, key in enumerate(keys, self.next)], "OBJ")
        self.next += len(keys)
        remote = agent.prep_xfer_dlist("ObjAgent", objects.trim())
        handle = agent.make_prepped_xfer(operation, self.local, np.array(blocks, dtype=np.int32), remote, np.arange(len(keys), dtype=np.int32))
        try:
            state = agent.transfer(handle)
            while state == "PROC":
                state = agent.check_xfer_state(handle)
            assert state == "DONE" and agent.get_xfer_telemetry(handle).totalBytes == PAGE * len(keys)
        finally:
            agent.release_xfer_handle(handle)
            agent.release_dlist_handle(remote)
            agent.deregister_memory(objects)


def weft_has_objects():
    try:
        nixl.nixl_agent("probe")._weft.add_object("s3://bucket/key", 1, endpoint="http://127.0.0.1:1", key_id="i", secret="s")
    except Exception as error:
        assert "libcurl" in str(error)
        return False
    return True


def test_vllms_objects_are_written_found_and_read_and_a_missing_one_is_a_miss(bucket):
    objects = Objects(object_params(bucket))
    objects.memory[:] = np.arange(PAGES, dtype=np.uint8).repeat(PAGE)
    objects.move("WRITE", [3, 19, 7], ["kv/ab/3.bin", "kv/ab/19.bin", "kv/cd/7.bin"])
    assert objects.there("kv/ab/3.bin", "kv/no.bin", "kv/cd/7.bin") == [True, False, True]
    objects.memory[:] = 0
    objects.move("READ", [25, 26], ["kv/cd/7.bin", "kv/ab/3.bin"])
    assert [value(objects.memory, i) for i in (24, 25, 26, 27)] == [0, 7, 3, 0]
    # LMCache catches this one, and recomputes.
    with pytest.raises(nixlBind.nixlBackendError, match="NoSuchKey"):
        objects.move("READ", [30, 31], ["kv/ab/3.bin", "kv/no.bin"])
    assert value(objects.memory, 31) == 0


def test_nixls_parameters_of_objects_are_taken_and_an_accelerator_is_refused(bucket):
    params = object_params(bucket)
    more = {"session_token": "", "use_virtual_addressing": "false", "req_checksum": "required", "accelerated": "false", "type": "", "ca_bundle": ""}
    assert Objects({**params, **more}).there("kv/no.bin") == [False]
    agent = nixl_agent("accelerated", nixl_agent_config(backends=[]))
    with pytest.raises(nixl.nixlNotSupportedError, match="accelerated is true"):
        agent.create_backend("OBJ", {**params, "accelerated": "true"})
    with pytest.raises(nixl.nixlInvalidParamError, match="parameter acces_key is not known"):
        agent.create_backend("OBJ", {**params, "acces_key": "id"})


def test_a_servers_certificate_is_checked_against_ca_bundle(bucket, tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: it makes the certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    bucket.socket = context.wrap_socket(bucket.socket, server_side=True)
    objects = Objects({**object_params(bucket, "https"), "ca_bundle": str(certificate)})
    objects.memory[:PAGE] = 77
    objects.move("WRITE", [0], ["kv/secret.bin"])
    objects.move("READ", [5], ["kv/secret.bin"])
    assert value(objects.memory, 5) == 77
    with pytest.raises(nixl.nixlBackendError, match="certificate|CA|SSL"):
        Objects(object_params(bucket, "https")).there("kv/secret.bin")


def test_an_endpoint_of_the_environment_is_nixls(bucket, monkeypatch):
    params = object_params(bucket)
    monkeypatch.setenv("AWS_ENDPOINT_OVERRIDE", params.pop("endpoint_override"))
    assert Objects(params).there("kv/no.bin") == [False]
