// Eight steps, each a question, a guess, and an answer that the core computes on a machine. The answer is hidden until it
// is asked for; the figure beside the text is the live view.
const tour = (() => {
  const { $, make, three, table } = page;
  const { steps } = tourSteps;
  const known = JSON.parse(document.getElementById("tour-answers").textContent || "{}");  // made with the core: scripts/build-web
  let at = -1, ready = false, computed = null, waiting = false, seen = false, generations = null;
  const value = () => { const s = steps[at]; return s.low * (s.high / s.low) ** (Number($("tour-guess").value) / 1000); };
  const drawGuess = () => { $("tour-said").textContent = `${three(value())} ${steps[at].unit}`; };
  page.hooks.link.push((all) => { if (at >= 0) all.set("tour", at + 1); });
  page.hooks.draw.push((data) => { computed = data; drawFigure(); });
  addEventListener("resize", () => drawFigure());

  // The step's own figure, where no view is it.
  const drawFigure = () => {
    const own = at >= 0 && steps[at].view === "cliff";
    document.body.classList.toggle("falls", own);
    $("tour-figure").hidden = !own;
    if (!own || waiting) return;
    const list = [...(computed?.machine.steps ?? [])], ethernet = generations?.find((g) => g.family === "Ethernet" && g.GBps > 12 && g.GBps < 13);
    if (ethernet) list.push({ name: "Ethernet", detail: ethernet.title, GBps: ethernet.GBps, of_GiB: `${ethernet.source}, ${ethernet.date}` });
    if (list.length > 1) $("tour-figure").replaceChildren(cliff.draw(list, !seen));
  };
  const drawList = () => {
    $("tour-list").replaceChildren(...steps.map((s, i) => {
      const item = make("li"), button = make("button", s.name);
      if (i === at) button.setAttribute("aria-current", "step");
      button.addEventListener("click", () => open(i));
      item.append(button);
      return item;
    }));
  };
  const drawTable = async () => {
    const mine = at, { families } = steps[at];
    $("tour-table").replaceChildren();
    $("tour-table").parentNode.hidden = !families;
    if (!families) return;
    generations ??= known.generations ?? (await page.askCore({ ask: "generations" })).generations ?? null;
    if (mine !== at || !generations || !seen) return;
    const rows = generations.filter((g) => families.includes(g.family));
    table($("tour-table"), [["Generation"], ["Year", 1], ["GB/s each way", 1], ["of"]], rows.map((g) => {
      const title = make("span", g.title);
      title.title = `${g.source}, ${g.date}`;
      return [title, g.year, three(g.GBps), g.of];
    }));
  };
  const drawFacts = () => {
    const { facts } = steps[at];
    $("tour-facts").replaceChildren();
    $("tour-facts").parentNode.hidden = !facts;
    if (facts) table($("tour-facts"), facts.head.map((h) => [h]), facts.rows);
  };
  const duration = (us) => (us < 1000 ? `${three(us)} us` : `${three(us / 1e3)} ms`);
  const bars = ({ title, list }, times) => {
    const most = Math.max(...times);
    const head = make("h3", title);
    head.setAttribute("aria-level", 2);  // below the step's title
    return [head, ...list.map(([name], i) => {
      const row = make("p", undefined, "bar"), bar = make("i");
      bar.style.width = `${(55 * times[i]) / most}%`;
      row.append(make("span", name), bar, make("b", duration(times[i])));
      return row;
    })];
  };
  const drawCompared = async () => {
    const mine = at, rows = [];
    $("tour-compared").replaceChildren();
    for (const [g, group] of (steps[at].compare ?? []).entries()) {
      const times = [];
      for (const [i, [, asked]] of group.list.entries()) {
        const us = known.compare?.[mine]?.[g]?.[i] ?? (await page.askCore({ ask: "answer", ...asked, curves: false })).time_us;
        if (mine !== at || !seen) return;
        times.push(us ?? 0);
      }
      rows.push(...bars(group, times));
    }
    $("tour-compared").replaceChildren(...rows);
  };
  const reveal = (on) => {
    seen = on;
    document.body.classList.toggle("asks", at >= 0 && !on);
    $("tour-see").hidden = on;
    $("tour-after").hidden = !on;
    drawFigure();
  };
  const open = async (step) => {
    at = step;
    const s = steps[at], mine = at;
    document.body.classList.add("tours");
    $("tour-open").setAttribute("aria-current", "page");
    $("tour").hidden = false;
    $("tour-step").textContent = `${at + 1} of ${steps.length}`;
    $("tour-title").textContent = s.title;
    $("tour-text").textContent = s.text;
    $("tour-question").textContent = s.guess;
    $("tour-tool").textContent = s.tool ?? "In PyTorch";
    $("tour-torch").textContent = s.torch;
    $("tour-keep").textContent = s.keep;
    $("tour-result").textContent = "";
    $("tour-table").replaceChildren();
    $("tour-facts").replaceChildren();
    $("tour-compared").replaceChildren();
    $("tour-guess").value = 500;
    $("tour-back").disabled = at === 0;
    $("tour-next").textContent = at + 1 === steps.length ? "End" : `Next: ${steps[at + 1].name}`;
    drawGuess();
    drawList();
    waiting = true;
    wanted = false;
    $("tour-see").textContent = "See the answer";
    reveal(false);
    page.show(s.view === "cliff" ? "machine" : s.view, false);
    await page.question(s.words, true);
    if (mine !== at) return;
    waiting = false;
    if (s.view === "cliff") generations ??= known.generations ?? (await page.askCore({ ask: "generations" })).generations ?? null;
    if (mine !== at) return;
    drawFigure();
    if (wanted) see();
    if (s.plays && !matchMedia("(prefers-reduced-motion: reduce)").matches) stepper.play();
  };
  const close = () => {
    at = -1;
    $("tour").hidden = true;
    document.body.classList.remove("tours", "asks", "falls");
    $("tour-open").removeAttribute("aria-current");
    drawFigure();
    page.remember(true);
  };
  let wanted = false;  // the answer was asked for before it was there
  const see = () => {
    if (at < 0) return;
    const before = waiting ? known.steps?.[at] : undefined;  // the figure follows
    wanted = waiting && !before;
    $("tour-see").textContent = wanted ? "Computing …" : "See the answer";
    if (wanted) return;
    const found = before ? before.found : steps[at].pick(computed);
    const said = before ? before.said : steps[at].say?.(computed) ?? computed.answer;
    $("tour-result").textContent = Number.isFinite(found) ? `You said ${three(value())} ${steps[at].unit}, weft says ${three(found)}. ${said}` : said;
    reveal(true);
    drawTable();
    drawFacts();
    drawCompared();
  };
  const next = () => (at + 1 < steps.length ? open(at + 1) : close());
  $("tour-open").addEventListener("click", () => { if (ready) open(Math.max(at, 0)); else { $("tour").hidden = false; $("tour-title").textContent = "The tour needs weft's core, which this browser cannot run."; } });
  $("tour-next").addEventListener("click", next);
  $("tour-back").addEventListener("click", () => open(at - 1));
  $("tour-close").addEventListener("click", close);
  $("tour-see").addEventListener("click", see);
  $("tour-guess").addEventListener("input", drawGuess);
  page.hooks.core.push(() => {
    ready = true;
    const given = Number(new URLSearchParams(location.hash.slice(1)).get("tour"));
    if (Number.isInteger(given) && given >= 1 && given <= steps.length) open(given - 1);
  });
  // Space gives the answer, then the next step; arrows turn the pages.
  return { isOpen: () => at >= 0, play: () => (seen ? next() : see()), step: (by) => { if (by > 0) next(); else if (at > 0) open(at - 1); } };
})();
