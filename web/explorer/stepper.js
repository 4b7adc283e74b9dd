// The stepper's clock, and what every rank's memory holds at a time: swatches up to 64 ranks, follow.js beyond.
const stepper = (() => {
  const { $, make, shape, three, hue, state, remember } = page;
  let schedule = null;
  let programOf = -1;
  let ends = [], most = 0, swatches = [], inputs = 0, owns = [];
  const whole = (holds) => holds.length >= most;
  const follows = () => schedule.follows !== null;
  const build = (data) => {
    pause();
    ({ schedule } = data);
    ends = [...new Set(schedule.moves.map((m) => m.end_us))].sort((a, b) => a - b);
    swatches = [];
    inputs = schedule.inputs.reduce((n, runs) => n + runs.reduce((k, [, count]) => k + count, 0), 0);
    owns = schedule.inputs.map((_, rank) => [rank]);
    programOf = -1;
    $("ranks").replaceChildren();
    $("verdict").textContent = schedule.verdict;
    $("verdict").classList.toggle("wrong", schedule.played && !schedule.proved);
    $("stepper-export").hidden = !schedule.played;
    const wired = wiring.build(data, choose);
    weave.build(data, (at) => { pause(); seek(at); });
    $("rows").hidden = !schedule.played || follows();
    $("rows").open = !wired || Boolean(schedule.wrong);
    showStrip(state.view);
    $("follow").hidden = !schedule.played || !follows();
    if (follow.build(schedule)) return drawTime();
    most = schedule.moves.reduce((n, m) => Math.max(n, m.holds.length), 1);
    for (let r = 0; r < (schedule.played ? schedule.ranks : 0); ++r) {
      const row = make("div", undefined, "rank");
      row.tabIndex = r === state.rank ? 0 : -1;
      row.setAttribute("role", "button");
      row.append(make("span", `rank ${r}`, "name"));
      const chunks = make("div", undefined, "chunks");
      row.append(chunks);
      row.addEventListener("click", () => choose(r));
      $("ranks").append(row);
      swatches.push({ row, chunks, cells: new Map() });
    }
    drawTime();
  };
  const showStrip = (view) => { $("strip").hidden = !schedule?.played || !(view === "stepper" || (view === "machine" && schedule.places?.length)); };
  const cellOf = (rank, chunk) => {
    const s = swatches[rank];
    let cell = s.cells.get(chunk);
    if (!cell) {
      cell = make("div", undefined, "swatch");
      cell.append(make("div", undefined, "threads"), make("small"));
      cell.dataset.chunk = chunk;
      const after = [...s.chunks.children].find((c) => Number(c.dataset.chunk) > chunk);
      s.chunks.insertBefore(cell, after || null);
      s.cells.set(chunk, cell);
    }
    return cell;
  };
  const fill = (cell, chunk, holds, moving) => {
    cell.classList.toggle("moving", moving);
    if (cell.holds === holds) return;
    cell.holds = holds;
    const threads = cell.firstChild;
    threads.replaceChildren();
    // Every contribution has its place; what is missing is casing.
    const places = most <= 16 && holds.every((r) => r < most) ? Array.from({ length: most }, (_, r) => (holds.includes(r) ? r : null)) : holds;
    for (const r of places) {
      const t = make("span", r !== null && most <= 8 ? String(r) : "", "thread");
      if (r !== null) t.style.background = hue(r);
      threads.append(t);
    }
    cell.lastChild.textContent = `chunk ${chunk}: ${holds.length}`;
    cell.classList.toggle("whole", whole(holds));
    cell.classList.toggle("input", owns.includes(holds));
  };
  // What every rank's memory holds at a time: the values of the moves that have ended by then.
  const kMostInputs = 512;  // more of them would hide what moves
  const heldAt = (at) => {
    const held = schedule.inputs.map((runs, rank) => new Map(inputs <= kMostInputs
      ? runs.flatMap(([first, count]) => Array.from({ length: count }, (_, i) => [first + i, owns[rank]])) : []));
    const moving = [];
    let last = null;
    for (const m of schedule.moves) {
      if (m.end_us <= at + 1e-9) {
        if (!last || m.end_us >= last.end_us) last = m;
        if (m.keeps) held[m.rank].set(m.chunk, m.holds);
        for (const r of m.to) {
          const now = held[r].get(m.chunk);
          if (!now || now.length <= m.holds.length) held[r].set(m.chunk, m.holds);
        }
      } else if (m.begin_us <= at) moving.push(m);
    }
    return { held, moving, last };
  };
  const clock = (said) => {
    const now = ends.filter((t) => t <= state.at + 1e-9).length;
    $("now").textContent = !said ? schedule.begins_said : now === ends.length && !schedule.wrong ? schedule.ended_said : `${now} of ${ends.length}: ${said.said}`;
    $("clock").textContent = schedule.timed ? `${three(state.at)} of ${three(schedule.total_us)} us` : `${three(state.at)} of ${three(schedule.total_us)} steps`;
    $("time").value = schedule.total_us > 0 ? Math.round((1000 * state.at) / schedule.total_us) : 0;
  };
  const drawTime = () => {
    if (!schedule.played) {
      $("now").textContent = $("program-title").textContent = "";
      $("program").replaceChildren();
      return;
    }
    if (follows()) {
      clock(follow.drawTime());
      return drawProgram();
    }
    const { held, moving, last } = heldAt(state.at);
    swatches.forEach((s, rank) => {
      for (const [chunk, cell] of s.cells) if (!held[rank].has(chunk)) { cell.remove(); s.cells.delete(chunk); }
      for (const [chunk, holds] of held[rank])
        fill(cellOf(rank, chunk), chunk, holds, moving.some((m) => m.rank === rank && m.chunk === chunk));
      s.row.classList.toggle("selected", rank === state.rank);
    });
    wiring.draw(state.at, held, moving, whole);
    weave.draw(state.at);
    for (const hook of page.hooks.time) hook(state.at);
    clock(moving[0] || last);
    drawWrong();
    drawProgram();
  };
  // The last frame of a schedule that is wrong: the chunk at which it stops, and the contribution that is concerned.
  const drawWrong = () => {
    const { wrong } = schedule, there = wrong && state.at >= schedule.total_us;
    for (const s of swatches) s.row.classList.toggle("wrong", Boolean(there) && swatches.indexOf(s) === wrong.rank);
    if (!there) return;
    if (wrong.chunk !== null) {
      const cell = cellOf(wrong.rank, wrong.chunk);
      cell.classList.add("wrong");
      cell.holds = null;
      if (wrong.peer !== null && !cell.querySelector(".missing")) cell.firstChild.append(make("span", `${wrong.peer} ✕`, "thread missing"));
      if (!cell.lastChild.textContent) cell.lastChild.textContent = `chunk ${wrong.chunk}`;
    }
    $("now").textContent = schedule.ended_said;
  };
  const drawProgram = () => {
    const mine = schedule.moves.filter((m) => m.rank === state.rank).slice(0, 400);
    if (programOf !== state.rank) {
      programOf = state.rank;
      $("program-title").textContent = follows() ? `Rank ${state.rank} with chunk ${schedule.follows}` : `Program of rank ${state.rank}`;
      $("program").replaceChildren(...mine.map((m) => make("li", m.text)));
    }
    [...$("program").children].forEach((li, i) => {
      const m = mine[i];
      const lit = m.begin_us <= state.at && m.end_us > state.at;
      li.className = lit ? "lit" : m.end_us <= state.at ? "done" : "";
      const { wrong } = schedule;
      li.classList.toggle("wrong", Boolean(wrong) && wrong.rank === state.rank && wrong.lane === m.lane && wrong.step === m.step);
      if (lit) li.setAttribute("aria-current", "step");
      else li.removeAttribute("aria-current");
    });
  };
  const seek = (at) => {
    state.at = Math.min(Math.max(at, 0), schedule.total_us);
    drawTime();
  };
  const choose = (rank) => {
    if (!schedule.played) return;
    if (!follows()) swatches[state.rank].row.tabIndex = -1;
    state.rank = (rank + schedule.ranks) % schedule.ranks;
    if (!follows()) swatches[state.rank].row.tabIndex = 0;
    drawTime();
    remember(false);
  };
  const step = (by) => {
    pause();
    const later = ends.find((t) => t > state.at + 1e-9), earlier = ends.findLast((t) => t < state.at - 1e-9);
    seek(by > 0 ? later ?? schedule.total_us : earlier ?? 0);
    remember(false);
  };
  // A run takes six seconds, however short it is; with reduced motion it goes step by step.
  let timer = null;
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const pause = () => {
    if (timer !== null) cancelAnimationFrame(timer);
    timer = null;
    $("play").textContent = "Play";
  };
  const play = () => {
    if (timer !== null) { pause(); remember(false); return; }
    if (still.matches) { step(1); return; }
    if (state.at >= schedule.total_us) state.at = 0;
    let before = performance.now();
    $("play").textContent = "Pause";
    const frame = (now) => {
      seek(state.at + ((now - before) / 6000) * schedule.total_us);
      before = now;
      if (state.at >= schedule.total_us) { pause(); remember(false); } else timer = requestAnimationFrame(frame);
    };
    timer = requestAnimationFrame(frame);
  };

  // The frame as a picture: a row of swatches per rank.
  const picture = () => {
    if (follows()) return follow.picture();
    if (wiring.picture()) return wiring.picture();
    const { held } = heldAt(state.at);
    const wide = 12, high = 30, left = 70;
    const columns = Math.max(1, ...held.map((h) => h.size));
    const width = left + columns * (Math.max(most * wide, 60) + 10), height = schedule.ranks * (high + 22) + 20;
    const svg = shape(null, "svg", { viewBox: `0 0 ${width} ${height}`, width, height });
    held.forEach((chunks, rank) => {
      const y = 10 + rank * (high + 22);
      shape(svg, "text", { x: 4, y: y + 20, fill: "var(--ink)", "font-weight": 600 }, `rank ${rank}`);
      [...chunks].sort((a, b) => a[0] - b[0]).forEach(([chunk, holds], i) => {
        const x = left + i * (Math.max(most * wide, 60) + 10), each = Math.max(most * wide, 60) / Math.max(most, 1);
        shape(svg, "rect", { x, y, width: each * most, height: high, fill: "var(--casing)", stroke: whole(holds) ? "var(--ink)" : "var(--edge)" });
        holds.forEach((r, k) => shape(svg, "rect", { x: x + k * each, y, width: Math.max(each - 1, 0.5), height: high, fill: hue(r) }));
        shape(svg, "text", { x, y: y + high + 13, fill: "var(--ink-2)" }, `chunk ${chunk}: ${holds.length}`);
      });
    });
    return svg;
  };
  page.pictures.stepper = () => (schedule.played ? picture() : null);
  page.hooks.draw.push(build);
  page.hooks.show.push((view) => { if (view !== "stepper" && view !== "machine") pause(); showStrip(view); });
  let wide = innerWidth < 620;
  addEventListener("resize", () => { if (wide !== innerWidth < 620) { wide = innerWidth < 620; build(page.data()); } });
  page.hooks.follow.push(() => drawTime());
  $("play").addEventListener("click", play);
  $("back").addEventListener("click", () => step(-1));
  $("next").addEventListener("click", () => step(1));
  $("first").addEventListener("click", () => { pause(); seek(0); remember(false); });
  $("time").addEventListener("input", () => { pause(); seek((Number($("time").value) / 1000) * schedule.total_us); });
  $("time").addEventListener("change", () => remember(false));
  // The collectives that frameworks call, by click, each with PyTorch's call.
  const kCalls = [["all_reduce", "dist.all_reduce(x)"], ["broadcast", "dist.broadcast(x, src=0)"], ["all_gather", "dist.all_gather_into_tensor(out, x)"], ["reduce_scatter", "dist.reduce_scatter_tensor(out, x)"], ["all_to_all", "dist.all_to_all_single(out, x)"]];
  const drawCalls = () => {
    const now = page.words().collective, call = kCalls.find(([name]) => name === now)?.[1];
    $("five").hidden = !page.choices();
    $("five").replaceChildren(make("span", "Collectives", "quiet"), ...kCalls.map(([name]) => {
      const b = make("button", name);
      if (name === now) b.setAttribute("aria-current", "true");
      b.addEventListener("click", () => page.question({ ...page.words(), collective: name, algo: "", proto: "", chunk: -1 }, true));
      return b;
    }), ...(call ? [make("span", "In PyTorch", "quiet"), make("code", call)] : []));
  };
  page.hooks.core.push(drawCalls);
  page.hooks.draw.push(drawCalls);
  const focusRow = () => (follows() ? $("matrix") : swatches[state.rank]?.row)?.focus();
  return {
    step, play, choose, pause, playing: () => timer !== null,
    first: () => { pause(); seek(0); }, last: () => { pause(); seek(schedule.total_us); },
    above: () => { choose(state.rank - 1); focusRow(); }, below: () => { choose(state.rank + 1); focusRow(); },
  };
})();
