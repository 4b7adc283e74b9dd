// axe looks at every view of the explorer's page, in both themes and at three widths (npm install axe-core).
//   node --experimental-websocket web/test/axe.mjs build/weft node_modules/axe-core/axe.min.js [WORD]    WORD: only views whose address has it
// Exit: 0 no finding, 1 findings, 2 wrong usage, or Chromium or the core is missing.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { openBrowser, sleep } from "./browser.mjs";

const views = ["machine", "machine&on=dgx-h100:nodes=16,net=ib-ndr", "machine&on=dgx-h100:nodes=2&fault=nic:0/3=down", "stepper",
  "stepper&on=dgx-h100:nodes=16,net=ib-ndr&algo=ring", "curves", "training", "serving", ...[1, 2, 3, 4, 5, 6, 7, 8].flatMap((n) => [`tour=${n}`, `tour=${n}&answered`])];

export const axeLooks = async ({ call, run, open, settled, check }, file, only = "") => {
  const axe = readFileSync(file, "utf8"), until = async (test) => { for (let i = 0; i < 300 && !(await run(test)); ++i) await sleep(100); };
  for (const view of views.filter((v) => v.includes(only))) {
    await open(view.startsWith("tour") ? view.replace("&answered", "") : `view=${view}`);
    if (view.endsWith("answered")) {
      await run(`document.getElementById("tour-see").click()`);
      await until(`!document.getElementById("tour-after").hidden`);
    }
    if (view === "training") await until(`document.querySelector("#t-lanes svg") !== null`);
    if (view === "serving") {
      await until(`document.querySelector("#s-lanes svg") !== null`);
      await run(`document.getElementById("s-best").click()`);
      await until(`!document.getElementById("s-frontier").hidden`);
    }
    await run(axe);
    for (const width of [1440, 820, 390])
      for (const theme of ["light", "dark"]) {
        await call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: theme }] });
        await call("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: width < 500 });
        await sleep(300);
        await settled();
        const found = await run(`axe.run(document).then((r) => r.violations.map((v) => v.id + ": " + v.nodes.slice(0, 3).map((n) => n.target + " " + n.failureSummary).join(" | ")).join("; "))`);
        check(`axe, ${view}, ${width}, ${theme}`, found, (x) => x === "");
      }
  }
  await call("Emulation.clearDeviceMetricsOverride");
};

const [weft, file, only] = process.argv.slice(2);
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (!file || typeof WebSocket === "undefined") {
    console.error("usage: node --experimental-websocket web/test/axe.mjs WEFT AXE [WORD]");
    process.exit(2);
  }
  const browser = await openBrowser(weft);
  await axeLooks(browser, file, only);
  process.exit((await browser.close()) ? 1 : 0);
}
