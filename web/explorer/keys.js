// Keys, and buttons that are no view's own.
(() => {
  const { $, show, state } = page;
  for (const b of document.querySelectorAll("nav [data-view]")) b.addEventListener("click", () => show(b.dataset.view, true));
  $("keys").addEventListener("click", () => $("help").showModal());
  $("close").addEventListener("click", () => $("help").close());
  $("copy").addEventListener("click", async () => {
    try { await navigator.clipboard.writeText($("command").textContent); $("copy").textContent = "Copied"; }
    catch { $("copy").textContent = "Select and copy"; }
  });
  addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || $("help").open || e.defaultPrevented) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) && e.target.type !== "range";
    if (typing) { if (e.key === "Escape") e.target.blur(); return; }
    const act = {
      1: () => show("machine", true), 2: () => show("stepper", true), 3: () => show("curves", true), 4: () => show("training", true), 5: () => $("tour-open").click(),
      "?": () => $("help").showModal(), "/": () => { show("machine", true); $("find").focus(); },
      e: () => document.querySelector("section.shown [data-export]")?.click(),
    }[e.key] || (state.view === "stepper" && {
      ArrowRight: () => stepper.step(1), ArrowLeft: () => stepper.step(-1), Home: stepper.first, End: stepper.last,
      ArrowUp: stepper.above, ArrowDown: stepper.below,
      " ": e.target.tagName === "BUTTON" ? undefined : stepper.play, Enter: undefined,
    }[e.key]);
    if (act) { e.preventDefault(); act(); }
  });
})();
