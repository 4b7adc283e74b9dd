// A training step: its lanes, memory and best plans (weft.explorer.train/1, weft.explorer.plans/1).
(() => {
  const { $, make, shape, space, three, table, time } = page;
  const gib = (bytes) => three(bytes / 2 ** 30);
  const fills = { F: "var(--pass-f)", B: "var(--pass-b)", W: "var(--pass-w)" };
  const says = { F: "forward", B: "backward", W: "weight gradients" };
  // One row per stage, all its ranks do the same: passes, gradients on the wire, optimizer; memory beside it.
  const drawLanes = (answer) => {
    const row = answer.report.rows[0], lanes = answer.lanes;
    const left = 70, width = 760, high = 30, bar = 160, gap = 24, top = 22;
    const x = (s) => left + (s / answer.until_s) * width;
    const most = Math.max(row.capacity_bytes, ...row.stage_memory_bytes);
    const svg = document.createElementNS(space, "svg");
    const height = top + lanes.length * (high + 6) + 34;
    svg.setAttribute("viewBox", `0 0 ${left + width + gap + bar + 60} ${height}`);
    svg.setAttribute("width", left + width + gap + bar + 60);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", answer.lanes_said);
    shape(svg, "text", { x: left, y: 12, fill: "var(--ink-2)" }, "time within the step");
    shape(svg, "text", { x: left + width + gap, y: 12, fill: "var(--ink-2)" }, "memory, GiB");
    lanes.forEach((lane, stage) => {
      const y = top + stage * (high + 6);
      shape(svg, "text", { x: left - 8, y: y + 19, "text-anchor": "end", fill: "var(--ink-2)" }, lanes.length > 1 ? `stage ${stage}` : "all ranks");
      shape(svg, "rect", { x: left, y, width, height: high, fill: "none", stroke: "var(--edge)" });
      for (const p of lane.passes) {
        const wide = x(p.s[1]) - x(p.s[0]);
        const box = shape(svg, "rect", { x: x(p.s[0]), y: y + 1, width: Math.max(wide, 0.3), height: high - 2, fill: fills[p.pass], stroke: "var(--paper)", "stroke-width": wide > 3 ? 0.6 : 0 });
        shape(box, "title", {}, `${says[p.pass]} of micro-batch ${p.micro_batch}, chunk ${p.chunk}: ${time(p.s[0])} to ${time(p.s[1])}`);
        if (wide > 14) shape(svg, "text", { x: x(p.s[0]) + wide / 2, y: y + 19, "text-anchor": "middle", fill: "var(--pass-ink)" }, p.micro_batch);
      }
      if (lane.gradients[1] > lane.gradients[0]) {
        const box = shape(svg, "rect", { x: x(lane.gradients[0]), y: y + high - 8, width: Math.max(x(lane.gradients[1]) - x(lane.gradients[0]), 1), height: 7, fill: "var(--you)", stroke: "var(--ink)", "stroke-width": 0.8 });
        shape(box, "title", {}, `gradients on the wire: ${time(lane.gradients[0])} to ${time(lane.gradients[1])}`);
      }
      if (lane.optimizer[1] > lane.optimizer[0]) {
        const box = shape(svg, "rect", { x: x(lane.optimizer[0]), y: y + 1, width: Math.max(x(lane.optimizer[1]) - x(lane.optimizer[0]), 1), height: high - 2, fill: "var(--ink-3)" });
        shape(box, "title", {}, `optimizer: ${time(lane.optimizer[0])} to ${time(lane.optimizer[1])}`);
      }
      const bytes = row.stage_memory_bytes[stage] ?? row.stage_memory_bytes[0];
      const over = bytes > row.capacity_bytes;
      shape(svg, "rect", { x: left + width + gap, y: y + 6, width: (bytes / most) * bar, height: high - 12, fill: over ? "var(--fault)" : "var(--model)" });
      shape(svg, "text", { x: left + width + gap + bar + 6, y: y + 19, fill: over ? "var(--fault)" : "var(--ink-2)" }, gib(bytes));
    });
    const limit = left + width + gap + (row.capacity_bytes / most) * bar;
    shape(svg, "line", { x1: limit, x2: limit, y1: top - 4, y2: height - 30, stroke: "var(--fault)", "stroke-dasharray": "4 3" });
    shape(svg, "text", { x: limit, y: height - 16, "text-anchor": "end", fill: "var(--fault)" }, `${gib(row.capacity_bytes)} GiB are there`);
    for (let i = 0; i <= 4; ++i)
      shape(svg, "text", { x: left + (i / 4) * width, y: height - 16, "text-anchor": i === 0 ? "start" : i === 4 ? "end" : "middle", fill: "var(--ink-3)" }, time((i / 4) * answer.until_s));
    $("t-lanes").replaceChildren(svg);
    $("t-export").hidden = false;
    $("t-left-out").textContent = answer.left_out;
  };
  // The time that the keys have chosen, and what every stage does then.
  let line = null;
  const showNow = (now) => {
    const svg = $("t-lanes").querySelector("svg"), answer = plan.answer();
    if (!svg || !answer) return;
    const at = 70 + (now / answer.until_s) * 760;
    if (!line?.isConnected) line = shape(svg, "line", { y1: 16, y2: 22 + answer.lanes.length * 36, stroke: "var(--ink)", "stroke-width": 1.6 });
    line.setAttribute("x1", at);
    line.setAttribute("x2", at);
    const does = answer.lanes.map((lane, stage) => {
      const p = lane.passes.find((q) => q.s[0] <= now && now < q.s[1]), wire = lane.gradients[0] <= now && now < lane.gradients[1] ? ", gradients on the wire" : "";
      const what = p ? `${says[p.pass]} of micro-batch ${p.micro_batch}` : lane.optimizer[0] <= now && now < lane.optimizer[1] ? "optimizer" : "waits";
      return `${answer.lanes.length > 1 ? `stage ${stage}` : "all ranks"}: ${what}${wire}`;
    });
    $("t-now").textContent = `${time(now)} of ${time(answer.until_s)}. ${does.slice(0, 8).join("; ")}.`;
  };
  const events = () => [...new Set(plan.answer()?.lanes.flatMap((l) => [...l.passes.flatMap((p) => p.s), ...l.gradients, ...l.optimizer]) ?? [])].sort((a, b) => a - b);
  page.clockOf("training", () => plan.answer()?.until_s ?? 0, events, showNow);
  const drawTables = (answer) => {
    const row = answer.report.rows[0];
    table($("t-parts"), [["Part of the step"], ["Time", 1], ["Of the step", 1]],
      Object.entries(row.parts_s).filter(([, s]) => s > 0).map(([name, s]) => [name.replaceAll("_", " "), time(s), `${three((100 * s) / row.step_s)} %`]));
    table($("t-memory"), [["Memory of the fullest stage"], ["GiB", 1]], Object.entries(row.memory_bytes).map(([name, b]) => [name, gib(b)]));
  };
  const sayBucket = () => { $("t-bucket-said").textContent = Number($("t-bucket").value) ? `${$("t-bucket").value} MiB` : "the framework's"; };
  const plan = page.planView({
    view: "training", prefix: "t", kind: "train",
    texts: ["model", "on", "recompute", "schedule", "precision"],
    numbers: ["tp", "pp", "vp", "ep", "cp", "zero", "micro_batch", "global_batch", "seq", "bucket", "overlap", "tokens", "price"],
    good: (answer) => answer.report.rows[0].fits,
    toForm: (w) => ({ ...w, tokens: w.tokens >= 1e6 ? w.tokens.toExponential().replace("+", "") : w.tokens }),
    draw: (answer, keep) => {
      $("t-seq").placeholder = answer.seq;
      if (!keep) { $("t-plans-answer").textContent = ""; $("t-plans").replaceChildren(); }
      sayBucket();
      drawLanes(answer);
      drawTables(answer);
    },
  });
  const best = async () => {
    $("t-plans-answer").textContent = "Trying every plan …";
    const got = await plan.askCore({ ask: "plans", ...plan.ofForm() });
    if (!got) { $("t-plans-answer").textContent = ""; return; }
    if (got.schema !== "weft.explorer.plans/1") { $("t-plans-answer").textContent = got.message; return; }
    $("t-plans-answer").textContent = got.answer;
    table($("t-plans"), [["Plan"], ["Step", 1], ["MFU, % of the card's peak", 1], ["GiB", 1], ["Why it lost"], ["Its step"]],
      got.rows.map((r) => {
        const use = make("button", "Show");
        use.setAttribute("aria-label", `Show the step of ${r.plan}`);
        use.addEventListener("click", () => plan.ask({ ...r.words, tokens: plan.answer().words.tokens, price: plan.answer().words.price }, true, true));
        return [r.plan, time(r.step_s), three(100 * r.mfu), gib(r.memory_bytes), r.reason || "the best", use];
      }), got.rows.map((r) => (r.reason ? "" : "chosen")));
  };
  page.pictures.training = () => $("t-lanes").querySelector("svg");
  page.hooks.model.push((name) => {
    $("t-model").append(new Option(name, name));
    plan.ask({ ...plan.ofForm(), model: name }, false);
  });
  $("t-bucket").addEventListener("input", sayBucket);
  $("t-best").addEventListener("click", best);
})();
