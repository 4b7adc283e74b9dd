// Up to eight GPUs on their wiring: what each memory holds, and every message on the links that it takes. A link is as
// wide as its rate, each way, to one scale.
const wiring = (() => {
  const { $, shape, three, hue, state } = page;
  const kMostRanks = 8, kMostChunks = 64;
  let schedule = null, machine = null, scene = null, narrow = false, chosen = null;
  const middle = (box) => [box.x + box.w / 2, box.y + box.h / 2];
  const clamp = (v, low, high) => Math.min(Math.max(v, low), high);

  // ---- where things stand ----
  // GPUs around the edge, so that neighbours of a ring are neighbours here.
  const placeGpus = (ranks) => {
    const columns = ranks <= 4 || narrow ? 2 : 4, rows = Math.ceil(ranks / columns);
    const width = narrow ? 440 : 1000, w = narrow ? 172 : columns === 2 ? 320 : 218, h = narrow ? 128 : 150;
    const gapY = columns === 4 ? 200 : rows === 1 ? 0 : narrow ? 64 : 118;
    const across = (i, n, size, all) => (n === 1 ? (all - size) / 2 : (i * (all - size)) / (n - 1));
    const boxes = Array.from({ length: ranks }, (_, rank) => {
      let row, column;
      if (columns === 2) {  // down the left, up the right
        row = rank < rows ? rank : 2 * rows - 1 - rank;
        column = rank < rows ? 0 : 1;
        if (ranks % 2 && rank >= rows) row = ranks - 1 - rank;
      } else {
        row = rank < columns ? 0 : 1;
        column = row ? ranks - 1 - rank : rank;
      }
      return { x: across(column, columns, w, width), y: row * (h + gapY), w, h, rank };
    });
    return { boxes, width, height: Math.max(...boxes.map((b) => b.y + b.h)), columns };
  };
  // Switches and processors between them: in the middle of what they join. Equal ones are one with a count.
  const placeHubs = (names, neighbours, at, layout) => {
    const groups = new Map();
    for (const name of names) {
      const device = machine.devices.find((d) => d.name === name);
      const key = `${device?.kind} ${[...neighbours.get(name)].sort()}`;
      if (!groups.has(key)) groups.set(key, { names: [], kind: device?.kind ?? "", model: device?.model ?? "" });
      groups.get(key).names.push(name);
    }
    const centre = [layout.width / 2, layout.height / 2], hubs = new Map();
    for (const hub of groups.values()) for (const name of hub.names) hubs.set(name, hub);
    const near = (hub) => [...new Set([...neighbours.get(hub.names[0])].map((n) => at.get(n) ?? hubs.get(n)))].filter((o) => o && o !== hub);
    for (const hub of groups.values()) [hub.cx, hub.cy] = centre;
    for (let i = 0; i < 20; ++i)
      for (const hub of groups.values()) {
        const points = near(hub).map((o) => (o.w && o.rank !== undefined ? middle(o) : [o.cx, o.cy]));
        if (!points.length) continue;
        const gpus = near(hub).filter((o) => o.rank !== undefined).length;
        [hub.cx, hub.cy] = [0, 1].map((k) => points.reduce((n, p) => n + p[k], 0) / points.length);
        if (gpus < layout.boxes.length && gpus) [hub.cx, hub.cy] = [hub.cx + 0.58 * (centre[0] - hub.cx) * (layout.columns === 2 ? 1 : 0), hub.cy + 0.58 * (centre[1] - hub.cy) * (layout.columns === 4 ? 1 : 0)];
      }
    for (const hub of groups.values()) sizeHub(hub, near(hub), layout);
    apart([...groups.values()], layout);
    return hubs;
  };
  // A hub that joins GPUs only reaches from the first to the last of them.
  const sizeHub = (hub, near, layout) => {
    const all = near.length > 1 && near.every((o) => o.rank !== undefined);
    const xs = near.filter((o) => o.rank !== undefined).map((o) => middle(o)[0]), ys = near.filter((o) => o.rank !== undefined).map((o) => middle(o)[1]);
    Object.assign(hub, { w: narrow ? 64 : 164, h: 52 });
    if (all && layout.columns === 4) hub.w = Math.max(...xs) - Math.min(...xs) + 90;
    if (all && layout.columns === 2) hub.h = Math.max(Math.max(...ys) - Math.min(...ys) + 70, 70);
    hub.x = hub.cx - hub.w / 2;
    hub.y = hub.cy - hub.h / 2;
  };
  const apart = (hubs, layout) => {
    const axis = layout.columns === 4 ? ["x", "w"] : ["y", "h"];
    hubs.sort((a, b) => a[axis[0]] - b[axis[0]]);
    hubs.forEach((hub, i) => {
      for (const before of hubs.slice(0, i)) {
        const over = hub.x < before.x + before.w && before.x < hub.x + hub.w && hub.y < before.y + before.h && before.y < hub.y + hub.h;
        if (over) hub[axis[0]] = before[axis[0]] + before[axis[1]] + 14;
      }
    });
  };

  // ---- which way messages go ----
  const ways = () => {
    const found = new Map(), memories = new Set(machine.devices.filter((d) => d.kind === "memory").map((d) => d.name));
    for (const p of machine.paths) {
      if (!p.via) continue;
      const via = p.via.filter((d) => !memories.has(d));  // a copy in host memory stays within its CPU
      found.set(`${p.from}>${p.to}`, via);
      found.set(`${p.to}>${p.from}`, [...via].reverse());
    }
    return found;
  };
  // From the border of one box to that of the next: straight where one lies beside the other.
  const between = (a, b) => {
    const [ax, ay] = middle(a), [bx, by] = middle(b);
    const from = [clamp(bx, a.x, a.x + a.w), clamp(by, a.y, a.y + a.h)], to = [clamp(ax, b.x, b.x + b.w), clamp(ay, b.y, b.y + b.h)];
    const overlapX = Math.min(a.x + a.w, b.x + b.w) - Math.max(a.x, b.x), overlapY = Math.min(a.y + a.h, b.y + b.h) - Math.max(a.y, b.y);
    if (overlapX > 12) {
      const wide = a.w < b.w ? a : b, x = clamp(middle(wide)[0], Math.max(a.x, b.x) + 6, Math.min(a.x + a.w, b.x + b.w) - 6);
      from[0] = to[0] = x;
    } else if (overlapY > 12) {
      const high = a.h < b.h ? a : b, y = clamp(middle(high)[1], Math.max(a.y, b.y) + 6, Math.min(a.y + a.h, b.y + b.h) - 6);
      from[1] = to[1] = y;
    }
    return [from, to];
  };

  // ---- drawing what stays ----
  const key = (a, b) => (a < b ? `${a} ${b}` : `${b} ${a}`);
  const rateSaid = (e) => {
    const was = e.was !== undefined && e.was !== e.GBps;
    return e.GBps === 0 ? "broken" : was ? `${three(e.GBps)} of ${three(e.was)}` : `${three(e.GBps)} GB/s`;
  };
  const drawLink = (layer, e, scale, labels) => {
    const [a, b] = between(e.a, e.b), length = Math.hypot(b[0] - a[0], b[1] - a[1]) || 1;
    const normal = [-(b[1] - a[1]) / length, (b[0] - a[0]) / length], full = Math.max(e.was ?? 0, e.GBps) * scale;
    e.wide = Math.max(full, 1.5);
    e.lanes = [1, -1].map((side) => {
      const off = side * (e.wide / 2 + 1.5);
      const at = { x1: a[0] + normal[0] * off, y1: a[1] + normal[1] * off, x2: b[0] + normal[0] * off, y2: b[1] + normal[1] * off };
      shape(layer, "line", { ...at, stroke: e.GBps === 0 ? "var(--fault)" : "var(--edge)", "stroke-width": e.wide + 1.6 });
      const lane = shape(layer, "line", { ...at, stroke: "var(--casing)", "stroke-width": e.GBps === 0 ? e.wide : Math.max(e.GBps * scale, 1.2), class: "lane" });
      if (e.GBps === 0) lane.setAttribute("stroke-dasharray", "7 5");
      else if (e.was !== undefined && e.was > e.GBps) lane.setAttribute("class", "lane less");
      return lane;
    });
    const [x, y] = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2], level = Math.abs(b[1] - a[1]) < Math.abs(b[0] - a[0]);
    if (length < 30 || (narrow && e.GBps > 0 && e.was === undefined && labels.some((l) => l.GBps === e.GBps && l.kind === e.kind))) return;
    if (labels.some((l) => Math.abs(l.x - x) < 70 && Math.abs(l.y - y) < 34)) return;
    labels.push({ x, y, GBps: e.GBps, kind: e.kind });
    const left = level ? { x, "text-anchor": "middle" } : { x: x + e.wide + 17, "text-anchor": "start" };
    const top = level ? y - e.wide - 20 : y - 2;
    const colour = e.GBps === 0 || e.was > e.GBps ? "var(--fault)" : "var(--ink)";
    shape(layer, "text", { ...left, y: top, class: "name", fill: colour }, e.kind);
    shape(layer, "text", { ...left, y: level ? y + e.wide + 16 : top + 15, class: "tick", fill: colour === "var(--ink)" ? "var(--ink-2)" : colour }, rateSaid(e));
  };
  const drawHub = (layer, hub) => {
    shape(layer, "rect", { x: hub.x, y: hub.y, width: hub.w, height: hub.h, rx: 5, class: "hub" });
    const [x, y] = middle(hub), name = hub.names.length > 1 ? `${hub.names.length} × ${hub.names[0].replace(/\d+$/, "")}` : hub.names[0];
    shape(layer, "text", { x, y: y + (hub.model && !narrow ? -1 : 4), class: "name", "text-anchor": "middle" }, name);
    if (hub.model && !narrow) shape(layer, "text", { x, y: y + 15, class: "tick", "text-anchor": "middle" }, hub.model).style.fontSize = `${Math.min(12, (hub.w - 14) / (0.6 * hub.model.length))}px`;
  };
  // The box of a GPU with a swatch per chunk: a column of it for every rank's contribution.
  const drawGpu = (layer, box, ranks) => {
    const g = shape(layer, "g", { class: "gpu", "data-rank": box.rank });
    shape(g, "rect", { x: box.x, y: box.y, width: box.w, height: box.h, rx: 6, class: "box" });
    shape(g, "text", { x: box.x + 14, y: box.y + 22, class: "strong" }, schedule.places[box.rank]);
    shape(g, "circle", { cx: box.x + 14 + 9 * schedule.places[box.rank].length + 14, cy: box.y + 17, r: 9, fill: hue(box.rank) });
    shape(g, "text", { x: box.x + 14 + 9 * schedule.places[box.rank].length + 14, y: box.y + 21.5, "text-anchor": "middle", class: "number" }, box.rank);
    const chunks = schedule.chunks, inner = box.w - 24, space = box.h - 34;
    let columns = Math.min(chunks, Math.max(1, Math.floor(inner / (narrow ? 34 : 44))));
    while (Math.ceil(chunks / columns) * 26 > space && columns < chunks) ++columns;
    const rows = Math.ceil(chunks / columns), w = inner / columns - 8, high = space / rows, h = Math.max(high - 20, 4);
    box.cells = Array.from({ length: chunks }, (_, chunk) => {
      const x = box.x + 14 + (chunk % columns) * (w + 8), y = box.y + 32 + Math.floor(chunk / columns) * high;
      const frame = shape(g, "rect", { x, y, width: w, height: h, class: "chunk" });
      const threads = Array.from({ length: ranks }, (_, r) => shape(g, "rect", { x: x + (r * w) / ranks, y, width: Math.max(w / ranks - 0.6, 0.5), height: h, fill: hue(r), visibility: "hidden" }));
      const edge = shape(g, "rect", { x, y, width: w, height: h, class: "around" });
      if (high > 22 && w > 17) shape(g, "text", { x: x + w / 2, y: y + h + 13, class: "tick", "text-anchor": "middle" }, w > 46 ? `chunk ${chunk}` : chunk);
      return { frame, threads, edge, holds: null };
    });
    box.waiting = shape(g, "g", {});
    g.addEventListener("click", () => chosen?.(box.rank));
    return g;
  };
  // Links among what is shown, those of equal hubs together.
  const linksOf = (boxOf) => {
    const edges = new Map();
    for (const l of machine.links) {
      const a = boxOf(l.a), b = boxOf(l.b);
      if (!a || !b || a === b) continue;
      const id = key(a.id, b.id), e = edges.get(id) ?? { a, b, kind: l.kind, GBps: 0, was: undefined };
      e.GBps += l.ab_GBps;
      if (l.healthy || e.was !== undefined) e.was = (e.was ?? e.GBps - l.ab_GBps) + (l.healthy?.ab_GBps ?? l.ab_GBps);
      edges.set(id, e);
    }
    return edges;
  };

  const build = (data, choose) => {
    ({ schedule, machine } = data);
    chosen = choose;
    scene = null;
    const { places = [], ranks } = schedule;
    const fits = schedule.played && schedule.follows === null && places.length === ranks && ranks >= 2 && ranks <= kMostRanks && schedule.chunks >= 1 && schedule.chunks <= kMostChunks;
    $("wiring").hidden = !fits;
    if (!fits) return false;
    narrow = innerWidth < 620;
    const layout = placeGpus(ranks), at = new Map(places.map((p, rank) => [p, layout.boxes[rank]])), way = ways();
    const shown = new Set();
    for (const m of schedule.moves) for (const to of m.to) for (const d of way.get(`${places[m.rank]}>${places[to]}`) ?? []) shown.add(d);
    for (const l of machine.links) if (l.healthy && (at.has(l.a) || at.has(l.b)) ) for (const d of [l.a, l.b]) if (at.has(d) || shown.has(d)) shown.add(d);
    const neighbours = new Map([...shown].map((d) => [d, new Set()]));
    for (const l of machine.links) if ((shown.has(l.a) || at.has(l.a)) && (shown.has(l.b) || at.has(l.b))) { neighbours.get(l.a)?.add(l.b); neighbours.get(l.b)?.add(l.a); }
    const hubs = placeHubs([...shown].filter((d) => !at.has(d)), neighbours, at, layout);
    layout.boxes.forEach((b, i) => { b.id = places[i]; });
    for (const h of hubs.values()) h.id = h.names[0];
    const boxOf = (name) => at.get(name) ?? hubs.get(name);
    const edges = linksOf(boxOf), top = Math.max(1e-9, ...[...edges.values()].map((e) => Math.max(e.GBps, e.was ?? 0)));
    const scale = (narrow ? 11 : 21) / top;
    const svg = shape(null, "svg", { viewBox: `-4 -4 ${layout.width + 8} ${layout.height + 34}`, role: "img", class: "wiring", "aria-label": `${schedule.collective} on the wiring of ${machine.name}` });
    const under = shape(svg, "g", {}), above = shape(svg, "g", {}), labels = [];
    for (const hub of new Set(hubs.values())) drawHub(above, hub);
    for (const e of edges.values()) drawLink(under, e, scale, labels);
    for (const box of layout.boxes) drawGpu(above, box, ranks);
    const nice = [1, 2, 5, 10, 20, 50, 100, 200, 500].findLast((v) => v <= top / 2) ?? 1;
    shape(svg, "line", { x1: 0, x2: 26, y1: layout.height + 20, y2: layout.height + 20, stroke: "var(--ink)", "stroke-width": nice * scale });
    shape(svg, "text", { x: 34, y: layout.height + 24, class: "tick" }, `${nice} GB/s each way; links as wide as their rates`);
    const fly = shape(svg, "g", {});
    scene = { svg, boxes: layout.boxes, edges, fly, way, boxOf };
    $("wiring").replaceChildren(svg);
    prepare();
    return true;
  };

  // ---- what moves ----
  // Every message with the points it passes, and the time until which it waits at its receiver.
  let messages = [];
  const prepare = () => {
    const { way, boxOf, edges } = scene, { places } = schedule;
    messages = schedule.moves.flatMap((m) => m.to.map((to) => {
      const via = way.get(`${places[m.rank]}>${places[to]}`) ?? [places[m.rank], places[to]];
      const boxes = via.map(boxOf).filter((b, i, all) => b && b !== all[i - 1]), points = [], used = [];
      for (let i = 1; i < boxes.length; ++i) {
        const e = edges.get(key(boxes[i - 1].id, boxes[i].id)), ends = between(boxes[i - 1], boxes[i]);
        const [a, b] = ends, length = Math.hypot(b[0] - a[0], b[1] - a[1]) || 1, off = ((e?.wide ?? 4) / 2 + 1.5);
        const n = [-(b[1] - a[1]) / length * off, (b[0] - a[0]) / length * off];
        points.push([a[0] + n[0], a[1] + n[1]], [b[0] + n[0], b[1] + n[1]]);
        if (e) used.push(e.lanes[e.a === boxes[i - 1] ? 0 : 1]);
      }
      const next = schedule.moves.find((o) => o.rank === to && o.chunk === m.chunk && o.begin_us >= m.end_us - 1e-9);
      return { m, to, points, used, until: next ? next.begin_us : m.end_us };
    }));
  };
  const pointAt = (points, part) => {
    const lengths = points.slice(1).map((p, i) => Math.hypot(p[0] - points[i][0], p[1] - points[i][1]));
    let left = part * lengths.reduce((n, l) => n + l, 0);
    for (let i = 0; i < lengths.length; ++i) {
      if (left <= lengths[i] || i === lengths.length - 1) {
        const t = lengths[i] ? Math.min(left / lengths[i], 1) : 1;
        return [points[i][0] + t * (points[i + 1][0] - points[i][0]), points[i][1] + t * (points[i + 1][1] - points[i][1])];
      }
      left -= lengths[i];
    }
    return points[0];
  };
  const bundle = (parent, x, y, holds, w, h) => {
    const g = shape(parent, "g", { transform: `translate(${(x - w / 2).toFixed(1)} ${(y - h / 2).toFixed(1)})` });
    shape(g, "rect", { x: -1.5, y: -1.5, width: w + 3, height: h + 3, rx: 2, fill: "var(--sheet)", stroke: "var(--ink)", "stroke-width": 1.2 });
    holds.forEach((r, i) => shape(g, "rect", { x: (i * w) / holds.length, y: 0, width: w / holds.length + 0.2, height: h, fill: hue(r) }));
    return g;
  };
  const drawMemory = (box, held, moving, whole) => {
    box.cells.forEach((cell, chunk) => {
      const holds = held.get(chunk) ?? null;
      cell.edge.setAttribute("class", `around${holds && whole(holds) ? " whole" : ""}${moving.some((m) => m.rank === box.rank && m.chunk === chunk) ? " moving" : ""}`);
      if (cell.holds === holds) return;
      cell.holds = holds;
      cell.threads.forEach((t, r) => t.setAttribute("visibility", holds?.includes(r) ? "visible" : "hidden"));
    });
  };
  // `held`: by rank, what every chunk holds now; `moving`: the moves under way.
  const draw = (at, held, moving, whole) => {
    if (!scene) return;
    const { boxes, fly, edges } = scene, waiting = boxes.map(() => []);
    fly.replaceChildren();
    for (const e of edges.values()) for (const lane of e.lanes) lane.classList.remove("busy");
    const there = new Map();  // how many are at the same place: those behind it stand a little aside
    for (const { m, to, points, used, until } of messages) {
      if (m.begin_us <= at && at < m.end_us && points.length > 1) {
        const part = (at - m.begin_us) / Math.max(m.end_us - m.begin_us, 1e-9), [x, y] = pointAt(points, part), place = `${Math.round(x / 8)} ${Math.round(y / 8)}`;
        const n = there.get(place) ?? 0;
        there.set(place, n + 1);
        for (const lane of used) lane.classList.add("busy");
        if (n < 4) bundle(fly, x + 4 * n, y - 4 * n, m.holds, narrow ? 18 : 24, narrow ? 14 : 18);
      } else if (m.end_us <= at && at < until) waiting[to].push(m);
    }
    boxes.forEach((box) => {
      drawMemory(box, held[box.rank], moving, whole);
      scene.svg.querySelector(`[data-rank="${box.rank}"]`).classList.toggle("selected", box.rank === state.rank);
      box.waiting.replaceChildren();
      const list = waiting[box.rank].slice(0, narrow ? 2 : 6);
      if (!list.length) return;
      const x = box.x + box.w - 14 - list.length * 22;
      if (!narrow) shape(box.waiting, "text", { x: x - 6, y: box.y + 21, "text-anchor": "end", class: "tick" }, "waiting");
      list.forEach((m, i) => bundle(box.waiting, x + 8 + i * 22, box.y + 16, m.holds, 14, 12));
    });
  };
  // Lit in the machine's own picture, too: the links that carry something now.
  const carrying = (at) => {
    const all = new Set(), way = machine ? ways() : new Map(), { places = [] } = schedule ?? {};
    for (const m of schedule?.moves ?? [])
      if (m.begin_us <= at && at < m.end_us)
        for (const to of m.to) {
          const via = way.get(`${places[m.rank]}>${places[to]}`) ?? [];
          for (let i = 1; i < via.length; ++i) all.add(key(via[i - 1], via[i]));
        }
    return all;
  };
  return { build, draw, carrying, key, picture: () => scene?.svg ?? null, narrowNow: () => narrow };
})();
