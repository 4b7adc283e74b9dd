// Bus bandwidth against size: what the cost model predicts for every candidate, and what was measured.
(() => {
  const { $, make, three, sizeText, table } = page;
  // ---- curves: bus bandwidth against size, both logarithmic ----
  const build = ({ schedule, curves }) => {
    const width = 900, height = 420, left = 64, right = 200, top = 16, bottom = 40;
    const points = [...curves.candidates, ...curves.measured].flatMap((c) => c.busbw_GBps).filter((p) => p[1] > 0);
    $("plot").replaceChildren();
    $("candidates").replaceChildren();
    if (!points.length) { $("plot").append(make("p", "No candidate has a curve.")); return; }
    const log = Math.log10;
    const [x0, x1] = [Math.min(...points.map((p) => p[0])), Math.max(...points.map((p) => p[0]))];
    const y0 = 10 ** Math.floor(log(Math.min(...points.map((p) => p[1]))));
    const y1 = Math.max(curves.limit_GBps, ...points.map((p) => p[1])) * 1.3;
    const x = (b) => left + ((log(b) - log(x0)) / (log(x1) - log(x0))) * (width - left - right);
    const y = (v) => height - bottom - ((log(v) - log(y0)) / (log(y1) - log(y0))) * (height - top - bottom);
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    const add = (tag, attributes, text) => {
      const e = document.createElementNS(space, tag);
      for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
      if (text !== undefined) e.textContent = text;
      svg.append(e);
    };
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("width", width);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", "Predicted bus bandwidth of every candidate against message size; the table below has the numbers");
    for (let v = y0; v <= y1; v *= 10) {
      add("line", { x1: left, x2: width - right, y1: y(v), y2: y(v), stroke: "var(--hair)" });
      add("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end", fill: "var(--ink-2)" }, three(v));
    }
    for (let b = x0; b <= x1 * 1.01; b *= 16)
      add("text", { x: x(b), y: height - bottom + 18, "text-anchor": "middle", fill: "var(--ink-2)" }, sizeText(b));
    add("text", { x: left, y: height - 4, fill: "var(--ink-3)" }, "message size; vertical: bus bandwidth, GB/s; lines: the cost model, dots: measured");
    add("line", { x1: x(schedule.bytes), x2: x(schedule.bytes), y1: top, y2: height - bottom, stroke: "var(--you)", "stroke-dasharray": "3 3" });
    // A line is a model, a dot a measurement.
    curves.measured.forEach((m, i) => {
      for (const [bytes, rate] of m.busbw_GBps) {
        const dot = i % 2 ? { x: x(bytes) - 3, y: y(rate) - 3, width: 6, height: 6 } : { cx: x(bytes), cy: y(rate), r: 3.5 };
        add(i % 2 ? "rect" : "circle", { ...dot, fill: i < 2 ? "var(--ink)" : "var(--paper)", stroke: "var(--ink)" });
      }
    });
    const labels = [];
    curves.candidates.forEach((c) => {
      const colour = c.chosen ? "var(--model)" : "var(--ink-3)";
      add("path", { d: "M" + c.busbw_GBps.filter((p) => p[1] > 0).map((p) => `${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("L"),
        fill: "none", stroke: colour, "stroke-width": c.chosen ? 3 : 1.2 });
      const end = c.busbw_GBps[c.busbw_GBps.length - 1];
      labels.push({ at: y(end[1]), text: `${c.algorithm} ${c.protocol}`, colour });
    });
    labels.sort((a, b) => a.at - b.at).forEach((l, i) => {
      if (i > 0) l.at = Math.max(l.at, labels[i - 1].at + 14);
      add("text", { x: width - right + 8, y: l.at + 4, fill: l.colour }, l.text);
    });
    $("plot").append(svg);
    const marks = ["●", "■", "○", "□"];
    $("measured").replaceChildren(...(curves.measured.length
      ? curves.measured.map((m, i) => make("li", `${marks[i < 2 ? i : 2 + (i % 2)]} ${m.name}: ${m.about}`))
      : [make("li", "No published measurement of this collective on this machine is known to weft.")]));
    const at = (c) => c.busbw_GBps.reduce((best, p) => (Math.abs(log(p[0] / schedule.bytes)) < Math.abs(log(best[0] / schedule.bytes)) ? p : best));
    table($("candidates"), [["Algorithm"], ["Protocol"], ["Channels", 1], [`GB/s near ${sizeText(schedule.bytes)}`, 1], ["Why"]],
      curves.candidates.map((c) => [c.algorithm, c.protocol, c.channels, three(at(c)[1]), c.reason]),
      curves.candidates.map((c) => (c.chosen ? "chosen" : "")));
  };
  page.hooks.draw.push(build);
})();
