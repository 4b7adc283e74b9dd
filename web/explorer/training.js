// A training step: its lanes, memory and best plans (weft.explorer.train/1, weft.explorer.plans/1).
(() => {
  const { $, make, shape, space, three, table, fillSelect } = page;
  const numbers = ["tp", "pp", "vp", "ep", "cp", "zero", "micro_batch", "global_batch", "seq", "bucket", "overlap"];
  const texts = ["model", "on", "recompute", "schedule", "precision"];
  let answer = null, ready = false, asked = 0;
  // Words that the link brought, until the core has answered them.
  let words = null;
  const fromLink = () => {
    const all = new URLSearchParams(location.hash.slice(1)), found = {};
    for (const key of [...texts, ...numbers])
      if (all.has(`t.${key}`)) found[key] = numbers.includes(key) ? Number(all.get(`t.${key}`)) : all.get(`t.${key}`);
    if (all.has("t.fault")) found.faults = all.getAll("t.fault");
    return found;
  };
  page.hooks.link.push((all) => {
    if (!answer) return;
    for (const key of [...texts, ...numbers]) all.set(`t.${key}`, answer.words[key]);
    for (const fault of answer.words.faults) all.append("t.fault", fault);
  });
  const say = (text, wrong) => {
    $("t-answer").textContent = text;
    $("t-answer").classList.toggle("wrong", Boolean(wrong));
  };
  const ofForm = () => Object.fromEntries([
    ...texts.map((key) => [key, $(`t-${key}`).value.trim()]),
    ...numbers.filter((key) => $(`t-${key}`).value !== "").map((key) => [key, Number($(`t-${key}`).value)]),
    ["faults", $("t-faults").value.split(/[\s,]+/).filter(Boolean)]]);
  const sayBucket = () => { $("t-bucket-said").textContent = Number($("t-bucket").value) ? `${$("t-bucket").value} MiB` : "the framework's"; };
  const fill = () => {
    for (const key of [...texts, ...numbers]) $(`t-${key}`).value = answer.words[key];
    $("t-seq").value = answer.words.seq || "";
    sayBucket();
    $("t-faults").value = answer.words.faults.join(" ");
  };

  const time = (s) => (s >= 1 ? `${three(s)} s` : s >= 1e-3 ? `${three(s * 1e3)} ms` : `${three(s * 1e6)} us`);
  const gib = (bytes) => three(bytes / 2 ** 30);
  const fills = { F: "var(--pass-f)", B: "var(--pass-b)", W: "var(--pass-w)" };
  const says = { F: "forward", B: "backward", W: "weight gradients" };
  // One row per stage, all its ranks do the same: passes, gradients on the wire, optimizer; memory beside it.
  const drawLanes = () => {
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
  let now = -1, line = null, playing = null;
  const showNow = (s) => {
    const svg = $("t-lanes").querySelector("svg");
    if (!svg || !answer) return;
    now = Math.min(Math.max(s, 0), answer.until_s);
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
  const events = () => [...new Set(answer?.lanes.flatMap((l) => [...l.passes.flatMap((p) => p.s), ...l.gradients, ...l.optimizer]) ?? [])].sort((a, b) => a - b);
  const halt = () => { clearInterval(playing); playing = null; };
  page.moves.training = {
    step: (by) => { halt(); const all = events(); showNow(by > 0 ? all.find((t) => t > now + 1e-12) ?? now : all.findLast((t) => t < now - 1e-12) ?? 0); },
    first: () => { halt(); showNow(0); }, last: () => { halt(); showNow(answer?.until_s ?? 0); },
    play: () => {
      if (playing) { halt(); return; }
      if (!answer) return;
      if (now < 0 || now >= answer.until_s) now = 0;
      playing = setInterval(() => { showNow(now + answer.until_s / 200); if (now >= answer.until_s) halt(); }, 40);
    },
  };
  page.hooks.show.push((view) => { if (view !== "training") halt(); });
  const drawTables = () => {
    const row = answer.report.rows[0];
    table($("t-parts"), [["Part of the step"], ["Time", 1], ["Share", 1]],
      Object.entries(row.parts_s).filter(([, s]) => s > 0).map(([name, s]) => [name.replaceAll("_", " "), time(s), `${three((100 * s) / row.step_s)} %`]));
    table($("t-memory"), [["Memory of the fullest stage"], ["GiB", 1]], Object.entries(row.memory_bytes).map(([name, b]) => [name, gib(b)]));
    $("t-command").textContent = answer.command;
  };
  // The core answers one question after the other; one that is not wanted any more is ended with it.
  const askCore = async (question) => {
    const mine = ++asked;
    page.cancelCore();
    $("t-cancel").hidden = false;
    const got = await page.askCore(question);
    if (mine !== asked) return null;
    $("t-cancel").hidden = true;
    return got;
  };
  const ask = async (given, push) => {
    say("Computing …");
    $("t-plans-answer").textContent = "";
    const got = await askCore({ ask: "train", ...given });
    if (!got) return;
    if (got.schema !== "weft.explorer.train/1") { say(got.message, true); return; }
    answer = got;
    $("t-question").textContent = answer.question;
    say(answer.answer, !answer.report.rows[0].fits);
    fill();
    drawLanes();
    drawTables();
    if (push) page.remember(true);
  };
  const best = async () => {
    const given = ofForm();
    $("t-plans-answer").textContent = "Trying every plan …";
    const got = await askCore({ ask: "plans", ...given });
    if (!got) { $("t-plans-answer").textContent = ""; return; }
    if (got.schema !== "weft.explorer.plans/1") { $("t-plans-answer").textContent = got.message; return; }
    $("t-plans-answer").textContent = got.answer;
    table($("t-plans"), [["Plan"], ["Step", 1], ["MFU", 1], ["GiB", 1], ["Why it lost"], [""]],
      got.rows.map((r) => {
        const use = make("button", "Show");
        use.setAttribute("aria-label", `Show the step of ${r.plan}`);
        use.addEventListener("click", () => ask(r.words, true));
        return [r.plan, time(r.step_s), `${three(100 * r.mfu)} %`, gib(r.memory_bytes), r.reason || "the best", use];
      }), got.rows.map((r) => (r.reason ? "" : "chosen")));
  };
  page.pictures.training = () => $("t-lanes").querySelector("svg");
  const update = () => {
    $("t-no-core").hidden = ready;
    $("t-words").hidden = !ready;
  };
  page.hooks.core.push((choices) => {
    ready = true;
    update();
    fillSelect("t-model", choices.models.map((m) => [m, m]), "llama3-8b");
    words = fromLink();
    if (page.state.view === "training") ask(words, false);
  });
  page.hooks.model.push((name) => {
    $("t-model").append(new Option(name, name));
    ask({ ...ofForm(), model: name }, false);
  });
  page.hooks.show.push((view) => {
    update();
    // This view has a question of its own.
    document.body.classList.toggle("trains", view === "training");
    if (view === "training" && ready && !answer) ask(words ?? {}, false);
  });
  $("t-bucket").addEventListener("input", sayBucket);
  $("t-words").addEventListener("change", () => ask(ofForm(), true));
  $("t-words").addEventListener("submit", (e) => { e.preventDefault(); ask(ofForm(), true); });
  $("t-best").addEventListener("click", best);
  $("t-cancel").addEventListener("click", () => page.cancelCore());
})();
