// A cluster as a map: a square is a GPU, equal things are one thing drawn many times, and zoom goes from the machine
// over pods and rail groups to one node, which is weft's picture to scale.
(() => {
  const { $, shape } = page;
  const canvas = $("map"), context = canvas.getContext("2d");
  let map = null, levels = [], tiles = new Map(), node = null, odd = new Set();
  let view = { x: 0, y: 0, scale: 1 };  // screen = (world - view) * scale; the machine is `world` wide
  let world = { width: 1, height: 1 }, pending = false, colours = null, frames = 0;

  const rgb = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const readColours = () => {
    colours = { sheet: rgb("--sheet"), edge: rgb("--edge"), hair: rgb("--hair"), gpu: rgb("--pass-b"), casing: rgb("--casing"),
      ink: rgb("--ink"), fault: rgb("--fault"), paper: rgb("--paper"), you: rgb("--you-mark") };
    tiles.clear();
  };
  // Columns of a grid of `count` things whose shape comes nearest to `wanted` times as wide as high, with few empty places.
  const columnsOf = (count, size, wanted) => {
    let best = 1, least = Infinity;
    for (let columns = 1; columns <= count; ++columns) {
      const rows = Math.ceil(count / columns);
      const off = Math.abs(Math.log((columns * size.width) / (rows * size.height) / wanted)) + 3 * (columns * rows / count - 1);
      if (off < least) { least = off; best = columns; }
    }
    return best;
  };
  // The level's children stand in a grid; a gap around each grows with the level.
  const layout = () => {
    let size = { width: 1, height: 1 };  // of a GPU
    levels = map.levels.map((l, i) => {
      const most = Math.max(...l.sizes), columns = columnsOf(most, size, 1.8);
      const rows = Math.ceil(most / columns), gap = i === 0 ? 0.4 : 0.06 * Math.max(size.width, size.height) * 1.5;
      const level = { word: l.word, sizes: l.sizes, count: l.count, columns, rows, gap, child: size,
        width: columns * size.width + 2 * gap, height: rows * size.height + 2 * gap };
      size = { width: level.width, height: level.height };
      return level;
    });
    const top = levels[levels.length - 1], columns = columnsOf(top.count, top, 2.4);
    world = { columns, rows: Math.ceil(top.count / columns), top, width: columns * top.width, height: Math.ceil(top.count / columns) * top.height };
  };
  const sizeOf = (l, index) => (levels[l].sizes.length === 1 ? levels[l].sizes[0] : levels[l].sizes[index] ?? 0);
  const firstChild = (l, index) => (levels[l].sizes.length === 1 ? levels[l].sizes[0] * index
    : levels[l].sizes.slice(0, index).reduce((a, b) => a + b, 0));

  const box = (c, x, y, w, h, fill, stroke) => {
    c.fillStyle = fill;
    c.fillRect(x, y, w, h);
    if (stroke && w > 6) { c.strokeStyle = stroke; c.lineWidth = 1; c.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1); }
  };
  // One node of w pixels: its picture where there is room, else its GPUs, else a square.
  const drawNode = (c, x, y, w, h, index) => {
    const l = levels[0], unlike = odd.has(index), gap = l.gap * (w / l.width);
    box(c, x + gap / 2, y + gap / 2, w - gap, h - gap, w > 6 ? colours.sheet : colours.gpu, unlike ? colours.fault : colours.edge);
    if (w > 260 && node?.complete && node.naturalWidth) {
      const fit = Math.min((w - 2 * gap) / node.naturalWidth, (h - 2 * gap) / node.naturalHeight);
      c.drawImage(node, x + (w - node.naturalWidth * fit) / 2, y + (h - node.naturalHeight * fit) / 2, node.naturalWidth * fit, node.naturalHeight * fit);
    } else if (w > 6) {
      const each = w / l.width;
      c.fillStyle = colours.gpu;
      for (let i = 0; i < sizeOf(0, index); ++i)
        c.fillRect(x + gap + (i % l.columns) * each + each * 0.12, y + gap + Math.floor(i / l.columns) * each + each * 0.12, each * 0.76, each * 0.76);
    }
    if (unlike) drawUnlike(c, x + gap / 2, y + gap / 2, w - gap, h - gap);
  };
  // A second cue besides the frame's colour: a small node is crossed, a large one in its corner, as most of it works.
  const drawUnlike = (c, x, y, w, h) => {
    const side = w > 60 ? Math.min(w / 8, 28) : Math.min(w, h), left = x + w - side, width = Math.max(1.5, Math.min(w / 30, 4));
    c.strokeStyle = colours.fault;
    c.lineWidth = width;
    c.setLineDash([]);
    c.strokeRect(x, y, w, h);
    c.beginPath();
    c.moveTo(left + width, y + width);
    c.lineTo(left + side - width, y + side - width);
    c.moveTo(left + side - width, y + width);
    c.lineTo(left + width, y + side - width);
    c.stroke();
    if (w < 200) return;
    c.fillStyle = colours.fault;
    c.font = `600 ${Math.round(devicePixelRatio * 13)}px system-ui, sans-serif`;
    c.textAlign = "right";
    c.fillText("not all of it works as in the others", left - width, y + side * 0.7);
    c.textAlign = "left";
  };
  const anyOdd = (l, index) => {
    if (!odd.size) return false;
    let first = index, last = index + 1;
    for (let k = l; k > 0; --k) [first, last] = [firstChild(k, first), firstChild(k, last)];
    for (const n of odd) if (n >= first && n < last) return true;
    return false;
  };
  const outside = (x, y, w, h) => x > canvas.width || y > canvas.height || x + w < 0 || y + h < 0;
  // A thing of one level. Equal ones that are small are copies of one drawing.
  const drawThing = (c, l, index, x, y, w, h) => {
    if (l === 0) return drawNode(c, x, y, w, h, index);
    const level = levels[l], each = w / level.width, gap = level.gap * each;
    box(c, x + gap / 2, y + gap / 2, w - gap, h - gap, colours.casing, colours.edge);
    const children = sizeOf(l, index), first = firstChild(l, index);
    for (let i = 0; i < children; ++i) {
      const cx = x + gap + (i % level.columns) * level.child.width * each, cy = y + gap + Math.floor(i / level.columns) * level.child.height * each;
      drawCopy(c, l - 1, first + i, cx, cy, level.child.width * each, level.child.height * each);
    }
  };
  const drawCopy = (c, l, index, x, y, w, h) => {
    if (c === context && outside(x, y, w, h)) return;
    const regular = levels.slice(0, l + 1).every((k) => k.sizes.length === 1) && !anyOdd(l, index);
    if (!regular || w > 400 || w < 3) return drawThing(c, l, index, x, y, w, h);
    const key = `${l} ${w.toFixed(2)}`;
    let tile = tiles.get(key);
    if (!tile) {
      if (tiles.size > 24) tiles.clear();
      tile = new OffscreenCanvas(Math.ceil(w), Math.ceil(h));
      drawThing(tile.getContext("2d"), l, index, 0, 0, w, h);
      tiles.set(key, tile);
    }
    c.drawImage(tile, x, y);
  };

  const draw = () => {
    pending = false;
    if (!map || $("map-box").hidden) return;
    ++frames;
    const { top, columns } = world, wide = top.width * view.scale, high = top.height * view.scale;
    context.fillStyle = colours.paper;
    context.fillRect(0, 0, canvas.width, canvas.height);
    const c0 = Math.max(0, Math.floor(view.x / top.width)), r0 = Math.max(0, Math.floor(view.y / top.height));
    const c1 = Math.min(columns - 1, Math.floor((view.x + canvas.width / view.scale) / top.width));
    const r1 = Math.min(world.rows - 1, Math.floor((view.y + canvas.height / view.scale) / top.height));
    for (let r = r0; r <= r1; ++r)
      for (let c = c0; c <= c1; ++c) {
        const index = r * columns + c;
        if (index < top.count) drawCopy(context, levels.length - 1, index, (c * top.width - view.x) * view.scale, (r * top.height - view.y) * view.scale, wide, high);
      }
    const across = canvas.width / view.scale, seen = levels.findLast((l) => l.width <= across * 1.2);
    const word = seen ? seen.word : "part of a node";
    $("map-at").textContent = `${view.scale >= whole().scale * 1.01 ? `a ${word} fills the map` : "the whole machine"}`;
  };
  const soon = () => { if (!pending) { pending = true; requestAnimationFrame(draw); } };
  const whole = () => {
    const scale = Math.min(canvas.width / world.width, canvas.height / world.height);
    return { x: (world.width - canvas.width / scale) / 2, y: (world.height - canvas.height / scale) / 2, scale };
  };
  const zoom = (by, x = canvas.width / 2, y = canvas.height / 2) => {
    const least = whole().scale, most = (canvas.width * 0.95) / levels[0].width;
    const scale = Math.min(Math.max(view.scale * by, least), Math.max(most, least));
    view = { x: view.x + x / view.scale - x / scale, y: view.y + y / view.scale - y / scale, scale };
    keep();
    soon();
  };
  const pan = (x, y) => {
    view.x += x / view.scale;
    view.y += y / view.scale;
    keep();
    soon();
  };
  // The machine's middle never leaves the map.
  const keep = () => {
    const w = canvas.width / view.scale, h = canvas.height / view.scale;
    view.x = w >= world.width ? (world.width - w) / 2 : Math.min(Math.max(view.x, 0), world.width - w);
    view.y = h >= world.height ? (world.height - h) / 2 : Math.min(Math.max(view.y, 0), world.height - h);
  };
  const fit = () => {
    const wide = Math.round($("map-box").clientWidth);
    if (!wide || !map) return;
    canvas.width = wide;
    canvas.height = Math.round(Math.min(520, Math.max(180, (wide * world.height) / world.width)));
    view = whole();
    soon();
  };
  // The node's picture in the page's colours: an image has no styles of the page.
  const themed = (svg) => {
    const now = getComputedStyle(document.documentElement);
    const rules = [...document.styleSheets[0].cssRules].filter((r) => /^#picture (?!svg)/.test(r.selectorText ?? ""))
      .map((r) => r.cssText.replaceAll("#picture ", "").replace(/var\((--[\w-]+)\)/g, (_, name) => now.getPropertyValue(name)));
    return svg.replace(/<svg[^>]*>/, (head) => `${head}<style>${rules.join("\n")}</style>`);
  };
  const loadNode = () => {
    node = new Image();
    node.onload = soon;
    node.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(themed(map.node_svg))}`;
  };
  const build = ({ machine }) => {
    map = machine.map;
    $("map-box").hidden = $("map-tools").hidden = !map;
    $("map-said").textContent = map ? map.said : "";
    if (!map) return;
    odd = new Set(map.odd);
    canvas.setAttribute("aria-label", map.said);
    loadNode();
    readColours();
    layout();
    fit();
  };

  // ---- hands and keys ----
  let held = null;
  const scaleOf = () => canvas.width / canvas.getBoundingClientRect().width;
  canvas.addEventListener("pointerdown", (e) => { held = { x: e.clientX, y: e.clientY }; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener("pointermove", (e) => {
    if (!held) return;
    const k = scaleOf();
    pan((held.x - e.clientX) * k, (held.y - e.clientY) * k);
    held = { x: e.clientX, y: e.clientY };
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { held = null; });
  canvas.addEventListener("wheel", (e) => {
    e.preventDefault();
    const box = canvas.getBoundingClientRect(), k = scaleOf();
    zoom(2 ** (-e.deltaY / 200), (e.clientX - box.left) * k, (e.clientY - box.top) * k);
  }, { passive: false });
  canvas.addEventListener("dblclick", (e) => {
    const box = canvas.getBoundingClientRect(), k = scaleOf();
    zoom(4, (e.clientX - box.left) * k, (e.clientY - box.top) * k);
  });
  canvas.addEventListener("keydown", (e) => {
    const act = { "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), Enter: () => zoom(4), Escape: () => zoom(1 / 4), 0: fit,
      ArrowLeft: () => pan(-60, 0), ArrowRight: () => pan(60, 0), ArrowUp: () => pan(0, -60), ArrowDown: () => pan(0, 60) }[e.key];
    if (act) { e.preventDefault(); e.stopPropagation(); act(); }
  });
  $("map-in").addEventListener("click", () => zoom(2));
  $("map-out").addEventListener("click", () => zoom(1 / 2));
  $("map-whole").addEventListener("click", fit);
  addEventListener("resize", fit);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (map) { loadNode(); readColours(); soon(); } });
  page.hooks.draw.push(build);
  page.hooks.show.push((shown) => { if (shown === "machine") fit(); });
  page.pictures.map = () => {
    if (!map) return null;
    const svg = shape(null, "svg", { viewBox: `0 0 ${canvas.width} ${canvas.height}`, width: canvas.width, height: canvas.height });
    shape(svg, "image", { href: canvas.toDataURL("image/png"), width: canvas.width, height: canvas.height });
    return svg;
  };
  page.map = { zoom, pan, fit, frames: () => frames };
})();
