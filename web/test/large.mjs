// The explorer's page with many ranks and GPUs: a chunk followed through 1,024 ranks, a map of 131,072 GPUs. Measures
// frames a second and how long questions take.
//   node --experimental-websocket web/test/large.mjs build/weft [FOLDER]     FOLDER: for screenshots
// Exit: 0 all as expected, 1 something is wrong or slower than 30 frames a second, 2 Chromium or the core is missing.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { openBrowser, sleep } from "./browser.mjs";

const [weft, pictures] = process.argv.slice(2);
if (!weft || typeof WebSocket === "undefined") {
  console.error("usage: node --experimental-websocket web/test/large.mjs WEFT [FOLDER]");
  process.exit(2);
}
const { call, run, open, settled, shot, check, close, said } = await openBrowser(weft);
const command = (...options) => JSON.parse(execFileSync(weft, ["explore", ...options, "--json", "-"], { maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] }));
const least = 30;  // frames a second that a busy machine without a graphics card still gives
// Frames a second of `seconds` in which `each(i)` is done before every frame.
const frames = (seconds, each) => run(`new Promise((done) => {
  const began = performance.now();
  let i = 0, worst = 0, before = began;
  const frame = (now) => {
    worst = Math.max(worst, now - before);
    before = now;
    (${each})(i++);
    if (now - began < ${seconds * 1000}) requestAnimationFrame(frame);
    else done({ fps: i / ((now - began) / 1000), worst });
  };
  requestAnimationFrame(frame);
})`);
// What the page's own work for a frame takes, without waiting for the screen.
const work = (count, each) => run(`(() => { const began = performance.now(); for (let i = 0; i < ${count}; ++i) (${each})(i); return (performance.now() - began) / ${count}; })()`);

await call("Emulation.setDeviceMetricsOverride", { width: 1440, height: 1100, deviceScaleFactor: 1, mobile: false });
let began = Date.now();
await open("view=stepper&on=dgx-h100:nodes=128,net=ib-ndr&algo=ring&proto=Simple&chunk=5", 120);
console.log(`a ring on 1,024 ranks, verified and followed: ${((Date.now() - began) / 1000).toFixed(1)} s from opening the page`);
const ring = command("all_reduce", "--on", "dgx-h100:nodes=128,net=ib-ndr", "--algo", "ring", "--proto", "Simple", "--chunk", "5");
check("1,024 ranks: the answer", await run(`document.getElementById("answer").textContent`), ring.answer);
check("the verdict", await run(`document.getElementById("verdict").textContent`), ring.schedule.verdict);
check("the first frame", await run(`document.getElementById("now").textContent`), ring.schedule.begins_said);
const still = await frames(1, "() => {}");
console.log(`an empty page: ${still.fps.toFixed(1)} frames a second`);
await run(`document.getElementById("play").click()`);
const played = await frames(4, "() => {}");
console.log(`1,024 ranks playing: ${played.fps.toFixed(1)} frames a second, the longest ${played.worst.toFixed(0)} ms`);
check("1,024 ranks play smoothly", played.fps, (f) => f >= least);
if (pictures) await shot(join(pictures, "follow-1024-playing.png"));
await run(`document.dispatchEvent(new KeyboardEvent("keydown", { key: "End", bubbles: true }))`);
check("the last frame is the postcondition", await run(`document.getElementById("matrix-done").textContent`), "1024 of 1024 ranks are whole");
check("and says so", await run(`document.getElementById("now").textContent`), ring.schedule.ended_said);
await run(`{ const e = document.getElementById("follow-chunk"); e.value = 700; e.dispatchEvent(new Event("change", { bubbles: true })); }`);
await sleep(200);
await settled(120);
check("another chunk", await run(`document.getElementById("verdict").textContent + location.hash`), /Chunk 700 of 1024 is shown.*chunk=700/);
const seeks = await work(200, `(i) => { document.getElementById("time").value = 5 * i; document.getElementById("time").dispatchEvent(new Event("input")); }`);
console.log(`the work of one frame: ${seeks.toFixed(2)} ms`);

began = Date.now();
await open("view=machine&on=dgx-h100:nodes=16384,net=ib-ndr&bytes=1G", 180);
console.log(`131,072 GPUs: ${((Date.now() - began) / 1000).toFixed(1)} s from opening the page`);
check("131,072 GPUs as a map", await run(`document.getElementById("map-said").textContent`), /^131072 GPUs: .*all nodes alike/);
if (pictures) await shot(join(pictures, "map-131072.png"));
const panned = await frames(3, "(i) => page.map.pan(i % 120 < 60 ? 9 : -9, i % 80 < 40 ? 4 : -4)");
const zoomed = await frames(4, "(i) => page.map.zoom(i % 240 < 120 ? 1.05 : 1 / 1.05, 500, 200)");
console.log(`131,072 GPUs: panned at ${panned.fps.toFixed(1)} frames a second, zoomed at ${zoomed.fps.toFixed(1)}, the longest ${zoomed.worst.toFixed(0)} ms`);
check("pan is smooth", panned.fps, (f) => f >= least);
check("zoom is smooth", zoomed.fps, (f) => f >= least);
for (const [name, by] of [["group", 6], ["nodes", 40], ["node", 1e6]]) {
  await run(`page.map.fit(); page.map.zoom(${by}, 300, 200)`);
  await sleep(400);
  if (pictures) await shot(join(pictures, `map-131072-${name}.png`));
}
check("no script failed", said.join("; "), (x) => x === "");
const failed = await close();
console.log(failed ? `large: ${failed} differ` : "large: as the command");
process.exit(failed ? 1 : 0);
