// The bandwidth cliff, to scale: what one GPU has at every step on its way out, from its memory to the network.
const cliff = (() => {
  const { $, shape, three } = page;
  const high = 62, slab = 74;
  let drawn = 0; // the width it was drawn for
  const room = () => (innerWidth < 620 ? 354 : 720);
  const draw = (steps, hidden) => {
    const width = room(), narrow = width < 620, middle = narrow ? 0.6 * width : width / 2; // on a phone the names need the left half
    const svg = shape(null, "svg", { viewBox: `0 0 ${width} ${slab + (steps.length - 1) * high + 40}`, role: "img", class: "cliff",
      "aria-label": hidden ? "The first step is drawn; the others wait for your guess" : steps.map((s) => `${s.name}: ${three(s.GBps)} GB/s`).join("; ") });
    const scale = (width - 20) / steps[0].GBps;
    steps.forEach((s, i) => {
      const y = i === 0 ? 0 : slab + (i - 1) * high, h = i === 0 ? slab : high, w = Math.max(s.GBps * scale, 0.8), inside = i === 0 ? " inside" : "";
      if (i > 0 && !hidden) shape(svg, "rect", { x: middle - w / 2, y, width: w, height: h, fill: "var(--model)" });
      if (i === 0) shape(svg, "rect", { x: 10, y, width: w, height: h, fill: "var(--slab)" });
      if (i > 0) shape(svg, "line", { x1: 0, x2: width, y1: y + h, y2: y + h, stroke: "var(--hair)" });
      shape(svg, "text", { x: i ? 2 : 24, y: y + 24, class: `strong${inside}` }, s.name);
      shape(svg, "text", { x: i ? 2 : 24, y: y + 42, class: `tick${inside}` }, s.detail);
      const right = i ? width - 2 : width - 24;
      shape(svg, "text", { x: right, y: y + 26, "text-anchor": "end", class: `rate${inside}` }, hidden && i ? "?" : `${three(s.GBps)} GB/s`);
      if (!(hidden && i)) shape(svg, "text", { x: right, y: y + (narrow ? 57 : 44), "text-anchor": "end", class: `tick${inside}` }, s.of_GiB);
    });
    const y = slab + (steps.length - 1) * high + 20, nice = [10, 20, 50, 100, 200, 500].findLast((v) => v * scale <= 90) ?? 10;
    shape(svg, "line", { x1: 2, x2: 2 + nice * scale, y1: y, y2: y, stroke: "var(--ink)", "stroke-width": 3 });
    shape(svg, "text", { x: 12 + nice * scale, y: y + 4, class: "tick" }, `${nice} GB/s${narrow ? "" : "; linear,"} each way, memory both together`);
    return svg;
  };
  page.pictures.cliff = () => $("cliff").querySelector("svg");
  const show = ({ machine }) => {
    const { steps = [] } = machine;
    drawn = room();
    $("cliff-box").hidden = steps.length < 2;
    $("cliff").replaceChildren(...(steps.length < 2 ? [] : [draw(steps, false)]));
  };
  page.hooks.draw.push(show);
  addEventListener("resize", () => { if (drawn && drawn !== room()) show(page.data()); });
  return { draw };
})();
