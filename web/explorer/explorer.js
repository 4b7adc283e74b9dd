// Draws what the core computed (weft.explorer/1 in the element "data"). The page holds no rate, formula or algorithm: it
// plays the moves at the times that the simulator gave them and counts contributions that the verifier found.
"use strict";
(() => {
  let data = JSON.parse(document.getElementById("data").textContent);
  let { machine, schedule, curves } = data;
  const $ = (id) => document.getElementById(id);
  const make = (tag, text, className) => {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    if (className) e.className = className;
    return e;
  };
  const three = (x) => (x === 0 ? "0" : Number(x.toPrecision(3)).toString());
  const sizeText = (b) => (b >= 2 ** 30 ? `${three(b / 2 ** 30)} GiB` : b >= 2 ** 20 ? `${three(b / 2 ** 20)} MiB`
    : b >= 1024 ? `${three(b / 1024)} KiB` : `${b} B`);
  const hue = (rank) => `var(--r${rank % 8})`;

  const say = (text, wrong) => {
    $("answer").textContent = text;
    $("answer").classList.toggle("wrong", Boolean(wrong));
  };
  const drawSentences = () => {
    $("question").textContent = data.question;
    say(data.answer);
    $("command").textContent = data.command;
    document.title = `${data.question} | weft explorer`;
  };

  // ---- state in the link: the question's words, view, time, rank ----
  const views = ["machine", "stepper", "curves"];
  const state = { view: "stepper", at: 0, rank: 0 };
  const read = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    if (views.includes(given.get("view"))) state.view = given.get("view");
    const at = Number(given.get("at")), rank = Number(given.get("rank"));
    if (Number.isFinite(at)) state.at = Math.min(Math.max(at, 0), schedule.total_us);
    if (Number.isInteger(rank) && rank >= 0 && rank < schedule.ranks) state.rank = rank;
  };
  // Words of the question, as `weft explore` takes them. Dropped files stay here: a link cannot name them.
  const keys = { collective: "collective", on: "on", bytes: "bytes", dtype: "dtype", algo: "algo", proto: "proto", ranks: "ranks" };
  const first = data.words;  // what a link means that names none
  const dropped = new Set();
  const given = () => {
    const all = new URLSearchParams(location.hash.slice(1)), words = { ...first };
    for (const [key, name] of Object.entries(keys))
      if (all.has(name)) words[key] = key === "ranks" ? Number(all.get(name)) : all.get(name);
    return words;
  };
  const link = () => {
    const all = new URLSearchParams({ view: state.view, at: Number(state.at.toFixed(3)), rank: state.rank });
    for (const [key, name] of Object.entries(keys)) {
      const word = data.words[key];
      if (word !== "" && word !== -1 && !dropped.has(word)) all.set(name, word);
    }
    return "#" + all;
  };
  const remember = (push) => history[push ? "pushState" : "replaceState"](null, "", link());

  const show = (view, push) => {
    state.view = view;
    for (const v of views) $(v).classList.toggle("shown", v === view);
    for (const b of document.querySelectorAll("nav [data-view]"))
      if (b.dataset.view === view) b.setAttribute("aria-current", "page");
      else b.removeAttribute("aria-current");
    if (view !== "stepper") pause();
    if (push) remember(true);
  };

  // ---- machine ----
  const table = (element, columns, rows, classes) => {
    element.replaceChildren();
    const head = element.createTHead().insertRow();
    for (const [title, number] of columns) {
      const th = make("th", title, number ? "n" : "");
      th.scope = "col";
      head.append(th);
    }
    const body = element.createTBody();
    rows.forEach((row, i) => {
      const tr = body.insertRow();
      if (classes && classes[i]) tr.className = classes[i];
      row.forEach((cell, c) => tr.append(make("td", cell, columns[c][1] ? "n" : "")));
    });
  };
  const drawLinks = () => {
    const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = machine.links.filter((l) => words.every((w) => `${l.a} ${l.b} ${l.kind}`.toLowerCase().includes(w)));
    table($("links"), [["From"], ["To"], ["Kind"], ["Links or lanes", 1], ["GB/s there", 1], ["GB/s back", 1], ["ns", 1]],
      rows.map((l) => [l.a, l.b, l.kind, l.count, three(l.ab_GBps), three(l.ba_GBps), three(l.latency_ns)]));
  };
  const drawPath = () => {
    const a = $("from").value, b = $("to").value;
    const p = machine.paths.find((x) => (x.from === a && x.to === b) || (x.from === b && x.to === a));
    $("path").textContent = a === b ? "Choose two devices."
      : p ? `${a} to ${b}: ${p.type}, ${three(p.GBps)} GB/s each way, ${three(p.latency_ns)} ns in ${p.hops} hops; the slowest is ${p.bottleneck}.`
        : `${a} to ${b}: no path.`;
  };
  const buildMachine = () => {
    // The picture is weft's own SVG; it is parsed as XML, so that nothing in it can run.
    const svg = new DOMParser().parseFromString(machine.svg, "image/svg+xml").documentElement;
    for (const bad of svg.querySelectorAll("script, foreignObject")) bad.remove();
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${machine.name}; the table below lists every link`);
    $("picture").replaceChildren(document.importNode(svg, true));
    const ends = [...new Set(machine.paths.flatMap((p) => [p.from, p.to]))];
    for (const id of ["from", "to"]) $(id).replaceChildren(...ends.map((e) => new Option(e, e)));
    if (ends.length > 1) $("to").value = ends[ends.length - 1];
    $("left-out").textContent = machine.left_out;
    drawLinks();
    drawPath();
  };

  // ---- stepper ----
  let programOf = -1;
  let ends = [], most = 0, swatches = [];
  const whole = (holds) => holds.length >= most;
  const buildStepper = () => {
    ends = [...new Set(schedule.moves.map((m) => m.end_us))].sort((a, b) => a - b);
    most = schedule.moves.reduce((n, m) => Math.max(n, m.holds.length), 0);
    swatches = [];
    programOf = -1;
    $("ranks").replaceChildren();
    $("verdict").textContent = schedule.verdict + "." + (schedule.timed || !schedule.played ? "" : " Times are steps, not microseconds.");
    $("verdict").classList.toggle("wrong", schedule.played && !schedule.proved);
    $("strip").hidden = !schedule.played;
    for (let r = 0; r < (schedule.played ? schedule.ranks : 0); ++r) {
      const row = make("div", undefined, "rank");
      row.tabIndex = r === 0 ? 0 : -1;
      row.setAttribute("role", "button");
      row.setAttribute("aria-label", `rank ${r}`);
      row.append(make("span", `rank ${r}`, "name"));
      const chunks = make("div", undefined, "chunks");
      row.append(chunks);
      row.addEventListener("click", () => choose(r));
      $("ranks").append(row);
      swatches.push({ row, chunks, cells: new Map() });
    }
  };
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
    const threads = cell.firstChild;
    threads.replaceChildren();
    for (const r of holds) {
      const t = make("span", holds.length <= 8 ? String(r) : "", "thread");
      t.style.background = hue(r);
      threads.append(t);
    }
    cell.lastChild.textContent = `chunk ${chunk}: ${holds.length}`;
    cell.classList.toggle("whole", whole(holds));
    cell.classList.toggle("moving", moving);
  };
  // What every rank's memory holds at a time: the values of the moves that have ended by then.
  const drawTime = () => {
    if (!schedule.played) {
      $("now").textContent = $("program-title").textContent = "";
      $("program").replaceChildren();
      return;
    }
    const held = swatches.map(() => new Map());
    let last = null;
    const moving = [];
    for (const m of schedule.moves) {
      if (m.end_us <= state.at + 1e-9) {
        if (!last || m.end_us >= last.end_us) last = m;
        if (m.keeps) held[m.rank].set(m.chunk, m.holds);
        for (const r of m.to) {
          const now = held[r].get(m.chunk);
          if (!now || now.length <= m.holds.length) held[r].set(m.chunk, m.holds);
        }
      } else if (m.begin_us <= state.at) moving.push(m);
    }
    swatches.forEach((s, rank) => {
      for (const [chunk, cell] of s.cells) if (!held[rank].has(chunk)) { cell.remove(); s.cells.delete(chunk); }
      for (const [chunk, holds] of held[rank])
        fill(cellOf(rank, chunk), chunk, holds, moving.some((m) => m.rank === rank && m.chunk === chunk));
      s.row.classList.toggle("selected", rank === state.rank);
    });
    const said = moving[0] || last;
    const now = ends.filter((t) => t <= state.at + 1e-9).length;
    $("now").textContent = said
      ? `${now} of ${ends.length}: rank ${said.rank} ${moving.length ? "moves" : "has moved"} chunk ${said.chunk}` +
        (said.to.length ? ` to rank ${said.to.join(", ")}` : "") + `, with the contributions of ${said.holds.length} rank${said.holds.length === 1 ? "" : "s"}.`
      : "Every rank holds its own input. Press Space to begin.";
    $("clock").textContent = schedule.timed ? `${three(state.at)} of ${three(schedule.total_us)} us` : `${now} of ${ends.length}`;
    $("time").value = schedule.total_us > 0 ? Math.round((1000 * state.at) / schedule.total_us) : 0;
    drawProgram();
  };
  const drawProgram = () => {
    const mine = schedule.moves.filter((m) => m.rank === state.rank);
    if (programOf !== state.rank) {
      programOf = state.rank;
      $("program-title").textContent = `Program of rank ${state.rank}`;
      $("program").replaceChildren(...mine.slice(0, 400).map((m) => make("li", m.text)));
    }
    [...$("program").children].forEach((li, i) => {
      const m = mine[i];
      const lit = m.begin_us <= state.at && m.end_us > state.at;
      li.className = lit ? "lit" : m.end_us <= state.at ? "done" : "";
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
    swatches[state.rank].row.tabIndex = -1;
    state.rank = (rank + schedule.ranks) % schedule.ranks;
    swatches[state.rank].row.tabIndex = 0;
    drawTime();
    remember(false);
  };
  const step = (by) => {
    pause();
    const later = ends.filter((t) => t > state.at + 1e-9), earlier = ends.filter((t) => t < state.at - 1e-9);
    seek(by > 0 ? (later.length ? later[0] : schedule.total_us) : earlier.length ? earlier[earlier.length - 1] : 0);
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

  // ---- curves: bus bandwidth against size, both logarithmic ----
  const buildCurves = () => {
    const width = 900, height = 420, left = 64, right = 200, top = 16, bottom = 40;
    const points = curves.candidates.flatMap((c) => c.busbw_GBps).filter((p) => p[1] > 0);
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
    add("text", { x: left, y: height - 4, fill: "var(--ink-3)" }, "message size; vertical: bus bandwidth, GB/s, predicted by the cost model");
    add("line", { x1: x(schedule.bytes), x2: x(schedule.bytes), y1: top, y2: height - bottom, stroke: "var(--you)", "stroke-dasharray": "3 3" });
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
    const at = (c) => c.busbw_GBps.reduce((best, p) => (Math.abs(log(p[0] / schedule.bytes)) < Math.abs(log(best[0] / schedule.bytes)) ? p : best));
    table($("candidates"), [["Algorithm"], ["Protocol"], ["Channels", 1], [`GB/s near ${sizeText(schedule.bytes)}`, 1], ["Why"]],
      curves.candidates.map((c) => [c.algorithm, c.protocol, c.channels, three(at(c)[1]), c.reason]),
      curves.candidates.map((c) => (c.chosen ? "chosen" : "")));
  };

  const draw = (answer) => {
    pause();
    data = answer;
    ({ machine, schedule, curves } = data);
    state.at = Math.min(state.at, schedule.total_us);
    state.rank = Math.min(state.rank, schedule.ranks - 1);
    drawSentences();
    buildMachine();
    buildStepper();
    buildCurves();
    drawTime();
  };

  // ---- the core in a worker: other questions, dropped files ----
  const text = (id) => document.getElementById(id).textContent.trim();
  const core = { worker: null, module: null, waiting: new Map(), next: 0, files: new Map() };
  const post = (message) => new Promise((done, failed) => {
    const id = ++core.next;
    core.waiting.set(id, { done, failed });
    core.worker.postMessage({ id, ...message });
  });
  const startCore = async () => {
    if (!core.module) {
      const packed = Uint8Array.from(atob(text("core")), (c) => c.charCodeAt(0));
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      core.module = await WebAssembly.compile(await new Response(stream).arrayBuffer());
    }
    const url = URL.createObjectURL(new Blob([text("worker")], { type: "text/javascript" }));
    core.worker = new Worker(url);
    URL.revokeObjectURL(url);
    core.worker.onmessage = ({ data: m }) => {
      const { done, failed } = core.waiting.get(m.id) || {};
      core.waiting.delete(m.id);
      if (m.failed !== undefined) failed?.(new Error(m.failed));
      else done?.(m.answer);
    };
    await post({ core: core.module });
    for (const [file, content] of core.files) await post({ file, text: content });
  };
  const stopCore = () => {
    core.worker?.terminate();
    core.worker = null;
    for (const { failed } of core.waiting.values()) failed(new Error("cancelled"));
    core.waiting.clear();
  };
  const askCore = async (question) => {
    try {
      if (!core.worker) await startCore();
      return JSON.parse(await post({ ask: JSON.stringify(question) }));
    } catch (problem) {
      if (problem.message === "cancelled") return { schema: "weft.error/1", message: "Cancelled." };
      stopCore();  // the core may be in any state: the next question starts another
      return { schema: "weft.error/1", message: `The core stopped at this question (${problem.message}). The next one starts it again.` };
    }
  };
  let asking = 0;
  const question = async (words, push) => {
    const mine = ++asking;
    if (core.waiting.size) stopCore();  // the answer to the last question is not wanted any more
    pause();
    $("cancel").hidden = false;
    say("Computing …");
    const answer = await askCore({ ask: "answer", ...words });
    if (mine !== asking) return;
    $("cancel").hidden = true;
    if (answer.schema !== "weft.explorer/1") {
      say(answer.message, true);
      return;
    }
    if (push) state.at = 0;
    draw(answer);
    fillWords();
    remember(push);
  };

  // ---- the question's words ----
  let choices = null;
  const fillSelect = (id, options, value) => {
    const select = $(id);
    select.replaceChildren(...options.map(([v, t]) => new Option(t, v)));
    if (![...select.options].some((o) => o.value === String(value))) select.append(new Option(String(value), value));
    select.value = value;
  };
  const fillWords = () => {
    if (!choices) return;
    const w = data.words;
    fillSelect("w-collective", choices.collectives.map((c) => [c.name, c.name]), w.collective);
    const short = (b) => (b >= 2 ** 30 ? `${b / 2 ** 30}G` : b >= 2 ** 20 ? `${b / 2 ** 20}M` : b >= 1024 ? `${b / 1024}K` : `${b}`);
    const sizes = [8, 64, 512, 4096, 32768, 65536, 262144, 2 ** 20, 2 ** 22, 2 ** 24, 2 ** 26, 2 ** 28, 2 ** 30];
    fillSelect("w-bytes", sizes.map((b) => [short(b), sizeText(b)]), w.bytes);
    fillSelect("w-dtype", choices.types.map((t) => [t, t]), w.dtype);
    $("w-on").value = w.on;
    $("machines").replaceChildren(...choices.machines.map((m) => new Option(m.summary, m.name)));
    $("w-ranks").value = w.ranks < 0 ? "" : w.ranks;
    $("w-ranks").placeholder = schedule.ranks;
    const here = choices.collectives.find((c) => c.name === w.collective);
    fillSelect("w-algo", [["", "weft's choice"], ...(here ? here.algorithms : []).map((a) => [a, a])], w.algo);
    fillSelect("w-proto", [["", "weft's choice"], ...choices.protocols.map((p) => [p, p])], w.proto);
  };
  const wordsOfForm = () => {
    const collective = $("w-collective").value;
    const same = collective === data.words.collective;
    return { collective, on: $("w-on").value.trim(), bytes: $("w-bytes").value, dtype: $("w-dtype").value,
      ranks: $("w-ranks").value === "" ? -1 : Number($("w-ranks").value),
      algo: same ? $("w-algo").value : "", proto: same ? $("w-proto").value : "" };
  };
  const other = (words) => Object.keys(words).some((key) => String(words[key]) !== String(data.words[key]));
  const openCore = async () => {
    if (!text("core")) return;
    if (typeof WebAssembly !== "object" || typeof DecompressionStream !== "function") {
      $("no-core").hidden = false;
      return;
    }
    const words = given();
    const got = await askCore({ ask: "words" });
    if (got.schema !== "weft.explorer.words/1") { $("no-core").hidden = false; return; }
    choices = got;
    $("words").hidden = false;
    fillWords();
    $("words").addEventListener("change", () => question(wordsOfForm(), true));
    $("words").addEventListener("submit", (e) => { e.preventDefault(); if (other(wordsOfForm())) question(wordsOfForm(), true); });
    $("cancel").addEventListener("click", () => { ++asking; stopCore(); $("cancel").hidden = true; draw(data); fillWords(); });
    if (other(words)) await question({ ...words }, false);
  };
  const kMostFile = 64 * 2 ** 20;
  const take = async (file) => {
    if (!choices) return;
    if (file.size > kMostFile) { say(`${file.name}: ${sizeText(file.size)} are more than the 64 MiB that are read at most.`, true); return; }
    const content = await file.text();
    if (file.name.endsWith(".json")) {
      try { JSON.parse(content); } catch (problem) { say(`${file.name} is no JSON: ${problem.message}`, true); return; }
    }
    // A name with a dot is a file's for the core.
    const name = file.name.includes(".") ? file.name : `${file.name}.txt`;
    core.files.set(name, content);
    dropped.add(name);
    if (!core.worker) await startCore();
    else await post({ file: name, text: content });
    const isSchedule = /<algo[\s>]/.test(content) || /"schema"\s*:\s*"weft\.schedule/.test(content);
    await question(isSchedule ? { ...data.words, algo: name, proto: "" } : { ...data.words, on: name, ranks: -1 }, true);
  };
  addEventListener("dragover", (e) => e.preventDefault());
  addEventListener("drop", (e) => { e.preventDefault(); if (e.dataTransfer.files[0]) take(e.dataTransfer.files[0]); });
  $("file").addEventListener("change", () => { if ($("file").files[0]) take($("file").files[0]); });

  read();
  draw(data);
  show(state.view, false);
  openCore();

  $("find").addEventListener("input", drawLinks);
  for (const id of ["from", "to"]) $(id).addEventListener("change", drawPath);
  for (const b of document.querySelectorAll("nav [data-view]")) b.addEventListener("click", () => show(b.dataset.view, true));
  $("play").addEventListener("click", play);
  $("back").addEventListener("click", () => step(-1));
  $("next").addEventListener("click", () => step(1));
  $("first").addEventListener("click", () => { pause(); seek(0); remember(false); });
  $("time").addEventListener("input", () => { pause(); seek((Number($("time").value) / 1000) * schedule.total_us); });
  $("time").addEventListener("change", () => remember(false));
  $("keys").addEventListener("click", () => $("help").showModal());
  $("close").addEventListener("click", () => $("help").close());
  $("copy").addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(data.command); $("copy").textContent = "Copied"; }
    catch { $("copy").textContent = "Select and copy"; }
  });
  const follow = () => {
    read();
    show(state.view, false);
    drawTime();
    if (choices && other(given())) question({ ...given() }, false);
  };
  addEventListener("popstate", follow);  // of Back, and of an address that was edited
  addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || $("help").open) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) && e.target.type !== "range";
    if (typing) { if (e.key === "Escape") e.target.blur(); return; }
    const act = {
      1: () => show("machine", true), 2: () => show("stepper", true), 3: () => show("curves", true),
      "?": () => $("help").showModal(), "/": () => { show("machine", true); $("find").focus(); },
    }[e.key] || (state.view === "stepper" && {
      ArrowRight: () => step(1), ArrowLeft: () => step(-1), Home: () => { pause(); seek(0); }, End: () => { pause(); seek(schedule.total_us); },
      ArrowUp: () => { choose(state.rank - 1); swatches[state.rank]?.row.focus(); },
      ArrowDown: () => { choose(state.rank + 1); swatches[state.rank]?.row.focus(); },
      " ": e.target.tagName === "BUTTON" ? undefined : play, Enter: undefined,
    }[e.key]);
    if (act) { e.preventDefault(); act(); }
  });
})();
