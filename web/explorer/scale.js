// The answer on one scale that begins at 0: the time, what it lies between, the least that the machine allows, and the time
// without the faults.
(() => {
  const { $, shape, three } = page;
  let drawn = 0; // the width it was drawn for
  const room = () => (innerWidth < 620 ? 354 : 720);
  const unit = (us) => (us >= 1e6 ? `${three(us / 1e6)} s` : us >= 1e3 ? `${three(us / 1e3)} ms` : `${three(us)} us`);
  const show = (data) => {
    const { time_us: time, least_us: least, low_us: low, high_us: high, healthy_us: healthy } = data;
    $("scale").replaceChildren();
    $("scale").hidden = !(time > 0 && least > 0);
    if ($("scale").hidden) return;
    const width = (drawn = room()), most = Math.max(time, high, healthy ?? 0), x = (us) => (us / most) * (width - 90);
    const svg = shape(null, "svg", { viewBox: `0 0 ${width} ${healthy ? 60 : 44}`, width, role: "img", "aria-label": `On one scale: the least possible time ${unit(least)}, this time ${unit(time)}${healthy ? `, without the faults ${unit(healthy)}` : ""}` });
    shape(svg, "rect", { x: 0, y: 8, width: x(time), height: 12, fill: "var(--pass-f)" });
    shape(svg, "rect", { x: 0, y: 8, width: x(least), height: 12, fill: "var(--model)" });
    if (high > low) shape(svg, "path", { d: `M${x(low)} 4v20m0 -10H${x(high)}m0 -10v20`, stroke: "var(--ink)", fill: "none" });
    shape(svg, "text", { x: x(time) + 6, y: 19, class: "strong" }, unit(time));
    shape(svg, "text", { x: 0, y: 37, class: "tick" }, `least possible ${unit(least)}`);
    if (healthy) {
      shape(svg, "line", { x1: x(healthy), x2: x(healthy), y1: 4, y2: 40, stroke: "var(--fault)", "stroke-width": 2 });
      const text = shape(svg, "text", { x: x(healthy), y: 53, class: "tick" }, `without the faults ${unit(healthy)}`);
      if (x(healthy) > width - 150) { text.setAttribute("text-anchor", "end"); text.setAttribute("x", x(healthy)); }
    }
    $("scale").append(svg);
  };
  page.hooks.draw.push(show);
  addEventListener("resize", () => { if (drawn && drawn !== room()) show(page.data()); });
})();
