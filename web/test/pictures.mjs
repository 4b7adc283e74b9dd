// Screenshots of every view of the explorer's page, whole, at three widths and in both themes, to be looked at.
//   node --experimental-websocket web/test/pictures.mjs build/weft FOLDER [WORD]    WORD: only views whose address has it
import { join } from "node:path";
import { openBrowser, sleep } from "./browser.mjs";

const [weft, folder, only = ""] = process.argv.slice(2);
if (!folder || typeof WebSocket === "undefined") {
  console.error("usage: node --experimental-websocket web/test/pictures.mjs WEFT FOLDER [WORD]");
  process.exit(2);
}
const views = ["view=machine", "view=stepper&at=6", "view=curves", "view=training", "view=serving", "view=serving&frontier",
  ...[1, 2, 3, 4, 5, 6, 7, 8].flatMap((n) => [`tour=${n}`, `tour=${n}&answered`]),
  "view=machine&on=dgx-h100:nodes=2&fault=nic:0/3=down", "view=machine&on=dgx-h100:nodes=128,net=ib-ndr",
  "view=machine&on=gb200-nvl72:nodes=2", "view=stepper&on=dgx-h100:nodes=16,net=ib-ndr&algo=ring&at=6"].filter((v) => v.includes(only));
const { call, run, open, settled, shot, close, said } = await openBrowser(weft);
const until = async (test) => { for (let i = 0; i < 300 && !(await run(test)); ++i) await sleep(100); };
// Buttons whose answers are part of the picture.
const press = {
  training: async () => { await until(`document.querySelector("#t-lanes svg") !== null`); },
  serving: async () => { await until(`document.querySelector("#s-lanes svg") !== null`); },
  frontier: async () => { await run(`document.getElementById("s-best").click()`); await until(`!document.getElementById("s-frontier").hidden`); },
  answered: async () => { await run(`document.dispatchEvent(new KeyboardEvent("keydown", { key: " ", bubbles: true }))`); await sleep(1500); },
};
for (const view of views) {
  await open(view.replace(/&(frontier|answered)$/, ""));
  for (const [word, act] of Object.entries(press)) if (view.includes(word)) await act();
  for (const width of [1440, 820, 390])
    for (const theme of ["light", "dark"]) {
      await call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: theme }] });
      await call("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: width < 500 });
      await sleep(400);
      await settled();
      const height = Math.min(4000, await run("document.documentElement.scrollHeight"));
      await call("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 500 });
      await sleep(200);
      const name = `${view.replaceAll(/[^a-z0-9]+/g, "-")}-${width}-${theme}.png`;
      await shot(join(folder, name));
      const wide = await run(`document.documentElement.scrollWidth`);
      console.log(`${name}: ${width} x ${height}${wide > width ? `, ${wide - width} pixels too wide` : ""}`);
    }
  if (view.startsWith("tour")) await call("Page.navigate", { url: "about:blank" });
}
if (said.length) console.log(said.join("\n"));
await close();
process.exit(said.length ? 1 : 0);
