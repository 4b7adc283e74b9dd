"""What stands in the braces of table.md: every value from the answers (--json) of the commands that its row shows."""
import re
import statistics

GB, GIB = 1e9, 2**30


def row(weft, words, size="", *more):
    """A row of weft.bench/3; `size` is both --min and --max."""
    limits = ("--min", size, "--max", size) if size else ()
    return weft.json("bench", *words.split(), *limits, *more)["rows"][0]


def us(weft, words, size):
    return row(weft, words, size)["time_us"]


def beyond_launch(weft, words, size):
    found = row(weft, words, size, "--verbose")
    return found["time_us"] - sum(s["time_us"] for s in found["critical_path"]["spent"] if s["cause"] == "launch")


def path(weft, on, a, b):
    """(GB/s, us) of a path, from the line "a to b: NVL, 900 GB/s, 400 ns in 2 hops"."""
    text = weft.text("topo", "--on", on, "--path", a, b)
    rate, time, unit = re.search(r", ([\d.]+) GB/s, ([\d.]+) (ns|us) in", text).groups()
    return float(rate), float(time) * (1e-3 if unit == "ns" else 1)


def step(weft, words):
    """(row of weft.train/1, share of the step by part)"""
    found = weft.json("train", *words.split())["rows"][0]
    return found, {part: seconds / found["step_s"] for part, seconds in found["parts_s"].items()}


def computing(weft, words):
    parts = step(weft, words)[1]
    return parts["gemm"] + parts["attention"] + parts["memory_bound"]


def uses(weft, words):
    return weft.json("explain", "access", *words.split())


def links(weft):
    nvlink5, pcie5 = path(weft, "hgx-b200", "gpu0", "gpu1")[0], path(weft, "dgx-h100", "gpu0", "nic0")[0]
    nvlink4 = path(weft, "dgx-h100", "gpu0", "gpu1")[0]
    wire = path(weft, "dgx-h100:nodes=2,net=eth-100", "node0/gpu0", "node1/gpu0")[0]
    whole = us(weft, "send_recv --on dgx-h100:nodes=2,net=eth-100", "1000000000")
    return {"gigabyte_nvlink5_ms": 1e3 / nvlink5, "gigabyte_pcie5_ms": 1e3 / pcie5, "gigabyte_eth_ms": 1e3 / wire,
            "gigabyte_eth_whole_ms": whole / 1e3, "gradients_pcie5_s": 280 / pcie5, "gradients_nvlink4_s": 280 / nvlink4,
            "gradients_nvlink5_s": 280 / nvlink5, "bisection_h100_tb": 2 * 4 * nvlink4 / 1e3,
            "nvl72_tb": 2 * 72 * path(weft, "gb200-nvl72", "gpu0", "gpu1")[0] / 1e3,
            "bisection_cube_tb": 4 * path(weft, "hypercube-8", "gpu0", "gpu1")[0] / 1e3}


def all_to_alls(weft):
    def together(on, ranks):
        return row(weft, f"all_to_all --on {on}", "1G")["busbw_GBps"] * ranks / 1e3
    all_to_all, once = row(weft, "all_to_all --on dgx-h100", "1G"), uses(weft, "--bytes 1G --on dgx-h100")
    return {"all_to_all_h100_tb": together("dgx-h100", 8), "all_to_all_nvl72_tb": together("gb200-nvl72", 72),
            "all_to_all_cube_tb": together("hypercube-8", 8),
            "pairwise": all_to_all["time_us"] / us(weft, "all_to_all --on dgx-h100 --algo pairwise", "1G"),
            "pointer": once["get_us"] / once["pointer_us"],
            "pointer_transposed": (once["copy_us"] + 2 * once["use_of_copy_us"]) / once["pointer_us"]}


def latencies(weft):
    loads = {(x["endpoint"], x["path"]): x["load_ns"] for x in weft.data("data/protocol/access_costs.json")["loads"]}
    cube = [1e3 * path(weft, "hypercube-8", "gpu0", f"gpu{n}")[1] for n in (1, 3, 7)]
    ib, roce = (path(weft, f"dgx-h100:nodes=2,net={net}", "node0/gpu0", "node1/gpu0")[1] for net in ("ib-ndr", "roce-400"))
    message = {net: us(weft, f"send_recv --on dgx-h100:nodes=2,net={net} --proto Simple --channels 1", "8")
               for net in ("roce-400", "eth-100")}
    tcp, rdma = (beyond_launch(weft, f"send_recv --on dgx-h100:nodes=2,net={net} --proto Simple --channels 1", "8")
                 for net in ("eth-100", "roce-400"))
    return {"load_remote_ns": loads["gpu", "NVL"], "load_local_ns": loads["gpu", "LOC"], "hop1_ns": cube[0],
            "hop2_ns": cube[1], "hop3_ns": cube[2], "switch_ns": 1e3 * path(weft, "dgx-h100", "gpu0", "gpu1")[1],
            "wire_ib_us": ib, "wire_roce_us": roce, "roce_below_percent": 100 * (1 - roce / 2), "tcp_us": tcp,
            "rdma_call_us": message["roce-400"], "tcp_call_us": message["eth-100"],
            "call_ratio": message["eth-100"] / message["roce-400"], "launched_ratio": tcp / rdma, "wire_ratio": tcp / roce}


def protocols(weft):
    two = "send_recv --on dgx-h100 --ranks 2 --proto {} --channels {}"
    values = {}
    for proto in ("Simple", "LL", "LL128"):
        values[f"small_{proto}"] = beyond_launch(weft, two.format(proto, 1), "4K")
        values[f"large_{proto}_ms"] = beyond_launch(weft, two.format(proto, 32), "1000000000") / 1e3
        for size in ("16K", "1M", "1G"):
            values[f"gh200_{proto}_{size}"] = us(
                weft, f"all_reduce --on gh200:nodes=16,net=slingshot-200 --proto {proto}", size)
        values[f"gh200_{proto}_1G_ms"] = values[f"gh200_{proto}_1G"] / 1e3
    return {**values, "hundred_fences": 100 * values["small_Simple"], "hundred_polls": 100 * values["small_LL"],
            "large_LL_ratio": values["large_LL_ms"] / values["large_Simple_ms"],
            "large_LL128_ratio": values["large_LL128_ms"] / values["large_Simple_ms"],
            "gh200_LL_ratio": values["gh200_LL_1G"] / values["gh200_Simple_1G"]}


def experts(weft):
    values = {}
    for name, words in {"pairwise": "--proto Simple --algo pairwise", "grouped": "--proto Simple --algo grouped",
                        "direct": "--proto Direct"}.items():
        for size in ("8M", "64K"):
            values[f"moe_{name}_{size}"] = us(weft, f"all_to_all --on dgx-h100 {words}", size)
    return {**values, "moe_pairwise_ratio": values["moe_pairwise_64K"] / values["moe_direct_64K"],
            "moe_grouped_ratio": values["moe_grouped_64K"] / values["moe_direct_64K"]}


def one_sided(weft):
    found = uses(weft, "--bytes 1G --reuse 2 --on dgx-h100")
    return {"get_from_uses": found["get_from_uses"]}


def networks(weft):
    def best(nodes, net, size):
        return us(weft, f"all_reduce --on dgx-h100:nodes={nodes},net={net}", size)
    values = {f"sharp_{nodes}_{size}": best(nodes, "ib-ndr", size) / best(nodes, "ib-ndr,sharp=on", size)
              for nodes, size in ((2, "1M"), (4, "1M"), (32, "1M"), (32, "16M"))}
    ring = "all_reduce --on dgx-h100:nodes=2,net=ib-ndr --algo ring --proto Simple --channels {}"
    values["channels_percent"] = 100 * us(weft, ring.format(32), "16M") / us(weft, ring.format(64), "16M")
    rings = {net: row(weft, f"all_reduce --on dgx-a100:nodes=2,net={net} --algo ring --proto Simple", "1G")
             for net in ("roce-200", "ib-hdr")}
    small = {net: us(weft, f"all_reduce --on dgx-a100:nodes=2,net={net}", "8") for net in ("roce-200", "ib-hdr")}
    whole, cut = (row(weft, f"all_reduce --on dgx-h100{words}", "1G")["time_us"] for words in ("", " --fault nvswitch:0=down"))
    switched, healthy = (us(weft, f"all_reduce --on dgx-h100 --algo ring{words}", "1G")
                         for words in (" --fault nvswitch:0=down", ""))
    return {**values, "roce_percent": 100 * rings["ib-hdr"]["time_us"] / rings["roce-200"]["time_us"],
            "roce_gb": rings["roce-200"]["busbw_GBps"], "roce_apart_us": small["roce-200"] - small["ib-hdr"],
            "nvlink_pcie": cut / whole, "nvlink_pcie_rings": switched / healthy}


def scale(weft):
    """Of 24,576 ranks: their simulation takes minutes, so the estimates of a table with both."""
    found = {algo: weft.json("explain", "all_reduce", "--bytes", "8", "--algo", algo, "--on",
                             "dgx1-v100:nodes=3072,net=ib-edr")["candidates"] for algo in ("ring", "tree")}
    least = {algo: min(c["predicted_us"] for c in candidates) for algo, candidates in found.items()}
    return {"trees": least["ring"] / least["tree"]}


def overlaps(weft):
    faster = []
    for model in ("llama2-7b", "llama3-8b"):
        for on in ("dgx1-v100:nodes=4,net=ib-edr", "dgx-a100:nodes=4", "dgx-h100:nodes=4,net=ib-ndr"):
            for micro in (1, 4):
                words = f"{model} --on {on} --zero 0 --seq 2048 --micro-batch {micro} --global-batch {32 * micro}"
                faster.append(step(weft, words + " --overlap 0")[0]["step_s"] / step(weft, words)[0]["step_s"])
    return {"overlap_least": min(faster), "overlap_most": max(faster), "overlap_median": statistics.median(faster)}


def training(weft):
    words = "llama3-70b --on {} --tp 8 --global-batch 8"
    cut = words.format("dgx-h100") + " --fault nvswitch:0=down"
    data = {net: 100 * step(weft, f"llama3-8b --on dgx-h100:nodes=4,net={net} --zero 0 --overlap 0 --micro-batch 4 "
                                  "--global-batch 128")[1]["data_exposed"] for net in ("ib-ndr", "eth-100", "roce-400")}
    return {"computing_nvlink4": 100 * computing(weft, words.format("dgx-h100")), "computing_pcie5": 100 * computing(weft, cut),
            "tensor_pcie5": 100 * step(weft, cut)[1]["tensor_exposed"],
            "tensor_nvlink4": 100 * step(weft, words.format("dgx-h100"))[1]["tensor_exposed"],
            "tensor_nvlink5": 100 * step(weft, words.format("hgx-b200"))[1]["tensor_exposed"],
            "data_ib": data["ib-ndr"], "data_eth": data["eth-100"], "data_roce": data["roce-400"]}


def caches(weft):
    """N15's arithmetic: 70.6 G weights of a byte, computed at half of the fp8 peak; the first token reads them once."""
    parts = {p["name"]: p["figures"] for p in weft.json("catalog")["parts"]}
    weights, cache = 70.6e9, 4096 * 2.0 * 80 * 8 * 128 * 2

    def first(gpu):
        return weights / (parts[gpu]["memory_rate"]["value"] * 1e9)

    def reloaded(on, gpu):
        return cache / (path(weft, on, "memory0", "gpu0")[0] * 1e9) + first(gpu)
    recomputed = 4096 * 2 * weights / (0.5 * parts["H100-SXM5"]["fp8"]["value"] * 1e12) + first("H100-SXM5")

    def fetched(words):
        return weft.json("kv", "fetch", "llama2-70b", "--from", "dram", *words.split())["rows"]

    def served(on):
        """(ms computed, ms read from host memory) of the prompt"""
        text = weft.text("serve", "llama-3.1-70b", "--on", on, *"--tp 1 --precision fp8 --isl 4096 --concurrency 1 "
                         "--tier dram:200G".split())
        return map(float, re.search(r"is computed in ([\d.]+) ms and read from dram in ([\d.]+) ms", text).groups())
    measured = {r["tokens"]: r["recompute_us"] / r["fetch_us"]
                for r in fetched("--on dgx-h100 --tp 8 --prefill llama2-70b/H100-SXM5/tp8")}
    alone = {on: fetched(f"--on {on} --tp 1")[0]["fetch_us"] for on in ("dgx-h100", "gh200")}
    computed, read = served("hgx-h200")
    read_gh200 = list(served("gh200"))[1]
    return {"fetch_1024": measured[1024], "fetch_8192": measured[8192], "fetch_gh200": alone["dgx-h100"] / alone["gh200"],
            "serve_computed_ms": computed, "serve_read_ms": read, "serve_ratio": computed / read,
            "serve_gh200_ms": read_gh200, "serve_gh200_ratio": read / read_gh200,
            "reload": recomputed / reloaded("dgx-h100", "H100-SXM5"),
            "reload_gh200": reloaded("dgx-h100", "H100-SXM5") / reloaded("gh200", "GH200")}


# By what they ask; `scale` takes minutes and is left out where the page is only compared.
ALL = [links, all_to_alls, latencies, protocols, experts, one_sided, networks, overlaps, training, caches, scale]
SLOW = [scale]
