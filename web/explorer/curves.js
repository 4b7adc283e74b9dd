// Bus bandwidth against size: what the cost model predicts for every candidate, what was measured, a guess that is drawn
// before the curves are seen, and the reader's own table.
(() => {
  const { $, make, shape, space, three, sizeText, table } = page;
  const height = 420, left = 64, top = 16, bottom = 40;
  // On a phone the plot is as wide as the screen, and labels name algorithms only.
  let narrow = false, width = 900, right = 200;
  const fit = () => { narrow = innerWidth < 620; [width, right] = narrow ? [Math.max(innerWidth - 40, 300), 126] : [900, 200]; };
  const log = Math.log10;
  let answer = null, scale = null;
  // `guess`: GB/s by size. While `hidden`, neither curves nor dots are shown.
  const guess = { points: new Map(), hidden: false, size: 0 };
  let own = null;  // weft.explorer.table/1 of the pasted table

  // Both axes are logarithmic.
  const scaleOf = ({ curves }) => {
    const points = [...curves.candidates, ...curves.measured].flatMap((c) => c.busbw_GBps).filter((p) => p[1] > 0);
    if (own) points.push(...own.rows.map((r) => [r.bytes, r.busbw_GBps]).filter((p) => p[1] > 0));
    if (!points.length) return null;
    const [x0, x1] = [Math.min(...points.map((p) => p[0])), Math.max(...points.map((p) => p[0]))];
    const y0 = 10 ** Math.floor(log(Math.min(...points.map((p) => p[1]))));
    const y1 = Math.max(curves.limit_GBps, ...points.map((p) => p[1])) * 1.3;
    return {
      x0, x1, y0, y1, sizes: curves.candidates[0].busbw_GBps.map((p) => p[0]),
      x: (b) => left + ((log(b) - log(x0)) / (log(x1) - log(x0))) * (width - left - right),
      y: (v) => height - bottom - ((log(v) - log(y0)) / (log(y1) - log(y0))) * (height - top - bottom),
      rate: (y) => 10 ** (log(y0) + ((height - bottom - y) / (height - top - bottom)) * (log(y1) - log(y0))),
    };
  };
  const line = (points) => "M" + points.filter((p) => p[1] > 0).map((p) => `${scale.x(p[0]).toFixed(1)} ${scale.y(p[1]).toFixed(1)}`).join("L");

  const drawAxes = (svg, bytes) => {
    const { x, y, x0, x1, y0, y1 } = scale;
    for (let v = y0; v <= y1; v *= 10) {
      shape(svg, "line", { x1: left, x2: width - right, y1: y(v), y2: y(v), stroke: "var(--hair)" });
      shape(svg, "text", { x: left - 8, y: y(v) + 4, "text-anchor": "end", fill: "var(--ink-2)" }, three(v));
    }
    for (let b = x0; b <= x1 * 1.01; b *= narrow ? 256 : 16)
      shape(svg, "text", { x: x(b), y: height - bottom + 18, "text-anchor": "middle", fill: "var(--ink-2)" }, sizeText(b));
    shape(svg, "text", { x: left, y: height - 4, fill: "var(--ink-2)" }, guess.hidden
      ? `${narrow ? "" : "message size; vertical: "}bus bandwidth, GB/s, logarithmic; draw what you expect${narrow ? "" : " of the best algorithm"}`
      : narrow ? "size; up: bus bandwidth, GB/s; both logarithmic"
        : `message size; vertical: bus bandwidth, GB/s; both scales are logarithmic; lines: the cost model, dots: measured${own ? ", crosses: yours" : ""}`);
    if (bytes >= x0 && bytes <= x1)
      shape(svg, "line", { x1: x(bytes), x2: x(bytes), y1: top, y2: height - bottom, stroke: "var(--you)", "stroke-dasharray": "3 3" });
  };
  // A line is a model, a dot a measurement.
  const drawKnown = (svg, curves) => {
    const { x, y } = scale;
    curves.measured.forEach((m, i) => {
      for (const [bytes, rate] of m.busbw_GBps) {
        const dot = i % 2 ? { x: x(bytes) - 3, y: y(rate) - 3, width: 6, height: 6 } : { cx: x(bytes), cy: y(rate), r: 3.5 };
        shape(svg, i % 2 ? "rect" : "circle", { ...dot, fill: i < 2 ? "var(--ink)" : "var(--paper)", stroke: "var(--ink)" });
      }
    });
    const labels = [], named = new Set();
    for (const c of curves.candidates) {
      const colour = c.chosen ? "var(--model)" : "var(--ink-3)";
      shape(svg, "path", { d: line(c.busbw_GBps), fill: "none", stroke: colour, "stroke-width": c.chosen ? 3 : 1.2 });
      if (!narrow || !named.has(c.algorithm)) labels.push({ at: y(c.busbw_GBps[c.busbw_GBps.length - 1][1]), text: narrow ? c.algorithm : `${c.algorithm} ${c.protocol}`, colour });
      named.add(c.algorithm);
    }
    labels.sort((a, b) => a.at - b.at).forEach((l, i, all) => {
      if (i > 0) l.at = Math.max(l.at, all[i - 1].at + 14);
      shape(svg, "text", { x: width - right + 8, y: l.at + 4, fill: l.colour }, l.text);
    });
  };
  // The size that the keys have chosen, with the value of every candidate there.
  let cursor = -1;
  const drawCursor = (svg, curves) => {
    $("c-cursor").textContent = "";
    const bytes = scale.sizes[cursor];
    if (bytes === undefined || guess.hidden) return;
    shape(svg, "line", { x1: scale.x(bytes), x2: scale.x(bytes), y1: top, y2: height - bottom, stroke: "var(--you)", "stroke-width": 1.5 });
    const here = curves.candidates.map((c) => [c, c.busbw_GBps.find((p) => p[0] === bytes)?.[1] ?? 0]).filter((h) => h[1] > 0).sort((a, b) => b[1] - a[1]);
    for (const [, rate] of here) shape(svg, "circle", { cx: scale.x(bytes), cy: scale.y(rate), r: 2.5, fill: "var(--you)" });
    $("c-cursor").textContent = `At ${sizeText(bytes)}: ${here.map(([c, rate]) => `${c.algorithm} ${c.protocol} ${three(rate)}`).join(", ")} GB/s of bus bandwidth, as the cost model predicts.`;
  };
  const moveTo = (i) => {
    if (!scale || !answer?.curves) return;
    cursor = Math.min(Math.max(i, 0), scale.sizes.length - 1);
    draw();
  };
  const nearest = () => scale?.sizes.findIndex((b) => b >= answer.schedule.bytes) ?? 0;
  let sweep = null;
  const stopSweep = () => { clearInterval(sweep); sweep = null; };
  page.moves.curves = {
    step: (by) => { stopSweep(); moveTo((cursor < 0 ? nearest() : cursor) + (cursor < 0 ? 0 : by)); }, first: () => moveTo(0), last: () => moveTo(1e9),
    play: () => {
      if (sweep) { stopSweep(); return; }
      if (!scale || cursor >= scale.sizes.length - 1) cursor = -1;
      sweep = setInterval(() => { if (!scale || cursor >= scale.sizes.length - 1) stopSweep(); else moveTo(cursor + 1); }, 600);
    },
    enter: () => { const bytes = scale?.sizes[cursor]; if (bytes && page.choices()) page.question({ ...page.words(), bytes: String(bytes) }, true); },
  };
  const drawOwn = (svg) => {
    for (const r of own.rows)
      if (r.busbw_GBps > 0)
        shape(svg, "path", { d: `M${scale.x(r.bytes) - 5} ${scale.y(r.busbw_GBps)}h10m-5 -5v10`, stroke: "var(--you)", "stroke-width": 2.5 });
  };
  const drawGuess = (svg) => {
    const points = [...guess.points].sort((a, b) => a[0] - b[0]);
    shape(svg, "path", { d: line(points), fill: "none", stroke: "var(--you)", "stroke-width": 2.5, "stroke-dasharray": "6 3" });
    for (const [bytes, rate] of points)
      shape(svg, "circle", { cx: scale.x(bytes), cy: scale.y(rate), r: guess.hidden && bytes === guess.size ? 6 : 3, fill: "var(--you)" });
  };
  const draw = () => {
    const { schedule, curves } = answer;
    if (!curves) return;
    fit();
    scale = scaleOf(answer);
    $("candidates").replaceChildren();
    if (!scale) { $("plot").replaceChildren(make("p", "No candidate has a curve.")); return; }
    const had = document.activeElement === $("plot").firstChild;
    const svg = document.createElementNS(space, "svg");
    for (const [k, v] of Object.entries({ viewBox: `0 0 ${width} ${height}`, width, role: "img", tabindex: guess.hidden ? 0 : -1,
      "aria-label": guess.hidden ? "Your guess: Left and Right choose a size, Up and Down its bandwidth; See compares it"
        : "Predicted bus bandwidth of every candidate against message size; the table below has the numbers" })) svg.setAttribute(k, v);
    svg.classList.toggle("guessing", guess.hidden);
    drawAxes(svg, schedule.bytes);
    if (!guess.hidden) drawKnown(svg, curves);
    if (own && !guess.hidden) drawOwn(svg);
    drawCursor(svg, curves);
    if (guess.points.size) drawGuess(svg);
    $("plot").replaceChildren(svg);
    if (had) svg.focus();
    const marks = ["●", "■", "○", "□"];
    $("measured").replaceChildren(...(curves.measured.length
      ? curves.measured.map((m, i) => make("li", `${marks[i < 2 ? i : 2 + (i % 2)]} ${m.name}: ${m.about}`))
      : [make("li", "No published measurement of this collective on this machine is known to weft.")]));
    const at = (c) => c.busbw_GBps.reduce((best, p) => (Math.abs(log(p[0] / schedule.bytes)) < Math.abs(log(best[0] / schedule.bytes)) ? p : best));
    $("candidates").hidden = guess.hidden;
    table($("candidates"), [["Algorithm"], ["Protocol"], ["Channels", 1], [`GB/s near ${sizeText(schedule.bytes)}`, 1], ["Why"]],
      curves.candidates.map((c) => [c.algorithm, c.protocol, c.channels, three(at(c)[1]), c.reason]),
      curves.candidates.map((c) => (c.chosen ? "chosen" : "")));
  };

  // ---- the guess ----
  const tools = () => {
    $("c-guess").textContent = guess.hidden ? "Leave it" : "Guess first";
    $("c-see").hidden = !guess.hidden;
    $("c-guess").disabled = !answer?.curves;  // there is nothing to guess before they are there
    $("c-see").disabled = !guess.points.size;
  };
  const setGuess = (bytes, rate) => {
    guess.size = bytes;
    guess.points.set(bytes, Math.min(Math.max(rate, scale.y0), scale.y1));
    $("c-said").textContent = `${sizeText(bytes)}: ${three(guess.points.get(bytes))} GB/s`;
    tools();
    draw();
  };
  const atPointer = (e) => {
    const box = $("plot").firstChild.getBoundingClientRect();
    const x = ((e.clientX - box.left) / box.width) * width, y = ((e.clientY - box.top) / box.height) * height;
    const nearest = scale.sizes.reduce((best, b) => (Math.abs(scale.x(b) - x) < Math.abs(scale.x(best) - x) ? b : best));
    setGuess(nearest, scale.rate(y));
  };
  let drags = false;
  $("plot").addEventListener("pointerdown", (e) => { if (guess.hidden && scale) { drags = true; e.preventDefault(); atPointer(e); } });
  addEventListener("pointermove", (e) => { if (drags && guess.hidden) atPointer(e); });
  addEventListener("pointerup", () => { drags = false; });
  $("plot").addEventListener("keydown", (e) => {
    if (!guess.hidden || !scale) return;
    const i = Math.max(scale.sizes.indexOf(guess.size), 0);
    const rate = (bytes) => guess.points.get(bytes) ?? guess.points.get(guess.size) ?? Math.sqrt(scale.y0 * scale.y1);
    const go = (bytes) => setGuess(bytes, rate(bytes));
    const act = { ArrowLeft: () => go(scale.sizes[Math.max(i - 1, 0)]), ArrowRight: () => go(scale.sizes[Math.min(i + 1, scale.sizes.length - 1)]),
      ArrowUp: () => setGuess(scale.sizes[i], rate(scale.sizes[i]) * 1.15), ArrowDown: () => setGuess(scale.sizes[i], rate(scale.sizes[i]) / 1.15),
      Enter: () => $("c-see").click() }[e.key];
    if (act) { e.preventDefault(); e.stopPropagation(); act(); }
  });
  $("c-guess").addEventListener("click", () => {
    guess.hidden = !guess.hidden;
    guess.points.clear();
    $("c-said").textContent = guess.hidden ? "Draw the best bandwidth at each size, then see." : "";
    tools();
    draw();
    if (guess.hidden) $("plot").firstChild.focus?.();
  });
  $("c-see").addEventListener("click", async () => {
    const points = [...guess.points].sort((a, b) => a[0] - b[0]);
    guess.hidden = false;
    tools();
    draw();
    $("c-said").textContent = "Computing …";
    const got = await page.askCore({ ask: "guess", ...page.words(), points });
    $("c-said").textContent = got.answer ?? got.message;
  });

  // ---- the reader's own table ----
  const read = async () => {
    $("c-table-answer").textContent = "Computing …";
    const got = await page.askCore({ ask: "table", ...page.words(), text: $("c-table").value });
    own = got.schema === "weft.explorer.table/1" ? got : null;
    $("c-table-answer").textContent = own ? own.answer : got.message;
    $("c-table-answer").classList.toggle("wrong", !own);
    table($("c-rows"), [["Size"], ["Yours, GB/s", 1], ["Predicted, GB/s", 1], ["Ratio", 1]],
      own ? own.rows.map((r) => [sizeText(r.bytes), three(r.busbw_GBps), three(r.predicted_GBps), three(r.busbw_GBps / r.predicted_GBps)]) : []);
    draw();
  };
  $("c-show").addEventListener("click", read);

  // The page's answers come without curves; they are asked for when they are to be seen.
  let asked = null;
  const fetchCurves = async () => {
    if (!answer || answer.curves || asked === answer || page.state.view !== "curves") return;
    const mine = (asked = answer);
    $("candidates").replaceChildren();
    const words = page.words(), cancel = make("button", "Cancel"), progress = make("p", "Computing …");
    cancel.addEventListener("click", () => page.cancelCore());
    $("plot").replaceChildren(progress, cancel);
    let got = await page.askCore({ ask: "curves", ...words, points: false, answered: [answer.schedule.algorithm, answer.schedule.protocol] });
    const { curves } = got;
    for (const [i, c] of (curves?.candidates ?? []).entries()) {
      if (mine !== answer) return;
      progress.textContent = `Computing … ${i} of ${curves.candidates.length} candidates`;
      got = await page.askCore({ ask: "curve", ...words, of: [c.algorithm, c.protocol] });
      if (got.schema !== "weft.explorer.curve/1") break;
      c.busbw_GBps = got.busbw_GBps;
    }
    if (mine !== answer) return;
    asked = null;
    if (got.schema !== "weft.error/1") {
      answer.curves = curves;
      tools();
      draw();
    } else $("plot").replaceChildren(make("p", got.message));
  };

  page.pictures.curves = () => $("plot").querySelector("svg");
  page.hooks.core.push(() => { $("c-tools").hidden = $("c-own").hidden = false; });
  page.hooks.draw.push((given) => {
    // A guess and a table are about one question.
    answer = given;
    guess.points.clear();
    guess.hidden = false;
    own = null;
    cursor = -1;
    stopSweep();
    $("c-said").textContent = $("c-table-answer").textContent = "";
    $("c-rows").replaceChildren();
    tools();
    draw();
    fetchCurves();
  });
  page.hooks.show.push(fetchCurves);
  addEventListener("resize", () => { if (answer?.curves && narrow !== innerWidth < 620) draw(); });
})();
