// Questions as sentences whose words can be changed, and views that have such a question of their own.
(() => {
  const { $ } = page;
  // Puts a phrase of the core into `line`: texts, and the words of `form` (elements with `prefix` before their word's name)
  // between them; `last` stands behind.
  page.sentence = (line, form, prefix, last) => {
    const parked = new Map([...form.querySelectorAll(`[id^=${prefix}]`)].map((e) => [e.id.slice(prefix.length), e]));
    return (phrase) => {
      const had = document.activeElement;
      line.replaceChildren(...phrase.map((p) => (p.word ? parked.get(p.word) : document.createTextNode(p.text))), last);
      if (had && line.contains(had)) had.focus();
    };
  };

  const own = [];
  page.hooks.show.push((view) => document.body.classList.toggle("own-question", own.includes(view)));
  // A view that asks the module about training and serving. `prefix`: of its elements and, with a dot, of its words in the
  // link; `texts`, `numbers`: its words; `kind`: what is asked, answered by weft.explorer.KIND/1; `draw(answer)`;
  // `good(answer)`; `toForm`, `fromForm`: words that the form says otherwise.
  page.planView = ({ view, prefix, texts, numbers, kind, draw, good, toForm = (w) => w, fromForm = (w) => w }) => {
    own.push(view);
    const id = (name) => $(`${prefix}-${name}`);
    let answer = null, ready = false, asked = 0, words = null, choices = null;
    const drawSentence = page.sentence(id("sentence"), id("words"), `${prefix}-`, id("ask"));
    const say = (text, wrong) => {
      id("answer").textContent = text;
      id("answer").classList.toggle("wrong", Boolean(wrong));
    };
    const fromLink = () => {
      const all = new URLSearchParams(location.hash.slice(1)), found = {};
      for (const key of [...texts, ...numbers])
        if (all.has(`${prefix}.${key}`)) found[key] = numbers.includes(key) ? Number(all.get(`${prefix}.${key}`)) : all.get(`${prefix}.${key}`);
      if (all.has(`${prefix}.fault`)) found.faults = all.getAll(`${prefix}.fault`);
      return found;
    };
    page.hooks.link.push((all) => {
      if (!answer) return;
      for (const key of [...texts, ...numbers])
        if (answer.words[key] !== "" && !page.dropped.has(answer.words[key])) all.set(`${prefix}.${key}`, answer.words[key]);
      for (const fault of answer.words.faults) all.append(`${prefix}.fault`, fault);
    });
    const formKeys = () => [...id("words").querySelectorAll(`[id^=${prefix}-]`)].filter((e) => /^(INPUT|SELECT)$/.test(e.tagName) && e.id !== `${prefix}-faults` && !e.dataset.also);
    const isNumber = (e) => e.type === "number" || e.type === "range" || e.dataset.number;
    // An empty number is 0 where its placeholder says what that means; others are left to the module.
    const ofForm = () => {
      const all = { faults: id("faults").value.split(/[\s,]+/).filter(Boolean) };
      for (const e of formKeys()) {
        const value = e.value.trim(), key = e.id.slice(prefix.length + 1);
        if (!isNumber(e)) all[key] = value;
        else if (value !== "" || e.placeholder) all[key] = Number(value);
      }
      return fromForm(all);
    };
    const fill = () => {
      const form = toForm(answer.words);
      for (const e of formKeys()) {
        const value = form[e.id.slice(prefix.length + 1)];
        if (e.tagName === "SELECT" && ![...e.options].some((o) => o.value === String(value))) e.append(new Option(value, value));
        e.value = value === 0 && e.placeholder ? "" : value;
      }
      id("faults").value = answer.words.faults.join(" ");
    };
    // The module answers one question after the other; one that is not wanted any more is ended with it.
    const askCore = async (question) => {
      const mine = ++asked;
      workloads.cancelCore();
      id("cancel").hidden = false;
      const got = await workloads.askCore(question);
      if (mine !== asked) return null;
      id("cancel").hidden = true;
      return got;
    };
    // `keep`: what stands below the answer stays.
    const ask = async (given, push, keep) => {
      say("Computing …");
      const got = await askCore({ ask: kind, ...given });
      if (!got) return;
      if (got.schema !== `weft.explorer.${kind}/1`) { say(got.message, true); return; }
      answer = got;
      id("question").textContent = answer.question;
      id("question").classList.add("spoken");  // the sentence with its amber words stands there
      say(answer.answer, !good(answer));
      drawSentence(answer.phrase);
      fill();
      draw(answer, keep);
      id("command").textContent = answer.command;
      if (page.state.view === view) document.title = `${answer.question} | weft explorer`;
      page.remember(push);
    };
    const update = () => {
      id("no-core").hidden = ready;
      id("words").hidden = !ready;
    };
    const open = async () => {
      if (!ready || answer) return;
      choices ??= await workloads.askCore({ ask: "words" });
      if (choices.schema !== "weft.explorer.workloads/1") { say(choices.message, true); return; }
      for (const [name, all] of [["model", choices.models], ["engine", choices.engines]])
        if (id(name)) id(name).replaceChildren(...all.map((m) => new Option(m, m)), ...[...page.dropped].filter(() => name === "model").map((m) => new Option(m, m)));
      ask(words ?? {}, false);
    };
    page.hooks.follow.push(() => {  // Back, and an address that was edited
      if (!answer || page.state.view !== view) return;
      const now = fromLink();
      if ([...texts, ...numbers].some((key) => now[key] !== undefined && String(now[key]) !== String(answer.words[key])) || String(now.faults ?? "") !== String(answer.words.faults)) ask(now, false);
    });
    page.hooks.core.push(() => {
      ready = workloads.built();
      update();
      words = fromLink();
      if (page.state.view === view) open();
    });
    page.hooks.show.push((shown) => {
      update();
      if (shown !== view) return;
      if (answer) document.title = `${answer.question} | weft explorer`;
      open();
    });
    id("words").addEventListener("change", () => ask(ofForm(), true));
    id("words").addEventListener("submit", (e) => { e.preventDefault(); ask(ofForm(), true); });
    id("cancel").addEventListener("click", () => workloads.cancelCore());
    page.sentences[view] = () => [id("question").textContent, id("answer").textContent];
    return { ask, askCore, ofForm, answer: () => answer, id };
  };

  // A time of `duration` seconds that the keys move, and what is said of it. `events()`: times where something begins;
  // `showNow(s)`: draws it.
  page.clockOf = (view, duration, events, showNow) => {
    let now = -1, playing = null;
    const go = (s) => { now = Math.min(Math.max(s, 0), duration()); showNow(now); };
    const halt = () => { clearInterval(playing); playing = null; };
    page.moves[view] = {
      step: (by) => { halt(); const all = events(); go(by > 0 ? all.find((t) => t > now + 1e-12) ?? now : all.findLast((t) => t < now - 1e-12) ?? 0); },
      first: () => { halt(); go(0); }, last: () => { halt(); go(duration()); },
      play: () => {
        if (playing) { halt(); return; }
        if (!duration()) return;
        if (now < 0 || now >= duration()) now = 0;
        playing = setInterval(() => { go(now + duration() / 200); if (now >= duration()) halt(); }, 40);
      },
    };
    page.hooks.show.push((shown) => { if (shown !== view) halt(); });
    return go;
  };
  page.time = (s) => (s >= 1 ? `${page.three(s)} s` : s >= 1e-3 ? `${page.three(s * 1e3)} ms` : `${page.three(s * 1e6)} us`);
})();
