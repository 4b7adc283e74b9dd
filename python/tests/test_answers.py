"""Answers as objects: they draw themselves, give flat rows, and are plain dicts besides."""

import concurrent.futures
import json
import os
import pathlib
import pickle
import subprocess
import sysconfig
import xml.etree.ElementTree as ElementTree

import pytest

import weftcomm as weft

WEFT = os.path.join(sysconfig.get_path("scripts"), "weft")


def by_command(*arguments):
    done = subprocess.run([WEFT, *arguments, "--json", "-"], capture_output=True, text=True, check=False)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    m = weft.machine("dgx-h100")
    logs = tmp_path_factory.mktemp("logs")
    (logs / "dmesg.txt").write_text("[12.3] NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.\n")
    return {
        "bench": m.bench("all_reduce", weft.sizes(1 << 10, 1 << 20, 32)),
        "choice": m.explain("all_reduce", "4M"),
        "proof": weft.verify("all_reduce", "ring", ranks=4),
        "topology": m.topology,
        "training": weft.train("llama3-8b", m, zero=3, global_batch=16),
        "serving": weft.serve("llama-3.1-8b", m, isl=512, osl=64, concurrency=4),
        "plans": weft.serve("llama-3.1-8b", m, isl=512, osl=64, best=True, tpot=20, tp=1, max_concurrency=8),
        "machines": weft.serve("llama-3.1-8b", [m, "hgx-h200"], isl=512, osl=64, concurrency=4),
        "fit": weft.fit("llama-3.1-8b", "h100"),
        "advice": weft.advise("llama-3.1-8b", [m], rate=4, isl=512, osl=64, tpot=20, engine=["vllm"]),
        "diagnosis": weft.doctor(str(logs)),
    }


NAMES = [
    "bench",
    "choice",
    "proof",
    "topology",
    "training",
    "serving",
    "plans",
    "machines",
    "fit",
    "advice",
    "diagnosis",
]


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_is_a_value_with_rows_a_table_and_a_line(answers, name):
    answer = answers[name]
    assert pickle.loads(pickle.dumps(answer)) == answer
    assert type(answer.to_dict()) is dict and json.loads(json.dumps(answer.to_dict())) == answer
    rows = answer.rows()
    assert rows and all(not isinstance(v, (dict, list)) for row in rows for v in row.values())
    assert "\n" not in repr(answer) and repr(answer).startswith(f"<{type(answer).__name__}: ")
    table = ElementTree.fromstring(f"<div>{answer._repr_html_()}</div>")
    assert len(table.findall(".//tbody/tr")) == len(rows)


@pytest.mark.parametrize("name", ["bench", "choice", "topology", "training", "serving", "plans"])
def test_what_can_be_drawn_draws_itself(answers, name):
    assert ElementTree.fromstring(answers[name]._repr_svg_()).tag.endswith("svg")


def test_rows_are_flat_and_keep_the_commands_numbers(answers):
    bench = answers["bench"]
    assert [row["bytes"] for row in bench.rows()] == [1 << 10, 1 << 15, 1 << 20]
    assert [row["time_us"] for row in bench.rows()] == [row["time_us"] for row in bench["rows"]]
    assert sum(row["chosen"] for row in answers["choice"].rows()) == 1
    assert answers["proof"].rows()[0]["proved"] is True


def test_topology_training_and_doctor_give_the_commands_answers(answers, tmp_path):
    assert answers["topology"] == by_command("topo", "--on", "dgx-h100")
    assert answers["training"] == by_command(
        "train", "llama3-8b", "--on", "dgx-h100", "--zero", "3", "--global-batch", "16"
    )
    (tmp_path / "dmesg.txt").write_text("nothing to see\n")
    assert weft.doctor(str(tmp_path)) == by_command("doctor", str(tmp_path))
    assert answers["diagnosis"]["schema"] == "weft.doctor/1" and answers["diagnosis"]["roots"]


def test_a_machine_draws_itself_in_three_ways():
    m = weft.machine("dgx-h100")
    assert m.ranks == 8
    pictures = {m._repr_svg_(), m.topology.svg("heat"), m.topology.svg("stairs")}
    assert len(pictures) == 3 and all(ElementTree.fromstring(p).tag.endswith("svg") for p in pictures)


def test_the_best_plans_are_ranked():
    found = weft.train("llama3-8b", "dgx-h100", global_batch=16, best=True)
    fitting = [row["step_s"] for row in found.rows() if row["fits"]]
    assert len(fitting) > 1 and fitting[0] == min(fitting)


def test_measured_steps_are_compared_with_the_model():
    found = weft.train(compare=str(pathlib.Path(__file__).parents[2] / "data" / "training" / "steps.csv"))
    assert found["schema"] == "weft.train-compare/1" and len(found.rows()) == len(found["rows"]) > 1
    assert "median error" in repr(found) and "predicted_s" in found._repr_html_()


def test_this_machine_is_examined():
    found = weft.doctor()
    assert found["schema"] == "weft.doctor/1" and found["files"] == 0 and repr(found).startswith("<Diagnosis: ")


def test_accuracy_of_a_table_compares_measured_with_predicted(tmp_path):
    table = tmp_path / "mine.csv"
    table.write_text("# one node\nsize_bytes,time_us\n1048576,60\n67108864,450\n")
    found = weft.accuracy(table=str(table), on="dgx-h100")
    rows = found.rows()
    assert [row["bytes"] for row in rows] == [1 << 20, 64 << 20]
    assert rows[0]["error"] == pytest.approx(rows[0]["predicted_us"] / 60 - 1)
    assert ElementTree.fromstring(found.svg(found["tables"][0]["name"])).tag.endswith("svg")


def _what_if(point):
    machine, fault = point
    return machine.bench("all_reduce", "16M", fault=[fault] if fault else []).rows()[0]["time_us"]


def test_what_ifs_map_over_processes_and_threads():
    m = weft.machine("dgx-h100:nodes=2")
    points = [(m, fault) for fault in (None, "nic:0/3=down", "nic:1/0=50%")]
    alone = [_what_if(point) for point in points]
    assert alone[1] > alone[0]
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        assert list(pool.map(_what_if, points)) == alone
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert list(pool.map(_what_if, points)) == alone


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: weft.train("llama3-8b"), "--on MACHINE"),
        (lambda: weft.train("no-such-model", "dgx-h100"), "no-such-model"),
        (lambda: weft.train("llama3-8b", "dgx-h100", tp=3), "3"),
        (lambda: weft.train("llama3-8b", "dgx-h100", colour="red"), "colour"),
        (lambda: weft.doctor("/no/such/folder"), "/no/such/folder"),
        (lambda: weft.doctor(on="dgx-h100"), "--on"),
        (lambda: weft.accuracy("/no/such/folder"), "/no/such/folder"),
        (lambda: weft.schedule("all_reduce", "nonsense"), "nonsense"),
        (lambda: weft.machine("dgx-h100").topology.svg("oil"), "oil"),
        (lambda: weft.Machine("dgx-h1").topology, "dgx-h1"),
        (lambda: weft.sizes(0, 8), "sizes from 0"),
    ],
)
def test_bad_input_is_one_line_that_names_it(call, words):
    with pytest.raises(weft.InvalidArgument, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_serving_answers_are_the_commands(answers):
    assert answers["serving"]["schema"] == "weft.serve/1"
    assert answers["serving"] == by_command(
        "serve", "llama-3.1-8b", "--on", "dgx-h100", "--isl", "512", "--osl", "64", "--concurrency", "4"
    )
    assert answers["plans"].frontier() and not answers["serving"].frontier()
    assert [row["machine"] for row in answers["machines"].rows()] == ["dgx-h100", "hgx-h200"]
    assert answers["fit"] and answers["advice"]
    with pytest.raises(weft.InvalidArgument, match="needs one of --concurrency"):
        weft.serve("llama-3.1-8b", "dgx-h100")
    with pytest.raises(weft.InvalidArgument, match="needs the work"):
        weft.advise("llama-3.1-8b")
