// Draws what the core computed (weft.explorer/1 in the element "data"). The page holds no rate, formula or algorithm: it
// plays the moves at the times that the simulator gave them and counts contributions that the verifier found.
"use strict";
const page = (() => {
  // What the other scripts of this page add: called with every new answer, when the core can be asked, with every new
  // view, for their part of the link, and with the name of a dropped model.
  const hooks = { draw: [], core: [], show: [], link: [], model: [] };
  let data = JSON.parse(document.getElementById("data").textContent);
  let { machine, schedule } = data;
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

  let choices = null;  // the words that the core knows; null: there is no core
  const say = (text, wrong) => {
    const number = /^[\d.,]+ \S+(?= by )/.exec(text);  // number first, large
    $("answer").replaceChildren(...(number && !wrong ? [make("b", number[0], "big"), text.slice(number[0].length)] : [text]));
    $("answer").classList.toggle("wrong", Boolean(wrong));
  };
  const drawSentences = () => {
    $("question").textContent = data.question;
    say(data.answer);
    $("command").textContent = data.command;
    document.title = `${data.question} | weft explorer`;
  };

  // ---- state in the link: the question's words, view, time, rank ----
  const views = ["machine", "stepper", "curves", "training"];
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
    if (all.has("fault")) words.faults = all.getAll("fault").filter(Boolean);
    return words;
  };
  const link = () => {
    const all = new URLSearchParams({ view: state.view, at: Number(state.at.toFixed(3)), rank: state.rank });
    for (const [key, name] of Object.entries(keys)) {
      const word = data.words[key];
      if (word !== "" && word !== -1 && !dropped.has(word)) all.set(name, word);
    }
    for (const fault of data.words.faults) all.append("fault", fault);
    if (first.faults.length && !data.words.faults.length) all.set("fault", "");  // mended
    for (const hook of hooks.link) hook(all);
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
    for (const hook of hooks.show) hook(view);
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
      row.forEach((cell, c) => {
        const td = make("td", cell instanceof Node ? undefined : cell, columns[c][1] ? "n" : "");
        if (cell instanceof Node) td.append(cell);
        tr.append(td);
      });
    });
  };
  // "25", or "0, was 25" where a fault has changed it.
  const rateCell = (now, was) => (was === undefined || was === now ? three(now) : `${three(now)}, was ${three(was)}`);
  const faultsOn = (l) => data.words.faults.filter((f) => f.startsWith(`link:${l.a}-${l.b}=`) || f.startsWith(`link:${l.b}-${l.a}=`));
  // Breaks, halves or mends one link: the same question with other faults.
  const fault = (l, how) => {
    const others = data.words.faults.filter((f) => !faultsOn(l).includes(f));
    question({ ...data.words, faults: how ? [...others, `link:${l.a}-${l.b}=${how}`] : others }, true);
  };
  const faultButtons = (l) => {
    const cell = make("span", undefined, "faults");
    const button = (word, how) => {
      const b = make("button", word);
      b.setAttribute("aria-label", `${word} the link from ${l.a} to ${l.b}`);
      b.addEventListener("click", (e) => { e.stopPropagation(); fault(l, how); });
      cell.append(b);
    };
    if (faultsOn(l).length) button("Mend", "");
    else { button("Break", "down"); button("Half", "50%"); }
    return cell;
  };
  const drawLinks = () => {
    const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = machine.links.filter((l) => words.every((w) => `${l.a} ${l.b} ${l.kind}`.toLowerCase().includes(w)));
    const columns = [["From"], ["To"], ["Kind"], ["Links or lanes", 1], ["GB/s there", 1], ["GB/s back", 1], ["ns", 1]];
    if (choices) columns.push(["Fault"]);
    table($("links"), columns,
      rows.map((l) => [l.a, l.b, l.kind, l.count, rateCell(l.ab_GBps, l.healthy?.ab_GBps), rateCell(l.ba_GBps, l.healthy?.ba_GBps),
        rateCell(l.latency_ns, l.healthy?.latency_ns), ...(choices ? [faultButtons(l)] : [])]),
      rows.map((l) => (l.healthy ? "broken" : "")));
  };
  const drawFaults = () => {
    $("faults").hidden = !data.words.faults.length;
    $("faults").replaceChildren(make("span", "Broken: "), ...data.words.faults.map((f) => {
      const b = make("button", `${f} ×`);
      b.setAttribute("aria-label", `Mend ${f}`);
      b.disabled = !choices;
      b.addEventListener("click", () => question({ ...data.words, faults: data.words.faults.filter((o) => o !== f) }, true));
      return b;
    }));
  };
  // What was clicked in the picture: a device's links, or a link with what can be done to it.
  const select = (element) => {
    const { a, b } = element.dataset;
    for (const e of $("picture").querySelectorAll(".selected")) e.classList.remove("selected");
    for (const e of $("picture").querySelectorAll("[data-a]"))
      if (e.dataset.a === a && e.dataset.b === b && !e.classList.contains("hit")) e.classList.add("selected");
    if (b === undefined) {
      const device = machine.devices.find((d) => d.name === a);
      $("slip").replaceChildren(make("strong", a), make("span", device ? `, ${device.kind}${device.model ? " " + device.model : ""}: ` : ": "),
        make("span", `${machine.links.filter((l) => l.a === a || l.b === a).length} links, listed below.`));
      $("find").value = a;
      drawLinks();
      if ([...$("from").options].some((o) => o.value === a)) {
        // The second device that is clicked ends the path that the first one began.
        if (select.last && select.last !== a) { $("from").value = select.last; $("to").value = a; drawPath(); }
        select.last = a;
      }
      return;
    }
    const l = machine.links.find((x) => x.a === a && x.b === b);
    if (!l) return;
    $("slip").replaceChildren(make("strong", `${a} to ${b}`),
      make("span", `: ${l.count} × ${l.kind}, ${rateCell(l.ab_GBps, l.healthy?.ab_GBps)} GB/s there, ${rateCell(l.ba_GBps, l.healthy?.ba_GBps)} back, ${rateCell(l.latency_ns, l.healthy?.latency_ns)} ns. `),
      ...(choices ? [faultButtons(l)] : []));
  };
  const drawPath = () => {
    const a = $("from").value, b = $("to").value;
    const p = machine.paths.find((x) => (x.from === a && x.to === b) || (x.from === b && x.to === a));
    $("path").textContent = a === b ? "Choose two devices."
      : p && !p.type ? `${a} to ${b}: no path is left; it had ${three(p.healthy_GBps)} GB/s.`
      : p ? `${a} to ${b}: ${p.type}, ${rateCell(p.GBps, p.healthy_GBps)} GB/s each way, ${three(p.latency_ns)} ns in ${p.hops} hops; the slowest is ${p.bottleneck}.`
        : `${a} to ${b}: no path.`;
  };
  const buildMachine = () => {
    // The picture is weft's own SVG; it is parsed as XML, so that nothing in it can run.
    const svg = new DOMParser().parseFromString(machine.svg, "image/svg+xml").documentElement;
    for (const bad of svg.querySelectorAll("script, foreignObject")) bad.remove();
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${machine.name}; the table below lists every link`);
    // Thin lines are hit within 24 pixels.
    for (const line of svg.querySelectorAll("[data-b]")) {
      const l = machine.links.find((x) => x.a === line.dataset.a && x.b === line.dataset.b);
      if (l?.healthy) line.classList.add(l.ab_GBps === 0 ? "gone" : "slowed");
      const hit = line.cloneNode();
      hit.setAttribute("class", "hit");
      hit.setAttribute("stroke-width", "24");
      hit.setAttribute("opacity", "0");
      line.after(hit);
    }
    $("picture").replaceChildren(document.importNode(svg, true));
    $("slip").textContent = choices ? "Click a link to break it, two devices for the path between them." : "Click a link or a device.";
    drawFaults();
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
    drawWrong();
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
  // The last frame of a schedule that is wrong: the chunk at which it stops, and the contribution that is concerned.
  const drawWrong = () => {
    const { wrong } = schedule, there = wrong && state.at >= schedule.total_us;
    for (const s of swatches) s.row.classList.toggle("wrong", Boolean(there) && swatches.indexOf(s) === wrong.rank);
    if (!there) return;
    if (wrong.chunk !== null) {
      const cell = cellOf(wrong.rank, wrong.chunk);
      cell.classList.add("wrong");
      if (wrong.peer !== null) cell.firstChild.append(make("span", `${wrong.peer} ✕`, "thread missing"));
      if (!cell.lastChild.textContent) cell.lastChild.textContent = `chunk ${wrong.chunk}`;
    }
    $("now").textContent = wrong.text;
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

  const draw = (answer) => {
    pause();
    data = answer;
    ({ machine, schedule } = data);
    state.at = Math.min(state.at, schedule.total_us);
    state.rank = Math.min(state.rank, schedule.ranks - 1);
    drawSentences();
    buildMachine();
    buildStepper();
    for (const hook of hooks.draw) hook(data);
    if (schedule.wrong) {  // the counterexample is the answer
      state.at = schedule.total_us;
      state.rank = schedule.wrong.rank;
    }
    drawTime();
  };

  // ---- other questions, dropped files ----
  const { askCore, cancelCore, dropFile, stopCore } = core;
  let asking = 0;
  const question = async (words, push) => {
    const mine = ++asking;
    cancelCore();  // the answer to the last question is not wanted any more
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
      algo: same ? $("w-algo").value : "", proto: same ? $("w-proto").value : "",
      faults: $("w-on").value.trim() === data.words.on ? data.words.faults : [] };
  };
  const other = (words) => Object.keys(words).some((key) => String(words[key]) !== String(data.words[key]));
  const openCore = async () => {
    if (!core.built()) return;
    if (typeof WebAssembly !== "object" || typeof DecompressionStream !== "function") {
      $("no-core").hidden = false;
      return;
    }
    const words = given();
    const got = await askCore({ ask: "words" });
    if (got.schema !== "weft.explorer.words/1") { $("no-core").hidden = false; return; }
    choices = got;
    $("words").hidden = false;
    $("question").classList.add("spoken");  // the sentence with its amber words stands there
    fillWords();
    buildMachine();
    for (const hook of hooks.core) hook(choices);
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
    dropped.add(name);
    await dropFile(name, content);
    if (/"num_hidden_layers"|"n_layer"/.test(content)) {  // a model's config.json
      show("training", false);
      for (const hook of hooks.model) hook(name);
      return;
    }
    const isSchedule = /<algo[\s>]/.test(content) || /"schema"\s*:\s*"weft\.schedule/.test(content);
    if (isSchedule) show("stepper", false);
    await question(isSchedule ? { ...data.words, algo: name, proto: "" } : { ...data.words, on: name, ranks: -1, faults: [] }, true);
  };
  addEventListener("dragover", (e) => e.preventDefault());
  addEventListener("drop", (e) => { e.preventDefault(); if (e.dataTransfer.files[0]) take(e.dataTransfer.files[0]); });
  $("file").addEventListener("change", () => { if ($("file").files[0]) take($("file").files[0]); });

  const start = () => {
    read();
    draw(data);
    show(state.view, false);
    openCore();
  };

  $("find").addEventListener("input", drawLinks);
  $("picture").addEventListener("click", (e) => { const hit = e.target.closest("[data-a]"); if (hit) select(hit); });
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
      1: () => show("machine", true), 2: () => show("stepper", true), 3: () => show("curves", true), 4: () => show("training", true), 5: () => $("tour-open").click(),
      "?": () => $("help").showModal(), "/": () => { show("machine", true); $("find").focus(); },
    }[e.key] || (state.view === "stepper" && {
      ArrowRight: () => step(1), ArrowLeft: () => step(-1), Home: () => { pause(); seek(0); }, End: () => { pause(); seek(schedule.total_us); },
      ArrowUp: () => { choose(state.rank - 1); swatches[state.rank]?.row.focus(); },
      ArrowDown: () => { choose(state.rank + 1); swatches[state.rank]?.row.focus(); },
      " ": e.target.tagName === "BUTTON" ? undefined : play, Enter: undefined,
    }[e.key]);
    if (act) { e.preventDefault(); act(); }
  });
  return { $, make, three, sizeText, table, fillSelect, askCore, cancelCore, question, show, remember, hooks, start, state, words: () => data.words };
})();
