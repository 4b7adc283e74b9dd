// Opens the explorer's page in Chromium, drives it by the DevTools protocol, and compares what it shows with what the
// command prints. Nothing is fetched: the browser has no network.
//   node --experimental-websocket web/test/page.mjs build/weft [FOLDER]     FOLDER: for screenshots of three widths
// Exit: 0 all as expected, 1 something differs, 2 wrong usage, or Chromium or the core is missing.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [weft, pictures] = process.argv.slice(2);
if (!weft || typeof WebSocket === "undefined") {
  console.error("usage: node --experimental-websocket web/test/page.mjs WEFT [FOLDER]");
  process.exit(2);
}
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const work = mkdtempSync(join(tmpdir(), "weft-page-"));
const file = join(work, "page.html");
execFileSync(weft, ["explore", "--out", file], { stdio: "ignore" });
if (statSync(file).size < 500_000) {
  console.error("page: there is no core in the page; run make web");
  process.exit(2);
}
const browser = spawn("chromium", ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0",
  "--host-resolver-rules=MAP * ~NOTFOUND", `--user-data-dir=${join(work, "profile")}`, "about:blank"], { stdio: "ignore" });
browser.on("error", () => { console.error("page: Chromium is missing: apt-get install chromium"); process.exit(2); });
let port = 0;
for (let i = 0; i < 200 && !port; ++i) {
  await sleep(100);
  try { port = Number(readFileSync(join(work, "profile", "DevToolsActivePort"), "utf8").split("\n")[0]); } catch { /* not yet */ }
}
const target = (await (await fetch(`http://127.0.0.1:${port}/json/list`)).json()).find((t) => t.type === "page");
const socket = new WebSocket(target.webSocketDebuggerUrl);
await new Promise((done) => { socket.onopen = done; });
const waiting = new Map(), said = [];
let next = 0;
socket.onmessage = ({ data }) => {
  const m = JSON.parse(data);
  if (m.id) { waiting.get(m.id)?.(m); waiting.delete(m.id); }
  else if (m.method === "Log.entryAdded") said.push(m.params.entry.text);
  else if (m.method === "Runtime.exceptionThrown") said.push(m.params.exceptionDetails.exception?.description || m.params.exceptionDetails.text);
};
const call = (method, params = {}) => new Promise((done, failed) => {
  const id = ++next;
  waiting.set(id, (m) => (m.error ? failed(new Error(m.error.message)) : done(m.result)));
  socket.send(JSON.stringify({ id, method, params }));
});
const run = async (expression) => (await call("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true })).result.value;
for (const domain of ["Page", "Runtime", "Log"]) await call(`${domain}.enable`);

let failed = 0;
const open = async (fragment) => {
  await call("Page.navigate", { url: "about:blank" });
  await call("Page.navigate", { url: `file://${file}#${fragment}` });
  await settled();
};
// Until the core has started and no question is under way, at most a minute.
const settled = async () => {
  for (let i = 0; i < 600; ++i) {
    await sleep(100);
    if (await run(`document.readyState === "complete" && !document.getElementById("words").hidden && document.getElementById("cancel").hidden`)) return;
  }
};
const check = (name, is, wanted) => {
  const fine = typeof wanted === "string" ? String(is).includes(wanted) : wanted(is);
  console.log(fine ? `ok     ${name}` : `WRONG  ${name}: ${is}`);
  if (!fine) ++failed;
};
const answer = () => run(`document.getElementById("answer").textContent`);
const command = (...options) => JSON.parse(execFileSync(weft, ["explore", ...options, "--json", "-"], { maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] }));

await open("view=stepper");
check("the page as written", await answer(), command().answer);
await open("view=curves&collective=all_gather&bytes=64M&on=dgx-a100");
const other = command("all_gather", "--bytes", "64M", "--on", "dgx-a100");
check("a link with another question", await answer(), other.answer);
check("its command", await run(`document.getElementById("command").textContent`), other.command);
await open("view=stepper&on=dgx-h1");
check("a link to a machine that is not there", await answer(), "unknown machine 'dgx-h1'");
await open("view=stepper");
const change = (id, value) => run(`{ const e = document.getElementById("${id}"); e.value = ${JSON.stringify(value)}; e.dispatchEvent(new Event("change", { bubbles: true })); }`);
await change("w-collective", "reduce_scatter");
await settled();
check("a changed word", await answer(), command("reduce_scatter").answer);
check("the address has the question", await run("location.hash"), "collective=reduce_scatter");
await run("history.back()");
await settled();
check("Back", await answer(), command().answer);

// Space plays to the end, where every rank has everything.
await run(`document.dispatchEvent(new KeyboardEvent("keydown", { key: " ", bubbles: true }))`);
await sleep(300);
check("Space plays", await run(`document.getElementById("play").textContent`), "Pause");
await run(`document.dispatchEvent(new KeyboardEvent("keydown", { key: "End", bubbles: true }))`);
check("the last frame is the postcondition", await run(`[...document.querySelectorAll(".swatch")].every((s) => s.classList.contains("whole"))`), (x) => x === true);

// Dropped files: a schedule and a machine of the command's own, a broken one.
const drop = (name, text) => run(`{ const d = new DataTransfer(); d.items.add(new File([${JSON.stringify(text)}], ${JSON.stringify(name)}));
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: d, bubbles: true })); }`);
const schedule = execFileSync(weft, ["schedule", "all_reduce", "--algo", "ring", "--ranks", "8", "--json", "-"], { encoding: "utf8" });
await drop("mine.json", schedule);
await sleep(300);
await settled();
const mine = join(work, "mine.json");
writeFileSync(mine, schedule);
check("a dropped schedule", await answer(), command("all_reduce", "--algo", mine).answer);
check("its name among the words", await run(`document.getElementById("w-algo").value`), "mine.json");
await drop("broken.xml", "<system><cpu");
await sleep(300);
await settled();
check("a dropped file that is broken", await answer(), "broken.xml:1: not XML");
// Faults by a click, dots, the training view, the tour.
await open("view=machine&on=dgx-h100:nodes=2&bytes=64M");
await run(`document.querySelector('#picture [data-a="node0/nic3"][data-b]').dispatchEvent(new MouseEvent("click", { bubbles: true }))`);
check("a clicked link says its rate", await run(`document.getElementById("slip").textContent`), "GB/s there");
await run(`document.querySelector("#slip button").click()`);
await sleep(200);
await settled();
const link = (await run("location.hash")).match(/fault=([^&]*)/)?.[1];
const broken = command("all_reduce", "--on", "dgx-h100:nodes=2", "--bytes", "64M", "--fault", decodeURIComponent(link ?? "none").replaceAll("+", " "));
check("a broken link changes the answer", await answer(), broken.answer);
check("the old value stands beside the new one", await run(`document.querySelector("#links tr.broken").textContent`), "0, was ");
await run(`document.querySelector("#faults button").click()`);
await sleep(200);
await settled();
check("mended", await answer(), command("all_reduce", "--on", "dgx-h100:nodes=2", "--bytes", "64M").answer);
await open("view=curves&on=dgx-a100");
check("measurements are dots", await run(`document.querySelectorAll("#plot circle").length`), (n) => n > 5);
await open("view=training&t.model=llama3-8b&t.on=dgx-h100&t.pp=2&t.zero=1");
for (let i = 0; i < 100 && !(await run(`document.querySelector("#t-lanes svg") !== null`)); ++i) await sleep(100);
check("its words can be changed", await run(`document.getElementById("t-words").offsetHeight > 0 && document.getElementById("t-no-core").hidden`), (x) => x === true);
const trained = execFileSync(weft, ["train", "llama3-8b", "--on", "dgx-h100", "--pp", "2", "--zero", "1", "--global-batch", "64"], { encoding: "utf8" });
check("the training step", trained, await run(`document.getElementById("t-answer").textContent`));
await open("tour=8");
await sleep(300);
await settled();
await run(`document.getElementById("tour-see").click()`);
check("the tour's last answer", await run(`document.getElementById("tour-result").textContent`), command("all_reduce", "--on", "dgx-h100:nodes=2,net=ib-ndr", "--bytes", "1G", "--fault", "nic:0/3=down").answer);
check("nothing was refused by the content policy, no script failed", said.join("; "), (x) => x === "");

if (pictures) {
  mkdirSync(pictures, { recursive: true });
  for (const theme of ["light", "dark"])
    for (const view of ["machine", "stepper", "curves", "training", "machine&tour=3", "machine&on=dgx-h100:nodes=2&fault=nic:0/3=down"])
      for (const width of [1440, 820, 390]) {
        await call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: theme }] });
        await call("Emulation.setDeviceMetricsOverride", { width, height: 1100, deviceScaleFactor: 1, mobile: width < 500 });
        await open(`view=${view}&at=6`);
        await sleep(800);
        await settled();
        writeFileSync(join(pictures, `${view.replaceAll(/[^a-z0-9]+/g, "-")}-${width}-${theme}.png`), Buffer.from((await call("Page.captureScreenshot")).data, "base64"));
      }
}
browser.kill();
await sleep(300);
rmSync(work, { recursive: true, force: true, maxRetries: 5 });
console.log(failed ? `page: ${failed} differ` : "page: as the command");
process.exit(failed ? 1 : 0);
