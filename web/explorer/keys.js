// Keys, and buttons that are no view's own.
(() => {
  const { $, show, state } = page;
  const views = ["machine", "stepper", "curves", "training", "serving"];
  for (const b of document.querySelectorAll("nav [data-view]")) b.addEventListener("click", () => { if (tour.isOpen()) $("tour-close").click(); show(b.dataset.view, true); });
  $("keys").addEventListener("click", () => $("help").showModal());
  $("close").addEventListener("click", () => $("help").close());
  const copy = (button, text, was) => async () => {
    page.remember(false);
    try { await navigator.clipboard.writeText(text()); button.textContent = "Copied"; }
    catch { button.textContent = "Select and copy"; prompt?.("Copy this:", text()); }
    setTimeout(() => { button.textContent = was; }, 1500);
  };
  $("copy").addEventListener("click", copy($("copy"), () => $("command").textContent, "Copy command"));
  $("copy-link").addEventListener("click", copy($("copy-link"), () => location.href, "Copy link"));
  // A page shows the figure by one line; in a notebook the line stands in IPython.display.HTML.
  const line = () => `<iframe src="${location.href.replace(/"/g, "%22")}&figure=1" title="${page.said()[0].replace(/"/g, "&quot;")}" width="100%" height="560" loading="lazy"></iframe>`;
  $("copy-figure").addEventListener("click", copy($("copy-figure"), line, "Copy figure"));
  // What Space and the arrows do: in the tour, and in every view.
  const mover = () => (tour.isOpen() && state.view !== "stepper" ? tour : tour.isOpen() ? { ...stepper, play: tour.play } : page.moves[state.view] ?? stepper);
  addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || $("help").open || e.defaultPrevented) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) && e.target.type !== "range";
    if (typing) { if (e.key === "Escape") e.target.blur(); return; }
    const move = mover(), range = e.target.type === "range";
    const act = {
      1: () => $("tour-close").click(), "?": () => $("help").showModal(), "/": () => { show("machine", true); $("find").focus(); },
      6: () => $("tour-open").click(), c: () => $("copy-link").click(), e: () => document.querySelector("section.shown [data-export]")?.click(),
      ArrowRight: range ? undefined : () => move.step(1), ArrowLeft: range ? undefined : () => move.step(-1), Home: range ? undefined : move.first, End: range ? undefined : move.last,
      ArrowUp: range ? undefined : move.above, ArrowDown: range ? undefined : move.below, Enter: e.target.tagName === "BUTTON" ? undefined : move.enter,
      " ": e.target.tagName === "BUTTON" || e.target.tagName === "SUMMARY" ? undefined : move.play,
    };
    views.forEach((view, i) => { act[i + 1] = () => { if (tour.isOpen()) $("tour-close").click(); show(view, true); }; });
    if (act[e.key]) { e.preventDefault(); act[e.key](); }
  });
  page.start();
})();
