// Eight steps, each a question, a guess, and an answer that the core computes on a machine; below stands the live view.
(() => {
  const { $, three } = page;
  const path = (from, to) => (d) => d.machine.paths.find((p) => p.from === from && p.to === to)?.GBps;
  const words = (more) => ({ collective: "all_reduce", bytes: "64M", dtype: "float", ranks: -1, algo: "", proto: "", root: 0, faults: [], ...more });
  const steps = [
    { title: "GPUs talk because a model's gradients are one sum",
      text: "Each GPU has seen other data, so each has other gradients. Before the next step all need the sum of them all: an all_reduce. Below, two cards without any link of their own exchange 64 MiB.",
      view: "stepper", words: words({ on: "pcie-2x4090" }), guess: "How long do two cards in one PC need for it?", unit: "ms", low: 0.1, high: 1000, pick: (d) => d.time_us / 1e3,
      torch: "dist.all_reduce(bucket)            # what DDP calls 25 MiB at a time" },
    { title: "PCIe is the road that every machine has",
      text: "A card hangs at 16 lanes. What goes from one to the other passes the CPU's root complex, and the CPU's own traffic shares it.",
      view: "machine", words: words({ on: "pcie-2x4090" }), guess: "How many GB/s are there between the two cards, each way?", unit: "GB/s", low: 1, high: 1000, pick: path("gpu0", "gpu1"),
      torch: "x.to('cuda:1')                     # a copy from card to card" },
    { title: "NVLink is a road of their own",
      text: "NVLinks join GPUs directly. The V100s of a DGX-1 have six each, so some pairs have two, some one, and some none: rings are laid along the links that exist.",
      view: "machine", words: words({ on: "dgx1-v100" }), guess: "How many GB/s has the pair with two links, each way?", unit: "GB/s", low: 1, high: 1000, pick: (d) => Math.max(...d.machine.paths.map((p) => p.GBps)),
      torch: "torch.cuda.can_device_access_peer(0, 1)" },
    { title: "NVSwitch joins every GPU with every other at full rate",
      text: "Eight H100s hang at four switches. No pair is far, and the switches can add: one store reaches all, one load brings the sum.",
      view: "stepper", words: words({ on: "dgx-h100" }), guess: "How long do eight H100s need for 64 MiB?", unit: "us", low: 10, high: 10000, pick: (d) => d.time_us,
      torch: "dist.init_process_group('nccl'); dist.all_reduce(x)" },
    { title: "InfiniBand leaves the box, at a ninth of the rate",
      text: "Each GPU has a network card of 400 Gbit/s. A second node doubles the GPUs, but what crosses between the nodes goes through the cards.",
      view: "machine", words: words({ on: "dgx-h100:nodes=2,net=ib-ndr", bytes: "1G" }), guess: "And how long do two nodes need for 1 GiB?", unit: "ms", low: 0.5, high: 100, pick: (d) => d.time_us / 1e3,
      torch: "torchrun --nnodes 2 --nproc-per-node 8 train.py" },
    { title: "RoCE carries the same over Ethernet",
      text: "Same cards, other cables: lossless Ethernet needs pauses and congestion control, and one message needs longer to get going. Large messages hardly notice, small ones do.",
      view: "curves", words: words({ on: "dgx-h100:nodes=2,net=roce-400", bytes: "64K" }), guess: "How long for 64 KiB on two nodes?", unit: "us", low: 5, high: 1000, pick: (d) => d.time_us,
      torch: "NCCL_IB_GID_INDEX=3 torchrun ...   # what RoCE needs" },
    { title: "A hierarchy sums inside first",
      text: "Only one part in eight has to leave a GPU's node if the node sums first: reduce_scatter inside, all_reduce across, all_gather inside. The lines below are the candidates; the thick one was chosen.",
      view: "curves", words: words({ on: "dgx-h100:nodes=4,net=ib-ndr", bytes: "256M" }), guess: "What bus bandwidth do four nodes reach at 256 MiB?", unit: "GB/s", low: 10, high: 1000, pick: (d) => d.busbw_GBps,
      torch: "init_device_mesh('cuda', (4, 8))   # hybrid sharding names the same hierarchy" },
    { title: "What a broken part costs",
      text: "One of sixteen cards is dead. Its GPU's share must take the other cards, and everybody waits for the slowest. Click any other link to break it, too.",
      view: "machine", words: words({ on: "dgx-h100:nodes=2,net=ib-ndr", bytes: "1G", faults: ["nic:0/3=down"] }), guess: "How many times as long does the all_reduce take?", unit: "x", low: 1, high: 10, pick: (d) => d.slowdown,
      torch: "weft doctor nccl.log               # finds the card, and says what it costs" },
  ];
  let at = -1, ready = false, computed = null, waiting = false;
  const value = () => { const s = steps[at]; return s.low * (s.high / s.low) ** (Number($("tour-guess").value) / 1000); };
  const drawGuess = () => { $("tour-said").textContent = `${three(value())} ${steps[at].unit}`; };
  page.hooks.link.push((all) => { if (at >= 0) all.set("tour", at + 1); });
  page.hooks.draw.push((data) => { computed = data; });
  const open = async (step) => {
    at = step;
    const s = steps[at], mine = at;
    $("tour").hidden = false;
    $("tour-step").textContent = `${at + 1} of ${steps.length}`;
    $("tour-title").textContent = s.title;
    $("tour-text").textContent = s.text;
    $("tour-question").textContent = s.guess;
    $("tour-torch").textContent = s.torch;
    $("tour-result").textContent = "";
    $("tour-guess").value = 500;
    $("tour-back").disabled = at === 0;
    $("tour-next").textContent = at + 1 === steps.length ? "End" : "Next";
    drawGuess();
    page.show(s.view, false);
    waiting = true;
    await page.question(s.words, true);
    if (mine === at) waiting = false;
  };
  const close = () => { at = -1; $("tour").hidden = true; page.remember(true); };
  const see = () => {
    if (waiting || at < 0) return;
    const found = steps[at].pick(computed);
    $("tour-result").textContent = Number.isFinite(found)
      ? `You said ${three(value())} ${steps[at].unit}, weft says ${three(found)}. ${computed.answer}` : computed.answer;
  };
  $("tour-open").addEventListener("click", () => { if (ready) open(Math.max(at, 0)); else { $("tour").hidden = false; $("tour-title").textContent = "The tour needs weft's core in the page: make web"; } });
  $("tour-next").addEventListener("click", () => (at + 1 < steps.length ? open(at + 1) : close()));
  $("tour-back").addEventListener("click", () => open(at - 1));
  $("tour-close").addEventListener("click", close);
  $("tour-see").addEventListener("click", see);
  $("tour-guess").addEventListener("input", drawGuess);
  page.hooks.core.push(() => {
    ready = true;
    const given = Number(new URLSearchParams(location.hash.slice(1)).get("tour"));
    if (Number.isInteger(given) && given >= 1 && given <= steps.length) open(given - 1);
  });
  page.start();
})();
