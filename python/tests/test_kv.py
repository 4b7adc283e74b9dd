"""weftcomm.kv: stores here and in other processes."""

import json
import multiprocessing
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import weftcomm
from weftcomm.kv import Client, Store, block_bytes
from weftcomm.transfer import Agent, Rows

PAGE = 4096
KEY = "0123456789abcdef"
PROMPT = list(range(16))


def put(store, prompt, salt=""):
    """Block i gets bytes of i + prompt[0]."""
    with store.begin(prompt, salt) as writing:
        for i, page in enumerate(writing.pages):
            store.array(page)[:] = writing.first_block + i + prompt[0]
        return writing.commit()


def test_blocks_are_found_by_their_tokens_and_their_tenants_salt():
    store = Store(Agent("store"), 8, PAGE, block_tokens=4)
    assert put(store, PROMPT, "alice") == 4
    assert put(store, PROMPT + [1, 2, 3, 4], "alice") == 1
    with store.match(np.array(PROMPT + [9, 9]), b"alice") as lease:
        assert lease.tokens == 16 and len(lease.pages) == 4
        assert [int(store.array(page)[PAGE - 1]) for page in lease.pages] == [0, 1, 2, 3]
        assert store.array(lease.pages[0]).view(np.float16).shape == (PAGE // 2,)
        assert store.counters().leases == 1
    assert store.counters().leases == 0
    assert store.match(PROMPT, "bob").tokens == 0
    counters = store.counters()
    assert (counters.pages, counters.blocks, counters.committed, counters.evicted) == (8, 5, 5, 0)


def test_what_was_not_committed_is_given_back_and_leased_pages_stay():
    store = Store(Agent("store"), 4, PAGE, block_tokens=4)
    with store.begin(PROMPT) as writing:
        assert len(writing.pages) == 4
        with pytest.raises(weftcomm.NoResources, match="every page of 4 is being read or written"):
            store.begin([100, 101, 102, 103])
    assert store.counters().writings == 0
    with pytest.raises(weftcomm.InvalidArgument, match="the writing has been closed"):
        writing.commit()
    assert put(store, PROMPT) == 4
    with store.match(PROMPT), pytest.raises(weftcomm.NoResources):
        store.begin([7] * 16)
    assert put(store, [7] * 16) == 4
    assert store.match(PROMPT).tokens == 0


def test_a_prompt_that_finds_no_place_evicts_nothing():
    store = Store(Agent("store"), 4, PAGE, block_tokens=4)
    assert put(store, PROMPT) == 4
    with pytest.raises(weftcomm.NoResources, match="the prompt needs 6 blocks, the store has 4 pages"):
        store.begin(list(range(100, 124)))
    assert store.match(PROMPT).tokens == 16 and store.counters().evicted == 0


def test_a_models_config_gives_the_size_of_a_page(tmp_path):
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            dict(num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=2, hidden_size=64, torch_dtype="bfloat16")
        )
    )
    # 2 layers x keys and values x 2 heads x 8 elements x 2 bytes = 128 bytes a token.
    assert block_bytes(config, 16) == 2048
    assert block_bytes(config, 16, tp=4) == 1024
    assert Store(Agent("store"), 8, model=config, block_tokens=32).page_bytes == 4096
    with pytest.raises(weftcomm.InvalidArgument, match="need 2048"):
        Store(Agent("store"), 8, 100, model=config)


def test_a_second_tier_goes_on_in_the_next_store(tmp_path):
    options = dict(block_tokens=4, tier=tmp_path / "blocks", tier_blocks=16, layout="a", write_back=True)
    with Store(Agent("one"), 4, PAGE, **options) as store:
        put(store, PROMPT)
        put(store, [50] * 16)  # in place of the first
        assert store.counters().tier_blocks == 4 and store.tier_problem == ""
        store.flush()
        assert store.counters().tier_blocks == 8
    with pytest.raises(weftcomm.InvalidArgument, match="the store has been closed"):
        store.match(PROMPT)
    with Store(Agent("two"), 4, PAGE, **options) as store:
        with store.match(PROMPT) as lease:
            assert lease.tokens == 16 and int(store.array(lease.pages[3])[0]) == 3
        counters = store.counters()
        assert (counters.recovered, counters.reloaded, counters.lost) == (8, 4, 0)
    with pytest.raises(weftcomm.InvalidArgument, match="another layout, or other numbers of tokens, than 'b"):
        Store(Agent("three"), 4, PAGE, **{**options, "layout": "b"})


@pytest.mark.parametrize(
    "what, match",
    [
        (lambda: Store(Agent("s"), 0, PAGE), "a store: pages 0"),
        (lambda: Store(Agent("s"), 4, PAGE, policy="optimum"), "a store has lru, lfu and s3fifo"),
        (lambda: Store(Agent("s"), 4, PAGE).match([1 << 40]), "more than 32 bits"),
        (lambda: Store(Agent("s"), 4, PAGE).match([0.5]), "whole numbers"),
        (lambda: Store(Agent("s"), 4, PAGE).match([[1]]), "whole numbers"),
        (lambda: Store(Agent("s"), 4, PAGE).serve("0.0.0.0:0", key=""), "serves the loopback only"),
        (lambda: Client(Agent("c"), "nowhere"), "nowhere"),
        (lambda: block_bytes("/nonexistent/config.json", 16), "/nonexistent/config.json"),
    ],
)
def test_bad_input_is_a_value_error_of_one_line(what, match):
    with pytest.raises(ValueError, match=match) as raised:
        what()
    assert "\n" not in str(raised.value)


def serve(pipe, listens):
    agent = Agent("store", key=KEY, listen="127.0.0.1:0" if listens else "")
    store = Store(agent, 8, PAGE, block_tokens=4)
    server = store.serve(key=KEY)
    pipe.send(server.address)
    while True:
        pipe.recv()
        pipe.send(store.counters()._asdict())


class Process:
    """A store in another process."""

    def __init__(self, listens=False):
        context = multiprocessing.get_context("spawn")
        self.pipe, there = context.Pipe()
        self.process = context.Process(target=serve, args=(there, listens), daemon=True)
        self.process.start()
        self.address = self.pipe.recv()

    def counters(self):
        self.pipe.send(None)
        return self.pipe.recv()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.join()


@pytest.mark.parametrize("by_tcp", [False, True], ids=["shared memory", "tcp"])
def test_a_store_of_another_process_is_written_and_read(by_tcp):
    with Process(by_tcp) as there:
        agent = Agent("engine", key=KEY, network="tcp", only_network=by_tcp)
        memory = agent.allocate(6 * PAGE)
        with Client(agent, there.address, KEY) as client:
            assert (client.peer, client.page_bytes, client.block_tokens) == ("store", PAGE, 4)
            assert agent.explain("store").startswith("region 0: " + ("tcp" if by_tcp else "shared memory"))
            memory.array().reshape(6, PAGE)[:4] = np.arange(4, dtype=np.uint8)[:, None] + 10
            assert client.put(PROMPT, memory, salt="alice") == 4
            assert client.put(PROMPT, memory, salt="alice") == 0
            memory.array()[:] = 0
            assert client.get(PROMPT + [0] * 8, memory, PAGE, salt="alice") == 16
            assert memory.array()[PAGE - 1 :: PAGE].tolist() == [0, 10, 11, 12, 13, 0]
            assert client.get(PROMPT, memory, salt="bob") == 0
            # The same in steps, and by a request of one's own.
            with client.begin([5] * 8) as writing:
                client.write(writing, memory, PAGE)
                client.extend(writing)
                assert writing.commit() == 2
            with client.match([5] * 8) as lease:
                client.extend(lease)
                local = agent.prepare("", [Rows(memory.number, 0, PAGE, PAGE, 6)])
                agent.read(
                    local,
                    client.pages,
                    local_blocks=[5, 0],
                    remote_blocks=[page.number for page in lease.pages],
                    generations=np.array([page.generation for page in lease.pages], dtype=np.uint64),
                    verify=True,
                ).run()
                assert (int(memory.array()[5 * PAGE]), int(memory.array()[0])) == (10, 11)
                assert there.counters()["leases"] == 1
            assert client.counters().leases == 0
            with client.begin([6] * 8) as writing:
                with pytest.raises(weftcomm.Mismatch, match="block 0 was not written whole with its checksum"):
                    writing.commit()
            assert client.counters().writings == 0


def test_a_lease_ends_at_its_deadline_and_with_its_connection():
    with Process() as there:
        agent = Agent("engine", key=KEY)
        memory = agent.allocate(8 * PAGE)
        client = Client(agent, there.address, KEY)
        client.put(PROMPT, memory)
        short = Client(agent, there.address, KEY, lease=0.05)
        lease = short.match(PROMPT)
        assert lease.tokens == 16
        until = time.monotonic() + 5
        while there.counters()["expired"] == 0 and time.monotonic() < until:
            time.sleep(0.01)
        assert there.counters()["leases"] == 0
        client.put([3] * 32, memory)
        with pytest.raises(weftcomm.Mismatch, match="store 'store' at .* has been released, or given to another owner"):
            short.read(lease, memory)
        with pytest.raises(weftcomm.InvalidArgument, match="it has ended, or its deadline has passed"):
            short.extend(lease)
        held = client.match([3] * 32)
        assert there.counters()["leases"] == 1
        held.end()
        client.close()
        short.close()


def test_a_store_that_was_killed_is_an_error_with_its_name():
    with Process() as there:
        agent = Agent("engine", key=KEY)
        memory = agent.allocate(4 * PAGE)
        client = Client(agent, there.address, KEY)
        client.put(PROMPT, memory)
        lease = client.match(PROMPT)
        there.process.kill()
        there.process.join()
        for call in (
            lambda: client.read(lease, memory),
            lambda: client.match(PROMPT),
            lambda: client.put([1] * 8, memory),
            client.counters,
        ):
            with pytest.raises(weftcomm.PeerDied, match=f"store 'store' at {there.address}: "):
                call()
        lease.end()


def test_another_key_is_refused_and_the_environments_is_used(monkeypatch):
    store = Store(Agent("store", key=KEY), 4, PAGE)
    monkeypatch.setenv("WEFT_KEY", KEY)
    with store.serve() as server:
        with pytest.raises(weftcomm.InvalidArgument, match="it has another key"):
            Client(Agent("engine", key=KEY), server.address, "fedcba9876543210")
        with Client(Agent("engine", key=KEY), server.address) as client:
            assert client.match([1] * 16).tokens == 0
            assert server.clients == 1


def test_ctrl_c_ends_a_question():
    with Process() as there:
        client = Client(Agent("engine", key=KEY), there.address, KEY, timeout=60)
        os.kill(there.process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, there.process.pid, os.WSTOPPED | os.WNOWAIT)
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            client.match(PROMPT)
        assert time.monotonic() - begin < 5
        with pytest.raises(weftcomm.Aborted, match="interrupted; the connection has been closed"):
            client.match(PROMPT)
        os.kill(there.process.pid, signal.SIGCONT)


def test_the_pages_program_runs(tmp_path):
    page = (pathlib.Path(__file__).parents[2] / "docs" / "transfers.md").read_text()
    (program,) = re.findall(r"```python\n(import multiprocessing.*?)```\n\nIt prints\n\n((?:    [^\n]*\n)+)", page, re.DOTALL)
    (tmp_path / "program.py").write_text(program[0])
    done = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [line.strip() for line in program[1].splitlines()]
