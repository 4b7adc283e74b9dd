// One chunk on its way through up to 1,024 ranks: a matrix, row = rank, column = whose contribution its copy holds.
const follow = (() => {
  const { $, shape, state } = page;
  let schedule = null;
  let runs = [];        // by rank: the runs [first, count] that its copy holds now
  let counts = [];      // … and how many contributions that is
  let next = 0, at = -1;  // moves in the order of their ends that are applied, and the time up to which
  let byEnd = [], wanted = null, all = 0;
  let colours = null, context = null, image = null, pixels = null;
  let low = 0, high = -1;  // rows that are not on the canvas yet
  const matrix = $("matrix");
  const sum = (list) => list.reduce((n, [, count]) => n + count, 0);
  const inside = (list, rank) => list.some(([first, count]) => rank >= first && rank < first + count);

  const readColours = () => {
    const style = getComputedStyle(document.documentElement);
    const rgb = (name) => {  // as a pixel of little-endian machines, which all browsers run on
      const hex = style.getPropertyValue(name).trim();
      const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
      return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
    };
    colours = { empty: rgb("--casing"), part: rgb("--pass-b"), whole: rgb("--model"), you: rgb("--you-mark") };
  };
  const drawRow = (rank) => {
    const n = schedule.ranks, start = rank * n;
    pixels.fill(colours.empty, start, start + n);
    const fill = rank === state.rank ? colours.you : counts[rank] >= all ? colours.whole : colours.part;
    for (const [first, count] of runs[rank]) pixels.fill(fill, start + first, start + first + count);
    if (high < low) low = high = rank;
    else { low = Math.min(low, rank); high = Math.max(high, rank); }
  };
  const flush = () => {
    if (high >= low) context.putImageData(image, 0, 0, 0, low, schedule.ranks, high - low + 1);
    low = 0;
    high = -1;
  };
  const reset = () => {
    const n = schedule.ranks;
    // Before the first step a rank holds its own contribution.
    runs = Array.from({ length: n }, (_, r) => (inside(schedule.starts, r) ? [[r, 1]] : []));
    counts = runs.map(sum);
    next = 0;
    at = -1;
    for (let r = 0; r < n; ++r) drawRow(r);
  };
  const put = (rank, move, changed) => {
    const count = move.count;
    if (count < counts[rank]) return;  // it has more already
    runs[rank] = move.held;
    counts[rank] = count;
    changed.add(rank);
  };

  // Draws what has changed since the last frame. Returns the move that is under way, or else the last that has ended.
  let shownRank = -1;
  const drawTime = () => {
    const changed = new Set();
    if (state.at < at) reset();
    for (; next < byEnd.length && byEnd[next].end_us <= state.at + 1e-9; ++next) {
      const m = byEnd[next];
      if (m.keeps) put(m.rank, m, changed);
      for (const r of m.to) put(r, m, changed);
    }
    at = state.at;
    if (shownRank !== state.rank) changed.add(state.rank).add(Math.max(shownRank, 0));
    shownRank = state.rank;
    for (const rank of changed) drawRow(rank);
    flush();
    const n = schedule.ranks;
    $("followed-rank").style.top = `${(100 * state.rank) / n}%`;
    $("followed-rank").style.height = `${100 / n}%`;
    $("matrix-said").textContent = `rank ${state.rank}: ${counts[state.rank]} of ${all}`;
    const done = counts.reduce((k, c, r) => k + (c >= all && inside(schedule.ends, r) ? 1 : 0), 0);
    $("matrix-done").textContent = `${done} of ${wanted} ranks are whole`;
    const moving = byEnd.find((m, i) => i >= next && m.begin_us <= state.at);
    return moving ?? (next > 0 ? byEnd[next - 1] : null);
  };

  // True: the answer follows a chunk.
  const build = (given) => {
    schedule = given;
    const is = schedule.played && schedule.follows !== null;
    $("ranks").hidden = is;
    if (!is) return false;
    const n = schedule.ranks;
    byEnd = [...schedule.moves].sort((a, b) => a.end_us - b.end_us);
    for (const m of byEnd) m.count = sum(m.held);
    all = sum(schedule.starts);
    wanted = sum(schedule.ends);
    matrix.width = matrix.height = n;
    matrix.setAttribute("aria-label", `Ranks from top to bottom, contributions to chunk ${schedule.follows} from left to right; the sentence beside it says each step`);
    context = matrix.getContext("2d");
    image = context.createImageData(n, n);
    pixels = new Uint32Array(image.data.buffer);
    $("follow-chunk").value = schedule.follows;
    $("follow-chunk").max = schedule.chunks - 1;
    $("follow-chunk").disabled = !page.choices();
    $("follow-of").textContent = `of ${schedule.chunks}`;
    shownRank = -1;
    readColours();
    reset();
    return true;
  };

  // The frame as a picture: a rectangle for every run.
  const picture = () => {
    const n = schedule.ranks, size = 768, each = size / n;
    const svg = shape(null, "svg", { viewBox: `0 0 ${size} ${size + 24}`, width: size, height: size + 24 });
    shape(svg, "rect", { x: 0, y: 0, width: size, height: size, fill: "var(--casing)" });
    runs.forEach((list, rank) => list.forEach(([first, count]) =>
      shape(svg, "rect", { x: first * each, y: rank * each, width: count * each, height: each,
        fill: rank === state.rank ? "var(--you-mark)" : counts[rank] >= all ? "var(--model)" : "var(--pass-b)" })));
    shape(svg, "text", { x: 0, y: size + 17, fill: "var(--ink)" }, `${$("now").textContent}`);
    return svg;
  };

  matrix.addEventListener("click", (e) => {
    const box = matrix.getBoundingClientRect();
    stepper.choose(Math.min(Math.floor(((e.clientY - box.top) / box.height) * schedule.ranks), schedule.ranks - 1));
  });
  $("follow-chunk").addEventListener("change", () => {
    const chunk = Number($("follow-chunk").value);
    if (Number.isInteger(chunk) && chunk >= 0) page.question({ ...page.words(), chunk }, true);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    if (!context || !schedule?.played || schedule.follows === null) return;
    readColours();
    for (let r = 0; r < schedule.ranks; ++r) drawRow(r);
    flush();
  });
  page.hooks.core.push(() => { $("follow-chunk").disabled = false; });
  return { build, drawTime, picture };
})();
