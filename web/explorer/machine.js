// The machine: weft's picture of it, every link with its rates and their sources, paths between devices, faults.
(() => {
  const { $, make, three, table } = page;
  let machine = null, faults = [];
  // "25", or "0, was 25" where a fault has changed it.
  const rateCell = (now, was) => (was === undefined || was === now ? three(now) : `${three(now)}, was ${three(was)}`);
  const faultsOn = (l) => faults.filter((f) => f.startsWith(`link:${l.a}-${l.b}=`) || f.startsWith(`link:${l.b}-${l.a}=`));
  // Breaks, halves or mends one link: the same question with other faults.
  const fault = (l, how) => {
    const others = faults.filter((f) => !faultsOn(l).includes(f));
    page.question({ ...page.words(), faults: how ? [...others, `link:${l.a}-${l.b}=${how}`] : others }, true);
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
    const columns = [["From"], ["To"], ["Kind"], ["Links or lanes", 1], ["GB/s there", 1], ["GB/s back", 1], ["ns", 1], ["Source"]];
    if (page.choices()) columns.push(["Fault"]);
    const slip = (l) => {
      const b = make("button", "Source", "plain");
      b.setAttribute("aria-label", `Source of the numbers of ${l.a} to ${l.b}`);
      b.addEventListener("click", () => { showLink(l); $("slip").focus(); });
      return b;
    };
    table($("links"), columns,
      rows.map((l) => [l.a, l.b, l.kind, l.count, rateCell(l.ab_GBps, l.healthy?.ab_GBps), rateCell(l.ba_GBps, l.healthy?.ba_GBps),
        rateCell(l.latency_ns, l.healthy?.latency_ns), slip(l), ...(page.choices() ? [faultButtons(l)] : [])]),
      rows.map((l) => (l.healthy ? "broken" : "")));
  };
  const drawFaults = () => {
    $("faults").hidden = !faults.length;
    $("faults").replaceChildren(make("span", "Broken: "), ...faults.map((f) => {
      const b = make("button", `${f} ×`);
      b.setAttribute("aria-label", `Mend ${f}`);
      b.disabled = !page.choices();
      b.addEventListener("click", () => page.question({ ...page.words(), faults: faults.filter((o) => o !== f) }, true));
      return b;
    }));
  };
  // The link's numbers and where each comes from.
  const showLink = (l) => {
    const sources = make("dl", undefined, "origins");
    for (const o of l.origins)
      sources.append(make("dt", o.of), make("dd", o.title ? `${o.title}, ${o.date}` : "as the machine's file says"));
    $("slip").replaceChildren(make("span", l.said), sources, ...(page.choices() ? [faultButtons(l)] : []));
  };
  // What was clicked in the picture: a device's links, or a link with what can be done to it.
  let last = "";
  const select = (element) => {
    const { a, b } = element.dataset;
    for (const e of $("picture").querySelectorAll(".selected")) e.classList.remove("selected");
    for (const e of $("picture").querySelectorAll("[data-a]"))
      if (e.dataset.a === a && e.dataset.b === b && !e.classList.contains("hit")) e.classList.add("selected");
    if (b !== undefined) {
      const l = machine.links.find((x) => x.a === a && x.b === b);
      if (l) showLink(l);
      return;
    }
    $("slip").textContent = machine.devices.find((d) => d.name === a)?.said ?? a;
    $("find").value = a;
    drawLinks();
    if (![...$("from").options].some((o) => o.value === a)) return;
    // The second device that is clicked ends the path that the first one began.
    if (last && last !== a) { $("from").value = last; $("to").value = a; drawPath(); }
    last = a;
  };
  const drawPath = () => {
    const a = $("from").value, b = $("to").value;
    const p = machine.paths.find((x) => (x.from === a && x.to === b) || (x.from === b && x.to === a));
    $("path").textContent = a === b ? "Choose two devices." : p ? p.said : `${a} to ${b}: no path.`;
  };
  // Of a line, or of a curve of three or four points.
  const middleOf = (line) => {
    const n = (line.getAttribute("d") ?? "").match(/-?[\d.]+/g)?.map(Number) ?? ["x1", "y1", "x2", "y2"].map((k) => Number(line.getAttribute(k)));
    const weights = { 2: [1, 1], 3: [1, 2, 1], 4: [1, 3, 3, 1] }[n.length / 2] ?? [1];
    return [0, 1].map((k) => weights.reduce((sum, w, i) => sum + w * n[2 * i + k], 0) / weights.reduce((sum, w) => sum + w, 0));
  };
  // A broken link is dashed, a slower one as narrow as it is now within its old width; a word says which.
  const showFault = (line, l) => {
    line.classList.add(l.ab_GBps === 0 ? "gone" : "slowed");
    const part = l.ab_GBps / l.healthy.ab_GBps, wide = Number(line.getAttribute("stroke-width") ?? 2);
    if (part > 0 && part < 1) {
      const was = line.cloneNode();
      was.setAttribute("class", "was");
      line.before(was);
      line.setAttribute("stroke-width", Math.max(wide * part, 1));
    }
    const at = middleOf(line), text = l.ab_GBps === 0 ? "broken" : part < 1 ? `${three(100 * part)} %` : "later";
    page.shape(line.parentNode, "text", { x: at[0] + wide / 2 + 4, y: at[1] - 8, class: "faulty" }, text);
  };
  const build = (data) => {
    ({ machine } = data);
    ({ faults } = data.words);
    // The picture is weft's own SVG; it is parsed as XML, so that nothing in it can run.
    const svg = new DOMParser().parseFromString(machine.svg, "image/svg+xml").documentElement;
    for (const bad of svg.querySelectorAll("script, foreignObject")) bad.remove();
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", machine.said);
    // Rates and, below the lowest box, the legend: the tour hides both while it asks for one.
    const y = (e) => Number(e.getAttribute("y") ?? e.getAttribute("y1")), tall = (e) => Number(e.getAttribute("height") ?? 0);
    const floor = Math.max(...[...svg.querySelectorAll(".box")].map((e) => y(e) + tall(e)));
    for (const e of svg.querySelectorAll("line, text, rect:not(.paper)")) if (y(e) > floor) e.classList.add("rates");
    for (const text of svg.querySelectorAll("text")) if (/^[\d.]+$|GB\/s/.test(text.textContent.trim())) text.classList.add("rates");
    // Thin lines are hit within 24 pixels.
    for (const line of svg.querySelectorAll("[data-b]")) {
      const l = machine.links.find((x) => x.a === line.dataset.a && x.b === line.dataset.b);
      if (l?.healthy) showFault(line, l);
      const hit = line.cloneNode();
      hit.setAttribute("class", "hit");
      hit.setAttribute("stroke-width", "24");
      hit.setAttribute("opacity", "0");
      line.after(hit);
    }
    // Letters stay readable: a wide picture scrolls instead of shrinking below nine tenths, a narrow one never grows.
    svg.style.setProperty("--least", `${0.9 * svg.viewBox.baseVal.width}px`);
    $("picture").replaceChildren(document.importNode(svg, true));
    $("machine-said").textContent = machine.said;
    $("slip").textContent = page.choices() ? "Click a link to break it, two devices for the path between them." : "Click a link or a device.";
    last = "";
    drawFaults();
    const ends = [...new Set(machine.paths.flatMap((p) => [p.from, p.to]))];
    for (const id of ["from", "to"]) $(id).replaceChildren(...ends.map((e) => new Option(e, e)));
    if (ends.length > 1) $("to").value = ends[ends.length - 1];
    $("left-out").textContent = machine.left_out;
    drawLinks();
    drawPath();
  };
  // Links that carry something now.
  page.hooks.time.push((at) => {
    if (page.state.view !== "machine" || !machine) return;
    const now = wiring.carrying(at);
    for (const e of $("picture").querySelectorAll("[data-b]:not(.hit)")) e.classList.toggle("busy", now.has(wiring.key(e.dataset.a, e.dataset.b)));
  });
  page.hooks.draw.push(build);
  page.hooks.core.push(() => build(page.data()));
  // The four shapes that matter, by click.
  const kShapes = [["Two cards on PCIe", "pcie-2x4090"], ["Eight H100 behind NVSwitch", "dgx-h100"], ["NVL72, a rack as one domain", "gb200-nvl72"], ["A cluster: 16 nodes on InfiniBand", "dgx-h100:nodes=16,net=ib-ndr"]];
  page.hooks.core.push(() => {
    $("four").hidden = false;
    for (const [name, on] of kShapes) {
      const b = make("button", name);
      b.addEventListener("click", () => page.question({ ...page.words(), on, ranks: -1, algo: "", proto: "", chunk: -1, faults: [] }, true));
      $("four").append(b);
    }
  });
  page.pictures.machine = () => $("picture").querySelector("svg");
  $("find").addEventListener("input", drawLinks);
  $("picture").addEventListener("click", (e) => { const hit = e.target.closest("[data-a]"); if (hit) select(hit); });
  for (const id of ["from", "to"]) $(id).addEventListener("change", drawPath);
})();
