// Asks the core the tour's questions, so that the page has its answers at once: writes web/prebuilt/tour.json.
//   node web/test/tour.mjs build/web/weft.wasm web/prebuilt/tour.json
import { readFileSync, writeFileSync } from "node:fs";

const [wasm, file] = process.argv.slice(2);
if (!wasm || !file) {
  console.error("usage: node web/test/tour.mjs WASM FILE");
  process.exit(2);
}
const text = (name) => readFileSync(new URL(`../explorer/${name}`, import.meta.url), "utf8");
const { start, ask } = new Function(`${text("worker.js")}; return { start, ask };`)();
const { steps } = new Function(`${text("tour_steps.js")}; return tourSteps;`)();
await start(await WebAssembly.compile(readFileSync(wasm)));
const answer = (question) => {
  const got = JSON.parse(ask(JSON.stringify(question)));
  if (got.schema === "weft.error/1") throw new Error(`${JSON.stringify(question)}: ${got.message}`);
  return got;
};
const found = steps.map((s) => {
  const got = answer({ ask: "answer", ...s.words, curves: false });
  return { found: s.pick(got), said: s.say?.(got) ?? got.answer };
});
const compare = steps.map((s) => (s.compare ?? []).map(({ list }) => list.map(([, words]) => answer({ ask: "answer", ...words, curves: false }).time_us)));
writeFileSync(file, JSON.stringify({ steps: found, compare, generations: answer({ ask: "generations" }).generations }, null, 1) + "\n");
