// The tour's eight steps: text, question, the words that the core is asked, and what of its answer is wanted; after the
// answer a table of facts, and the same call on several machines. web/test/tour.mjs asks all of it beforehand.
const tourSteps = (() => {
  const path = (from, to) => (d) => d.machine.paths.find((p) => p.from === from && p.to === to)?.GBps;
  const words = (more) => ({ collective: "all_reduce", bytes: "64M", dtype: "float", ranks: -1, algo: "", proto: "", root: 0, faults: [], ...more });
  // Times of one call on several machines: [name, words].
  const times = (title, list) => ({ title, list: list.map(([name, on, bytes]) => [name, words({ on, bytes })]) });
  const steps = [
    { name: "Why GPUs talk", title: "GPUs talk because a model's gradients are one sum",
      text: "Each GPU has seen other data, so each has other gradients. Before the next step all need the sum of them all: an all_reduce. Here four cards hand chunks around a ring; every chunk gains a colour at each GPU that adds its part.",
      view: "stepper", plays: true, words: words({ on: "pcie-4x3090", bytes: "1M", algo: "ring", proto: "Simple" }), guess: "How long do four cards in one PC need for 1 MiB?", unit: "us", low: 1, high: 10000, pick: (d) => d.time_us,
      keep: "In a ring every GPU sends 2 (n - 1) / n of the message, however many GPUs there are.", torch: "dist.all_reduce(bucket)            # what DDP calls 25 MiB at a time",
      facts: { head: ["Plan", "calls", "of", "how often"], rows: [["data (DDP)", "all_reduce", "gradients", "once a step"], ["data (ZeRO, FSDP)", "all_gather, reduce_scatter", "parameters, gradients", "every layer"], ["tensor", "all_reduce", "activations", "four times a layer"], ["pipeline", "send, receive", "activations between stages", "every micro-batch"], ["experts", "all_to_all", "tokens", "four times a layer"]] } },
    { name: "PCIe", title: "PCIe is the road that every machine has",
      text: "A card hangs at 16 lanes. What goes from one to the other passes the CPU's root complex, and the CPU's own traffic shares it.",
      view: "machine", words: words({ on: "pcie-2x4090" }), say: (d) => d.machine.paths.find((p) => p.from === "gpu0" && p.to === "gpu1")?.said, guess: "How many GB/s are there between the two cards, each way?", unit: "GB/s", low: 1, high: 10000, pick: path("gpu0", "gpu1"), families: ["PCIe"],
      keep: "PCIe doubles with each generation and stays the slowest way between GPUs of one machine.", torch: "x.to('cuda:1')                     # a copy from card to card",
      compare: [times("64 MiB, summed over all GPUs of one machine", [["2 RTX 4090, PCIe 4", "pcie-2x4090", "64M"], ["4 RTX 3090, PCIe 4, NVLink in pairs", "pcie-4x3090", "64M"], ["8 H100, NVSwitch", "dgx-h100", "64M"]])] },
    { name: "NVLink", title: "NVLink is a road of their own",
      text: "NVLinks join GPUs directly. The V100s of a DGX-1 have six each, so some pairs have two, some one, and some none: rings are laid along the links that exist.",
      view: "machine", words: words({ on: "dgx1-v100" }), say: (d) => d.machine.paths.reduce((best, p) => (p.GBps > best.GBps ? p : best)).said, guess: "How many GB/s has the pair with two links, each way?", unit: "GB/s", low: 1, high: 1000, pick: (d) => Math.max(...d.machine.paths.map((p) => p.GBps)), families: ["NVLink"],
      keep: "Vendors add both directions of a link; what one message gets is half of that.", torch: "torch.cuda.can_device_access_peer(0, 1)" },
    { name: "NVSwitch", title: "NVSwitch joins every GPU with every other at full rate",
      text: "Eight H100s hang at four switches. No pair is far, and the switches can add: one store reaches all, one load brings the sum.",
      view: "stepper", words: words({ on: "dgx-h100" }), guess: "How long do eight H100s need for 64 MiB?", unit: "us", low: 10, high: 10000, pick: (d) => d.time_us,
      keep: "Behind a switch there are no near and far GPUs, and the sum can be made on the way.", torch: "dist.init_process_group('nccl'); dist.all_reduce(x)",
      compare: [times("64 MiB, summed over all GPUs of one NVLink domain", [["8 A100", "dgx-a100", "64M"], ["8 H100", "dgx-h100", "64M"], ["8 B200", "hgx-b200", "64M"], ["72 GB200, one rack", "gb200-nvl72", "64M"]])] },
    { name: "InfiniBand", title: "InfiniBand leaves the box, at a ninth of the rate",
      text: "Each GPU has a network card of 400 Gbit/s. A second node doubles the GPUs, but what crosses between the nodes goes through the cards.",
      view: "machine", tool: "In a shell", words: words({ on: "dgx-h100:nodes=2,net=ib-ndr", bytes: "1G" }), guess: "And how long do two nodes need for 1 GiB?", unit: "ms", low: 0.5, high: 100, pick: (d) => d.time_us / 1e3, families: ["InfiniBand"],
      keep: "A network is named in bits: 400 Gbit/s are 50 GB/s.", torch: "torchrun --nnodes 2 --nproc-per-node 8 train.py" },
    { name: "RoCE", title: "RoCE carries the same over Ethernet",
      text: "Same cards, other cables: lossless Ethernet needs pauses and congestion control, and one message needs longer to get going. Large messages hardly notice, small ones do.",
      view: "curves", words: words({ on: "dgx-h100:nodes=2,net=roce-400", bytes: "64K" }), guess: "How long for 64 KiB on two nodes?", unit: "us", low: 5, high: 1000, pick: (d) => d.time_us, families: ["RoCE"],
      keep: "Small messages pay latency, large ones pay bandwidth.", tool: "In a shell", torch: "NCCL_IB_GID_INDEX=3 torchrun ...   # what RoCE needs",
      facts: { head: ["What differs", "InfiniBand", "RoCE v2"], rows: [["carried in", "packets of its own", "UDP over IP over Ethernet"], ["no packet is lost because", "a sender has credits for its receiver's buffer", "switches pause senders (PFC)"], ["congestion", "adaptive routing, marks", "marks (ECN), DCQCN"], ["switches", "of one maker", "of several"]] },
      compare: [times("64 KiB, summed over 16 H100", [["InfiniBand NDR", "dgx-h100:nodes=2,net=ib-ndr", "64K"], ["RoCE, 400 Gbit/s", "dgx-h100:nodes=2,net=roce-400", "64K"]]), times("1 GiB, summed over 16 H100", [["InfiniBand NDR", "dgx-h100:nodes=2,net=ib-ndr", "1G"], ["RoCE, 400 Gbit/s", "dgx-h100:nodes=2,net=roce-400", "1G"]])] },
    { name: "The hierarchy", title: "Every step away from the chip, the road narrows",
      text: "Memory inside a GPU, NVLink to its neighbours, PCIe to the host, a network card to the next machine: each is drawn as wide as it is fast. So gradients are summed inside a node first, and only one part in eight leaves it.",
      view: "cliff", say: (d) => { const { steps: all } = d.machine, nic = all.find((x) => x.name === "NICs"); return `${all[0].name}: ${all[0].of_GiB}; network card: ${nic.of_GiB}.`; }, words: words({ on: "dgx-h100:nodes=4,net=ib-ndr", bytes: "256M" }), guess: "The bar is the memory of one H100. How many GB/s has its network card?", unit: "GB/s", low: 1, high: 10000, pick: (d) => d.machine.steps.find((s) => s.name === "NICs")?.GBps,
      keep: "Data falls down the cliff once: sum inside, cross the network with the result, share inside.", torch: "init_device_mesh('cuda', (4, 8))   # hybrid sharding names the same hierarchy",
      facts: { head: ["Level", "what a plan keeps there"], rows: [["GPU memory", "one layer's weights and activations"], ["NVLink", "tensor and expert parallelism: several calls a layer"], ["PCIe", "loading data, offloaded optimizer states"], ["network", "data and pipeline parallelism: few, large calls"]] } },
    { name: "What it costs", title: "What the wiring costs, and what a broken part does",
      text: "One of sixteen cards is dead. Its GPU's share must take the other cards, and everybody waits for the slowest. Click any other link to break it, too.",
      view: "machine", tool: "In a shell", words: words({ on: "dgx-h100:nodes=2,net=ib-ndr", bytes: "1G", faults: ["nic:0/3=down"] }), guess: "How many times as long does the all_reduce take?", unit: "x", low: 1, high: 10, pick: (d) => d.slowdown,
      keep: "A job is as fast as its slowest part, and every GPU pays for the wait.", torch: "weft doctor nccl.log               # finds the card, and says what it costs",
      compare: [times("The same line on five machines: 1 GiB, summed over all", [["8 H100, one NVSwitch", "dgx-h100", "1G"], ["16 H100, InfiniBand NDR", "dgx-h100:nodes=2,net=ib-ndr", "1G"], ["16 H100, 100 Gbit/s RoCE", "dgx-h100:nodes=2,net=roce-100", "1G"], ["8 A100, NVSwitch", "dgx-a100", "1G"], ["2 RTX 4090, PCIe 4", "pcie-2x4090", "1G"]])] },
  ];
  return { steps };
})();
