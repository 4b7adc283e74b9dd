// The page: one answer of the core (weft.explorer/1 in the element "data"), the views that draw it, the link that names
// it. The page holds no rate, formula, algorithm or sentence about a machine: it draws and says what the core computed.
"use strict";
const page = (() => {
  // What the other scripts of this page add: called with every new answer, when the core can be asked, with every new
  // view, for their part of the link, with the name of a dropped model, after Back, and with every new time.
  const hooks = { draw: [], core: [], show: [], link: [], model: [], follow: [], time: [] };
  const moves = {};  // by view: step(by), play(), … for the keys
  const sentences = {};  // by view with a question of its own: gives [question, answer]
  const pictures = {};  // by view: gives the picture that is shown as an SVG element, for export
  let data = JSON.parse(document.getElementById("data").textContent);
  let choices = null;  // the words that the core knows; null: there is no core
  const $ = (id) => document.getElementById(id);
  const make = (tag, text, className) => {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    if (className) e.className = className;
    return e;
  };
  const space = "http://www.w3.org/2000/svg";
  const shape = (parent, tag, attributes, text) => {
    const e = document.createElementNS(space, tag);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    if (text !== undefined) e.textContent = text;
    parent?.append(e);
    return e;
  };
  const three = (x) => (x === 0 ? "0" : Number(x.toPrecision(3)).toString());
  const sizeText = (b) => (b >= 2 ** 30 ? `${three(b / 2 ** 30)} GiB` : b >= 2 ** 20 ? `${three(b / 2 ** 20)} MiB`
    : b >= 1024 ? `${three(b / 1024)} KiB` : `${b} B`);
  const hue = (rank) => `var(--r${rank % 8})`;
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
  const fillSelect = (id, options, value) => {
    const select = $(id);
    select.replaceChildren(...options.map(([v, t]) => new Option(t, v)));
    if (![...select.options].some((o) => o.value === String(value))) select.append(new Option(String(value), value));
    select.value = value;
  };

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
  const views = ["machine", "stepper", "curves", "training", "serving"];
  const state = { view: "stepper", at: 0, rank: 0 };
  const read = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    if (views.includes(given.get("view"))) state.view = given.get("view");
    const at = Number(given.get("at")), rank = Number(given.get("rank"));
    if (Number.isFinite(at)) state.at = Math.min(Math.max(at, 0), data.schedule.total_us);
    if (Number.isInteger(rank) && rank >= 0 && rank < data.schedule.ranks) state.rank = rank;
  };
  // Words of the question, as `weft explore` takes them. Dropped files stay here: a link cannot name them.
  const keys = ["collective", "on", "bytes", "dtype", "algo", "proto", "ranks", "chunk"];
  const numeric = ["ranks", "chunk"];
  const first = data.words;  // what a link means that names none
  const plain = { collective: "all_reduce", on: "dgx-h100", bytes: "1M", dtype: "float", algo: "", proto: "", ranks: -1, chunk: -1, faults: [] };
  const dropped = new Set();
  const given = () => {
    const all = new URLSearchParams(location.hash.slice(1));
    const words = keys.some((key) => all.has(key)) ? { ...plain, root: first.root } : { ...first };  // a link is whole, or has no question
    for (const key of keys)
      if (all.has(key)) words[key] = numeric.includes(key) ? Number(all.get(key)) : all.get(key);
    if (all.has("fault")) words.faults = all.getAll("fault").filter(Boolean);
    return words;
  };
  const alone = new URLSearchParams(location.hash.slice(1)).get("figure") === "1";  // one view and its answer, nothing around it
  const link = () => {
    const all = new URLSearchParams({ view: state.view, at: Number(state.at.toFixed(3)), rank: state.rank });
    for (const key of keys) {
      const word = data.words[key];
      if (word !== "" && word !== -1 && !dropped.has(word)) all.set(key, word);
    }
    for (const fault of data.words.faults) all.append("fault", fault);
    if (first.faults.length && !data.words.faults.length) all.set("fault", "");  // mended
    for (const hook of hooks.link) hook(all);
    if (alone) all.set("figure", 1);
    return "#" + all;
  };
  const remember = (push) => history[push ? "pushState" : "replaceState"](null, "", link());

  const show = (view, push) => {
    state.view = view;
    for (const v of views) $(v).classList.toggle("shown", v === view);
    for (const b of document.querySelectorAll("nav [data-view]"))
      if (b.dataset.view === view) b.setAttribute("aria-current", "page");
      else b.removeAttribute("aria-current");
    for (const hook of hooks.show) hook(view);
    if (push) remember(true);
  };

  const draw = (answer) => {
    data = answer;
    state.at = Math.min(state.at, data.schedule.total_us);
    state.rank = Math.min(state.rank, data.schedule.ranks - 1);
    if (data.schedule.wrong) {  // the counterexample is the answer
      state.at = data.schedule.total_us;
      state.rank = data.schedule.wrong.rank;
    }
    drawSentences();
    for (const hook of hooks.draw) hook(data);
  };

  // ---- other questions ----
  const { askCore, cancelCore, stopCore } = core;
  let asking = 0;
  const question = async (words, push) => {
    const mine = ++asking;
    cancelCore();  // the answer to the last question is not wanted any more
    $("cancel").hidden = false;
    say("Computing …");
    // The cost model's answer at once; a question that it cannot estimate gets its reason from the answer.
    const estimate = await askCore({ ask: "estimate", ...words });
    if (mine !== asking) return;
    if (estimate.schema === "weft.explorer.estimate/1") say(estimate.answer);
    const answer = await askCore({ ask: "answer", ...words, curves: false });
    if (mine !== asking) return;
    $("cancel").hidden = true;
    if (answer.schema !== "weft.explorer/1") {
      say(answer.message, true);
      return;
    }
    if (push) state.at = 0;
    draw(answer);
    remember(push);
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
    for (const hook of hooks.core) hook(choices);
    $("cancel").addEventListener("click", () => { ++asking; stopCore(); $("cancel").hidden = true; draw(data); });
    if (other(words)) await question({ ...words }, false);
  };
  const start = () => {
    const fresh = location.hash.length < 2;
    document.body.classList.toggle("figure", alone);
    read();
    draw(data);
    show(state.view, false);
    openCore();
    // Who comes without a link sees the schedule run once; with reduced motion nothing moves by itself.
    if (fresh && data.schedule.played && !matchMedia("(prefers-reduced-motion: reduce)").matches) stepper.play();
  };
  addEventListener("popstate", () => {  // of Back, and of an address that was edited
    read();
    show(state.view, false);
    for (const hook of hooks.follow) hook();
    if (choices && other(given())) question({ ...given() }, false);
  });
  const said = () => sentences[state.view]?.() ?? [$("question").textContent, $("answer").textContent];
  return { $, make, shape, space, three, sizeText, hue, table, fillSelect, say, askCore, cancelCore, question, other, show, remember, hooks,
    pictures, moves, said, sentences, start, state, dropped, words: () => data.words, data: () => data, choices: () => choices };
})();
