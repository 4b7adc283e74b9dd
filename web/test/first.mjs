// What one waits for: first paint, the first view, answers after a change. Times on this machine; nothing fails by them.
//   node --experimental-websocket web/test/first.mjs build/weft [OPENINGS]
import { openBrowser, sleep } from "./browser.mjs";

const [weft, openings = "3"] = process.argv.slice(2);
if (!weft || typeof WebSocket === "undefined") {
  console.error("usage: node --experimental-websocket web/test/first.mjs WEFT [OPENINGS]");
  process.exit(2);
}
const { call, run, file, settled, close, said } = await openBrowser(weft);
const go = async (fragment) => {
  await call("Page.navigate", { url: "about:blank" });
  await call("Page.navigate", { url: `file://${file}${fragment}` });
};
// Times within the page: until there are words of an answer, which the cost model may give, and until the simulation's stand there.
const ask = (words) => run(`(async () => {
  const began = performance.now();
  let estimated = 0;
  const observer = new MutationObserver(() => { if (!estimated && /\\d/.test(document.getElementById("answer").textContent)) estimated = performance.now() - began; });
  observer.observe(document.getElementById("answer"), { childList: true, subtree: true, characterData: true });
  await page.question({ ...page.words(), ...${JSON.stringify(words)} }, false);
  const ended = performance.now() - began;
  observer.disconnect();
  return [Math.round(estimated || ended), Math.round(ended)];
})()`);
const questions = {
  "reduce_scatter of the first view": { collective: "reduce_scatter" },
  "all_reduce on eight H100": { collective: "all_reduce", on: "dgx-h100", ranks: -1, algo: "", proto: "" },
  "64 MiB on 16 nodes": { on: "dgx-h100:nodes=16,net=ib-ndr", bytes: "64M" },
  "a broken card of 16 nodes": { faults: ["nic:0/3=down"] },
};
const times = {};
const note = (name, ms) => (times[name] ??= []).push(Math.round(ms));
for (let i = 0; i < Number(openings); ++i) {
  await go("");
  await sleep(1500);
  note("first contentful paint", await run(`performance.getEntriesByType("paint").find((p) => p.name === "first-contentful-paint").startTime`));
  await settled();
  if (i === 0) console.log(`first view: ${await run(`document.querySelector("nav [aria-current]").textContent`)}; ${await run(`document.getElementById("play").textContent`)}; ` +
    `at ${await run(`document.getElementById("clock").textContent`)}; ${await run(`document.getElementById("question").textContent`)}`);
  for (const [name, words] of Object.entries(questions)) {
    const [estimated, ended] = await ask(words);
    note(`${name}: first answer`, estimated);
    note(`${name}: simulated`, ended);
  }
}
for (const [name, list] of Object.entries(times)) console.log(`${name}: ${list.join(", ")} ms`);
if (said.length) console.log(said.join("\n"));
await close();
