// A served model: its engines over time, what users see, and the frontier of all plans (weft.explorer.serve/1,
// weft.explorer.frontier/1).
(() => {
  const { $, make, shape, space, three, table, time } = page;
  const kLeft = 90, kWide = 800, kLane = 22, kRow = 30, kPanel = 110;
  const canvas = (height, label) => {
    const svg = document.createElementNS(space, "svg");
    svg.setAttribute("viewBox", `0 0 ${kLeft + kWide + 30} ${height}`);
    svg.setAttribute("width", kLeft + kWide + 30);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
    return svg;
  };
  // Round steps of an axis up to `most`.
  const ticks = (most, about) => {
    const raw = most / about, ten = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find((s) => s * ten >= raw) * ten;
    return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, i) => i * step);
  };
  const grid = (svg, most, top, high, x = kLeft, wide = kWide) => {
    for (const v of ticks(most, 3)) {
      const y = top + high - (v / most) * high;
      shape(svg, "line", { x1: x, x2: x + wide, y1: y, y2: y, stroke: "var(--hair)" });
      shape(svg, "text", { x: x - 8, y: y + 4, "text-anchor": "end", fill: "var(--ink-3)" }, three(v));
    }
  };
  // One row per engine: the share of each column's time that reads prompts, and that only decodes.
  const lane = (svg, engine, y) => {
    const step = kWide / engine.reads.length, bottom = y + kLane;
    const area = (values, fill) => {
      const up = values.map((v, i) => `H${(kLeft + i * step).toFixed(1)} V${(bottom - kLane * Math.min(1, v)).toFixed(1)}`).join(" ");
      shape(svg, "path", { d: `M${kLeft} ${bottom} ${up} H${kLeft + kWide} V${bottom} Z`, fill });
    };
    shape(svg, "text", { x: kLeft - 8, y: y + 15, "text-anchor": "end", fill: "var(--ink-2)" }, engine.name);
    area(engine.reads.map((r, i) => r + engine.decodes[i]), "var(--pass-f)");
    area(engine.reads, "var(--you-mark)");
    shape(svg, "line", { x1: kLeft, x2: kLeft + kWide, y1: bottom, y2: bottom, stroke: "var(--edge)" });
  };
  const curve = (svg, values, most, top, stroke) => {
    const step = kWide / values.length, points = [];
    values.forEach((v, i) => { if (v >= 0) points.push(`${(kLeft + i * step).toFixed(1)},${(top + kPanel - (Math.min(v, most) / most) * kPanel).toFixed(1)}`); });
    if (points.length > 1) shape(svg, "polyline", { points: points.join(" "), fill: "none", stroke, "stroke-width": 1.6 });
  };
  const legend = (svg, y, parts) => {
    let x = kLeft + kWide;
    for (const [fill, text] of parts.toReversed()) {
      x -= 7 * text.length;
      shape(svg, "text", { x, y, fill: "var(--ink-2)" }, text);
      shape(svg, "rect", { x: x - 16, y: y - 10, width: 11, height: 11, fill });
      x -= 34;
    }
  };
  const drawLanes = (answer) => {
    const { engines, seconds, waiting, running, used, left_out: more } = answer.lanes;
    const requests = 44 + engines.length * kRow + 30, cache = requests + kPanel + 50, height = cache + kPanel + 34;
    const svg = canvas(height, answer.lanes_said);
    shape(svg, "text", { x: 0, y: 14, fill: "var(--ink)", "font-weight": 650 }, answer.report.rows[0].plan.includes(" x (") && !answer.words.prefill ? "One of the engines; the others do alike" : "Engines");
    legend(svg, 14, [["var(--you-mark)", "reads prompts"], ["var(--pass-f)", "decodes only"]]);
    engines.forEach((e, i) => lane(svg, e, 30 + i * kRow));
    if (more) shape(svg, "text", { x: kLeft, y: requests - 32, fill: "var(--ink-3)" }, `${more} more engines are not drawn`);
    const several = engines.length > 1 ? ", the fullest engine" : "", most = Math.max(1, ...waiting, ...running);
    shape(svg, "text", { x: 0, y: requests - 16, fill: "var(--ink)", "font-weight": 650 }, `Requests${several}`);
    legend(svg, requests - 16, [["var(--fault)", "waiting"], ["var(--model)", "decoding"]]);
    grid(svg, most, requests, kPanel);
    curve(svg, running, most, requests, "var(--model)");
    curve(svg, waiting, most, requests, "var(--fault)");
    shape(svg, "text", { x: 0, y: cache - 16, fill: "var(--ink)", "font-weight": 650 }, `Cache in use, % of the tokens that it holds${several}`);
    grid(svg, 100, cache, kPanel);
    curve(svg, used.map((u) => 100 * u), 100, cache, "var(--model)");
    for (const t of ticks(seconds, 6)) shape(svg, "text", { x: kLeft + (t / seconds) * kWide, y: height - 12, "text-anchor": "middle", fill: "var(--ink-3)" }, t ? time(t) : "0");
    $("s-lanes").replaceChildren(svg);
    $("s-export").hidden = false;
  };
  let line = null;
  const showNow = (now) => {
    const svg = $("s-lanes").querySelector("svg"), lanes = plan.answer()?.lanes;
    if (!svg || !lanes) return;
    const at = kLeft + (now / lanes.seconds) * kWide, bottom = svg.viewBox.baseVal.height - 30;
    if (!line?.isConnected) line = shape(svg, "line", { y1: 22, y2: bottom, stroke: "var(--ink)", "stroke-width": 1.6 });
    line.setAttribute("x1", at);
    line.setAttribute("x2", at);
    const c = Math.min(lanes.used.length - 1, Math.floor((now / lanes.seconds) * lanes.used.length));
    const last = (values) => Math.max(0, values.slice(0, c + 1).findLast((v) => v >= 0) ?? 0);
    const engines = lanes.engines.slice(0, 8).map((e) => `${e.name} ${e.reads[c] > 0.005 ? `reads prompts for ${three(100 * e.reads[c])} % of this moment` : e.decodes[c] > 0.005 ? "decodes" : "waits"}`);
    $("s-now").textContent = `${time(now)} of ${time(lanes.seconds)}. ${engines.join("; ")}; ${last(lanes.running)} requests decode, ${last(lanes.waiting)} wait, ${three(100 * last(lanes.used))} % of the cache's tokens in use.`;
  };
  const events = () => { const l = plan.answer()?.lanes; return l ? l.used.map((_, i) => (i / l.used.length) * l.seconds).concat(l.seconds) : []; };
  page.clockOf("serving", () => plan.answer()?.lanes?.seconds ?? 0, events, showNow);

  const shares = (parts, of) => Object.entries(parts).filter(([, v]) => v > 0).map(([name, v]) => [name, three(v), of > 0 ? `${three((100 * v) / of)} %` : ""]);
  const drawTables = (answer) => {
    const row = answer.report.rows[0], gib = (b) => three(b / 2 ** 30);
    table($("s-times"), [["ms"], ["mean", 1], ["median", 1], ["90 % below", 1], ["99 % below", 1]],
      [["to the first token (TTFT)", row.ttft_ms], ["per further token (TPOT)", row.tpot_ms], ["whole answer", row.end_to_end_ms]].map(([name, s]) => [name, three(s.mean), three(s.median), three(s.p90), three(s.p99)]));
    table($("s-ttft"), [["Part of TTFT"], ["ms", 1], ["Of mean TTFT", 1]], shares(row.ttft_parts_ms, row.ttft_ms.mean));
    table($("s-step"), [[`Part of a decode step, ${three(row.batch)} sequences on average`], ["ms", 1], ["Of the step", 1]], shares(row.step_parts_ms, row.step_ms));
    table($("s-memory"), [["Memory of a GPU"], ["GiB", 1], ["Of its memory", 1]], Object.entries(row.memory_bytes).map(([name, b]) => [name, gib(b), `${three((100 * b) / row.capacity_bytes)} %`]));
  };

  // The slider is the load on a scale of factors: 0.1 to 1000.
  const sayLoad = () => { $("s-rate-said").textContent = `${$("s-load").value} ${$("s-of").value}`; };
  const setSlide = () => { $("s-slide").value = 100 * Math.log10(Math.max(0.1, Number($("s-load").value)) / 0.1); sayLoad(); };
  $("s-slide").addEventListener("input", () => {
    const value = 0.1 * 10 ** (Number($("s-slide").value) / 100);
    $("s-load").value = $("s-of").value === "clients" ? Math.max(1, Math.round(value)) : Number(value.toPrecision(2));
    sayLoad();
  });
  const plan = page.planView({
    view: "serving", prefix: "s", kind: "serve",
    texts: ["model", "on", "engine", "precision", "prefill"],
    numbers: ["tp", "pp", "ep", "dp", "replicas", "decodes", "isl", "osl", "rate", "concurrency", "batch_tokens", "price"],
    good: (answer) => answer.report.rows[0].stable_rate === undefined,
    toForm: (w) => ({ ...w, load: w.rate || w.concurrency, of: w.rate ? "requests/s" : "clients" }),
    fromForm: ({ load, of, ...w }) => ({ ...w, rate: of === "clients" ? 0 : load, concurrency: of === "clients" ? Math.round(load) : 0 }),
    draw: (answer, keep) => {
      if (!keep) clearPlans();
      setSlide();
      drawLanes(answer);
      drawTables(answer);
    },
  });
  const clearPlans = () => {
    $("s-plans-answer").textContent = "";
    $("s-plans").replaceChildren();
    $("s-frontier").hidden = $("s-frontier-export").hidden = true;
  };
  // Output tokens/s per GPU over those per user: points that no other beats, and each plan at its best load.
  const drawFrontier = (got) => {
    const { rows, frontier } = got.report, all = [...rows.filter((r) => r.fits), ...frontier], high = 330, top = 30;
    const x = (r) => r.output_tokens_per_s_per_user, y = (r) => r.output_tokens_per_s_per_gpu;
    const mostX = 1.08 * Math.max(1, ...all.map(x)), mostY = 1.08 * Math.max(1, ...all.map(y));
    const px = (v) => kLeft + (v / mostX) * kWide, py = (v) => top + high - (v / mostY) * high;
    const svg = canvas(top + high + 46, got.answer);
    grid(svg, mostY, top, high);
    for (const v of ticks(mostX, 7)) {
      shape(svg, "line", { x1: px(v), x2: px(v), y1: top, y2: top + high, stroke: "var(--hair)" });
      shape(svg, "text", { x: px(v), y: top + high + 18, "text-anchor": "middle", fill: "var(--ink-3)" }, three(v));
    }
    shape(svg, "text", { x: 0, y: 14, fill: "var(--ink)", "font-weight": 650 }, "Output tokens/s per GPU");
    shape(svg, "text", { x: kLeft + kWide, y: top + high + 38, "text-anchor": "end", fill: "var(--ink)", "font-weight": 650 }, "Output tokens/s per user");
    legend(svg, 14, [["var(--model)", "no other point has more of both"], ["var(--you-mark)", "a plan at its best load under the goal"]]);
    shape(svg, "polyline", { points: frontier.map((r) => `${px(x(r))},${py(y(r))}`).join(" "), fill: "none", stroke: "var(--model)", "stroke-width": 2 });
    const point = (r, words, attributes) => {
      const dot = shape(svg, "circle", { cx: px(x(r)), cy: py(y(r)), ...attributes, style: "cursor: pointer" });
      shape(dot, "title", {}, `${r.plan}, ${r.load}: ${three(y(r))} tokens/s per GPU, ${three(x(r))} per user`);
      dot.addEventListener("click", () => plan.ask({ ...words, faults: [] }, true, true));
    };
    let before = "", below = -20;
    frontier.forEach((r, i) => {
      point(r, got.frontier_words[i], { r: 4.5, fill: "var(--model)" });
      if (r.plan === before || Math.abs(py(y(r)) - below) < 15) return;
      before = r.plan;
      below = py(y(r));
      shape(svg, "text", { x: Math.min(px(x(r)) + 8, kLeft + kWide - 6.2 * r.plan.length), y: below - 6, fill: "var(--ink-2)" }, r.plan);
    });
    rows.forEach((r, i) => { if (r.fits) point(r, got.row_words[i], { r: 7, fill: "transparent", stroke: "var(--you-mark)", "stroke-width": 2.4 }); });
    $("s-frontier").replaceChildren(svg);
    $("s-frontier").hidden = $("s-frontier-export").hidden = false;
  };
  $("s-best").addEventListener("click", async () => {
    $("s-plans-answer").textContent = "Trying every plan …";
    const { rate, concurrency, ...words } = plan.ofForm();
    const got = await plan.askCore({ ask: "frontier", ...words, ttft: Number($("s-goal-ttft").value), tpot: Number($("s-goal-tpot").value) });
    if (!got) { $("s-plans-answer").textContent = ""; return; }
    if (got.schema !== "weft.explorer.frontier/1") { $("s-plans-answer").textContent = got.message; return; }
    $("s-plans-answer").textContent = got.answer;
    drawFrontier(got);
    table($("s-plans"), [["Plan"], ["Load"], ["Tokens/s per GPU", 1], ["per user", 1], ["TTFT ms", 1], ["TPOT ms", 1], ["Price of 1M", 1], ["Why it lost"], ["Its run"]],
      got.report.rows.map((r, i) => {
        const use = make("button", "Show");
        use.setAttribute("aria-label", `Show the run of ${r.plan}`);
        use.addEventListener("click", () => plan.ask({ ...got.row_words[i], faults: [] }, true, true));
        return [r.plan, r.load, ...(r.fits ? [three(r.output_tokens_per_s_per_gpu), three(r.output_tokens_per_s_per_user), three(r.ttft_ms.median), three(r.tpot_ms.median), r.money_per_million_tokens ? three(r.money_per_million_tokens) : ""] : ["", "", "", "", ""]),
          r.reason || "the best", r.fits ? use : ""];
      }), got.report.rows.map((r) => (r.reason ? "" : "chosen")));
  });
  page.pictures.serving = () => $("s-lanes").querySelector("svg");
  page.pictures.frontier = () => $("s-frontier").querySelector("svg");
})();
