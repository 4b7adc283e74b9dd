// The weave: ranks against time, every message a bundle with a thread for each contribution that it carries. The line of
// now can be dragged.
const weave = (() => {
  const { $, shape, three, hue } = page;
  const kMostThreads = 6000, left = 58, right = 14, top = 18;
  let schedule = null, svg = null, now = null, seek = null, width = 1000, height = 0;
  const x = (us) => left + (us / Math.max(schedule.total_us, 1e-9)) * (width - left - right);
  const nice = (most) => {
    const power = 10 ** Math.floor(Math.log10(most / 5));
    return [1, 2, 5, 10].map((f) => f * power).find((s) => most / s <= 8);
  };
  const drawAxes = (rows, each, last) => {
    for (let r = 0; r < rows; ++r) {
      const y = top + r * each, rank = r % schedule.ranks;
      shape(svg, "line", { x1: left, x2: width - right, y1: y, y2: y, stroke: r < schedule.ranks ? "var(--edge)" : "var(--hair)", "stroke-width": 1 });
      if (each < 11 && rank % 8) continue;
      if (schedule.ranks <= 8) shape(svg, "circle", { cx: left - 16, cy: y, r: 8.5, fill: hue(rank), opacity: r < schedule.ranks ? 1 : 0.5 });
      shape(svg, "text", { x: left - 16, y: y + 4, "text-anchor": "middle", class: schedule.ranks <= 8 ? "number" : "tick" }, rank);
    }
    const unit = schedule.timed ? "us" : "steps", step = nice(schedule.total_us);
    for (let t = 0; step && t <= schedule.total_us; t += step) {
      shape(svg, "line", { x1: x(t), x2: x(t), y1: last, y2: last + 5, stroke: "var(--edge)" });
      shape(svg, "text", { x: x(t), y: last + 19, "text-anchor": "middle", class: "tick" }, `${three(t)}${t === 0 ? ` ${unit}` : ""}`);
    }
  };
  // From its sender's line at its beginning to its receiver's at its end.
  const drawMessages = (each, wraps) => {
    const threads = schedule.moves.reduce((n, m) => n + m.to.length * m.holds.length, 0), coarse = threads > kMostThreads || schedule.ranks > 8;
    // All that leaves one rank at once fits between two lines.
    const leaving = new Map();
    for (const m of schedule.moves) {
      const key = `${m.rank} ${m.begin_us}`;
      leaving.set(key, (leaving.get(key) ?? 0) + m.to.length * m.holds.length);
    }
    const pitch = Math.min(2.1, (0.7 * each) / Math.max(...leaving.values()));
    for (const m of schedule.moves)
      for (const to of m.to) {
        const row = wraps && m.rank === schedule.ranks - 1 && to === 0 ? schedule.ranks : to;
        const y1 = top + m.rank * each, y2 = top + row * each;
        if (coarse) {
          shape(svg, "line", { x1: x(m.begin_us), y1, x2: x(m.end_us), y2, stroke: "var(--model)", "stroke-width": 0.6 + (1.6 * m.holds.length) / schedule.ranks, opacity: 0.55 });
          continue;
        }
        // Threads side by side, across the way that they go.
        const dx = x(m.end_us) - x(m.begin_us), dy = y2 - y1, long = Math.hypot(dx, dy) || 1;
        m.holds.forEach((r, i) => {
          const off = (i - (m.holds.length - 1) / 2) * pitch, ox = (-dy / long) * off, oy = (dx / long) * off;
          shape(svg, "line", { x1: x(m.begin_us) + ox, y1: y1 + oy, x2: x(m.end_us) + ox, y2: y2 + oy, stroke: hue(r), "stroke-width": 0.95 * pitch });
        });
      }
  };
  const build = (data, onSeek) => {
    ({ schedule } = data);
    seek = onSeek;
    const fits = schedule.played && schedule.follows === null && schedule.ranks >= 2 && schedule.total_us > 0 && schedule.moves.some((m) => m.to.length)
      && schedule.moves.reduce((n, m) => n + m.to.length, 0) <= kMostThreads;
    $("weave").hidden = !fits;
    svg = now = null;
    if (!fits) return;
    width = innerWidth < 620 ? 420 : 1000;
    const wraps = schedule.ranks > 2 && schedule.moves.some((m) => m.rank === schedule.ranks - 1 && m.to.includes(0)) && schedule.moves.every((m) => m.to.every((to) => to === (m.rank + 1) % schedule.ranks));
    const rows = schedule.ranks + (wraps ? 1 : 0), each = Math.max(7, Math.min(46, 330 / rows)), last = top + (rows - 1) * each;
    height = last + 28;
    svg = shape(null, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${schedule.moves.length} moves of ${schedule.ranks} ranks against time` });
    drawAxes(rows, each, last);
    drawMessages(each, wraps);
    now = shape(svg, "g", {});
    shape(now, "line", { x1: 0, x2: 0, y1: 4, y2: last + 6, stroke: "var(--ink)", "stroke-width": 1.6 });
    shape(now, "path", { d: "M-5 0h10l-5 7z", fill: "var(--ink)" });
    $("weave").replaceChildren(svg);
  };
  const draw = (at) => now?.setAttribute("transform", `translate(${x(at).toFixed(1)} 0)`);
  const at = (e) => {
    const box = svg.getBoundingClientRect();
    return ((((e.clientX - box.left) / box.width) * width - left) / (width - left - right)) * schedule.total_us;
  };
  $("weave").addEventListener("pointerdown", (e) => { if (svg) { $("weave").setPointerCapture(e.pointerId); seek(at(e)); } });
  $("weave").addEventListener("pointermove", (e) => { if (svg && e.buttons) seek(at(e)); });
  return { build, draw };
})();
