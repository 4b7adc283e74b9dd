// Opens the explorer's page in Chromium, drives it by the DevTools protocol, and compares what it shows with what the
// command prints. Nothing is fetched: the browser has no network.
//   node --experimental-websocket web/test/page.mjs build/weft      web/test/pictures.mjs makes screenshots
// WEFT_AXE=…/node_modules/axe-core/axe.min.js: axe, too, looks at every view (web/test/axe.mjs).
// Exit: 0 all as expected, 1 something differs, 2 wrong usage, or Chromium or the core is missing.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { axeLooks } from "./axe.mjs";
import { openBrowser, sleep } from "./browser.mjs";

const [weft] = process.argv.slice(2);
if (!weft || typeof WebSocket === "undefined") {
  console.error("usage: node --experimental-websocket web/test/page.mjs WEFT");
  process.exit(2);
}
const browser = await openBrowser(weft);
const { work, call, run, open, settled, check, close, said } = browser;

const pasted = `user@host:~$ all_reduce_perf -b 1M -e 1G -f 32 -g 8
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
     1048576        262144     float     sum      -1    49.32   21.26   37.20      0    48.91   21.44   37.52      0
    33554432       8388608     float     sum      -1    178.1  188.37  329.64      0    177.9  188.60  330.05      0
  1073741824     268435456     float     sum      -1   3952.3  271.67  475.42      0   3950.1  271.82  475.69      0
`;
const answer = () => run(`document.getElementById("answer").textContent`);
const command = (...options) => JSON.parse(execFileSync(weft, ["explore", ...options, "--json", "-"], { maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] }));

// What a command prints; exit status 1 is an answer, too.
const printed = (...options) => { try { return execFileSync(weft, options, { encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] }); } catch (e) { return String(e.stdout); } };

await open("view=stepper");
check("the page as written", await answer(), command().answer);
check("its question is the core's", await run(`document.getElementById("question").textContent`), command().question);
const sentence = () => run(`[...document.getElementById("sentence").childNodes].map((n) => (n.id === "ask" ? "" : n.id ? "*" : n.textContent)).join("")`);
check("the sentence of amber words, too", await sentence(), (x) => x === command().phrase.map((p) => (p.word ? "*" : p.text)).join(""));
check("and the verdict", await run(`document.getElementById("verdict").textContent`), command().schedule.verdict);
check("the first frame in a sentence", await run(`document.getElementById("now").textContent`), command().schedule.begins_said);
check("the picture in a sentence", await run(`document.querySelector("#picture svg").getAttribute("aria-label")`), command().machine.said);
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
check("a changed word", await answer(), command("reduce_scatter", "--on", "pcie-4x3090").answer);
check("the address has the question", await run("location.hash"), "collective=reduce_scatter");
await run("history.back()");
await settled();
check("Back", await answer(), command().answer);

// A figure for another page, by one line.
await open("view=curves&figure=1");
check("a figure stands alone", await run(`[...document.querySelectorAll("nav, #words, footer")].every((e) => getComputedStyle(e).display === "none")`), (x) => x === true);
check("with its view", await run(`getComputedStyle(document.getElementById("curves")).display !== "none"`), (x) => x === true);
check("its own link stays a figure's", await run("page.remember(false), location.hash"), "figure=1");
await open("view=stepper");
check("and others have everything", await run(`getComputedStyle(document.querySelector("nav")).display !== "none"`), (x) => x === true);
check("an estimate, or its absence, ends in the simulation's answer", await answer(), command().answer);

// Space plays to the end, where every rank has everything.
await run(`document.dispatchEvent(new KeyboardEvent("keydown", { key: " ", bubbles: true }))`);
await sleep(300);
check("Space plays", await run(`document.getElementById("play").textContent`), "Pause");
await run(`document.dispatchEvent(new KeyboardEvent("keydown", { key: "End", bubbles: true }))`);
check("its sentence is the core's", await run(`document.getElementById("now").textContent`), command().schedule.ended_said);
check("the last frame is the postcondition", await run(`[...document.querySelectorAll(".swatch")].every((s) => s.classList.contains("whole"))`), (x) => x === true);

// The first picture is a ring on its wiring: messages on links, colours that grow, the weave.
await open("view=stepper&at=40");
check("a link without a question keeps the page's", await answer(), command().answer);
const drawn = (selector) => run(`document.querySelectorAll(${JSON.stringify(selector)}).length`);
check("four GPUs stand on their wiring", await drawn("#wiring .gpu"), (n) => n === 4);
check("links that carry a message are lit", await drawn("#wiring .lane.busy"), (n) => n >= 2);
check("every message is in the weave", await drawn("#weave line"), (n) => n > 24);
const key = (k) => run(`document.dispatchEvent(new KeyboardEvent("keydown", { key: ${JSON.stringify(k)}, bubbles: true }))`);
const clock = () => run(`document.getElementById("clock").textContent`);
const before = await clock();
await key("ArrowRight");
check("Right goes one move on", await clock(), (t) => t !== before);
await open("view=machine&fault=link:gpu0-gpu1%3Ddown&fault=link:gpu2-cpu0%3D50%25");
check("a broken link and a halved one are named in the picture", await run(`[...document.querySelectorAll("#picture .faulty")].map((t) => t.textContent).sort().join()`), "50 %,broken");
check("the cliff is to scale", await run(`(() => { const [a, b] = [...document.querySelectorAll("#cliff rect")].map((r) => Number(r.getAttribute("width"))); const { steps } = page.data().machine; return Math.abs(a / b - steps[0].GBps / steps[1].GBps) < 0.01; })()`), (x) => x === true);
const clockBefore = await clock();
await key("ArrowRight");
check("arrows move time in the machine's view, too", await clock(), (t) => t !== clockBefore);
await open("view=curves&on=dgx-h100&bytes=1M");
await key("ArrowRight");
check("arrows choose a size among the curves", await run(`document.getElementById("c-cursor").textContent`), "GB/s of bus bandwidth");

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
// Rank 0 leaves its own part out of chunk 0: the stepper stops at the counterexample.
const lacking = JSON.parse(schedule);
const first = lacking.strands[0].findIndex((s) => s.from.length === 2 && s.to.some((o) => o.out !== undefined));
lacking.strands[0][first].from.pop();
writeFileSync(join(work, "lacking.json"), JSON.stringify(lacking));
await drop("lacking.json", JSON.stringify(lacking));
await sleep(300);
await settled();
let wrong = "";
try { execFileSync(weft, ["explore", "all_reduce", "--algo", join(work, "lacking.json"), "--json", "-"], { maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] }); } catch (e) { wrong = JSON.parse(e.stdout); }
check("a wrong schedule is answered by its counterexample", await answer(), wrong.answer);
check("the stepper stands at it", await run(`document.getElementById("stepper").classList.contains("shown") && document.querySelectorAll(".rank.wrong").length`), (n) => n === 1);
await drop("broken.xml", "<system><cpu");
await sleep(300);
await settled();
check("a dropped file that is broken", await answer(), "broken.xml:1: not XML");
// Faults by a click, dots, the training view, the tour.
await open("view=machine&on=dgx-h100:nodes=2&bytes=64M");
await run(`document.querySelector('#picture [data-a="node0/nic3"][data-b]').dispatchEvent(new MouseEvent("click", { bubbles: true }))`);
check("a clicked link says its rate", await run(`document.getElementById("slip").textContent`), command("all_reduce", "--on", "dgx-h100:nodes=2", "--bytes", "64M").machine.links.find((l) => l.a === "node0/nic3" || l.b === "node0/nic3").said);
check("and the source of it, with a date", await run(`[...document.querySelectorAll("#slip dd")].map((d) => d.textContent).join("; ")`), /, 20\d\d-\d\d.*; .*, 20\d\d/);
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
await open("view=curves&on=dgx-h100&bytes=64M");
await run(`document.getElementById("c-guess").click()`);
check("a guess comes before the curves", await run(`document.querySelectorAll("#plot path").length + Number(!document.getElementById("candidates").hidden)`), (n) => n <= 1);
await run(`(() => {
  const key = (k) => document.querySelector("#plot svg").dispatchEvent(new KeyboardEvent("keydown", { key: k, bubbles: true }));
  key("ArrowUp"); key("ArrowRight"); key("ArrowRight"); key("ArrowUp");
  document.getElementById("c-see").click();
})()`);
const judged = () => run(`document.getElementById("c-said").textContent`);
for (let i = 0; i < 100 && /^Computing|^$|GB\/s$/.test(await judged()); ++i) await sleep(100);
check("the guess is judged", await judged(), /of 3 sizes (is|are) within a factor of 1.5|Every size/);
check("then the curves are there", await run(`document.querySelectorAll("#plot path").length`), (n) => n > 3);
await run(`(() => {
  document.getElementById("c-own").open = true;
  document.getElementById("c-table").value = ${JSON.stringify(pasted)};
  document.getElementById("c-show").click();
})()`);
const table = () => run(`document.getElementById("c-table-answer").textContent`);
for (let i = 0; i < 100 && /^(Computing .*|)$/.test(await table()); ++i) await sleep(100);
check("a pasted table", await table(), /^3 rows are read/);
check("its rows", await run(`document.querySelectorAll("#c-rows tbody tr").length`), (n) => n === 3);
await run(`(() => { document.getElementById("c-table").value = "nothing"; document.getElementById("c-show").click(); })()`);
for (let i = 0; i < 100 && /^Computing/.test(await table()); ++i) await sleep(100);
check("a text without rows", await table(), /no row/);
await open("view=training&t.model=llama3-8b&t.on=dgx-h100:nodes=2&t.zero=1&t.fault=nic:0/3%3Ddown");
for (let i = 0; i < 100 && !(await run(`document.querySelector("#t-lanes svg") !== null`)); ++i) await sleep(100);
const faulty = printed("train", "llama3-8b", "--on", "dgx-h100:nodes=2", "--zero", "1", "--global-batch", "64", "--tokens", "1e12", "--price", "2", "--fault", "nic:0/3=down");
check("a training step with a fault", faulty, await run(`document.getElementById("t-answer").textContent`));
check("its command names the fault", await run(`document.getElementById("t-command").textContent`), "--fault nic:0/3=down");
await run(`{ const e = document.getElementById("t-bucket"); e.value = 50; e.dispatchEvent(new Event("change", { bubbles: true })); }`);
for (let i = 0; i < 100 && !(await run(`document.getElementById("t-command").textContent`)).includes("--bucket"); ++i) await sleep(100);
check("the bucket's slider simulates again", await run(`document.getElementById("t-command").textContent`), "--bucket 50");
await change("t-overlap", "0");
for (let i = 0; i < 100 && !(await run(`document.getElementById("t-command").textContent`)).includes("--overlap"); ++i) await sleep(100);
const slower = printed("train", "llama3-8b", "--on", "dgx-h100:nodes=2", "--zero", "1", "--global-batch", "64", "--tokens", "1e12", "--price", "2", "--fault", "nic:0/3=down", "--bucket", "50", "--overlap", "0");
check("so does overlap", slower, await run(`document.getElementById("t-answer").textContent`));
await run(`document.getElementById("t-best").click(); document.getElementById("t-cancel").click()`);
await sleep(500);
check("trying every plan can be cancelled", await run(`document.getElementById("t-plans-answer").textContent + document.getElementById("t-cancel").hidden`), "Cancelled.true");
await open("view=training&t.model=llama3-8b&t.on=dgx-h100&t.pp=2&t.zero=1");
for (let i = 0; i < 100 && !(await run(`document.querySelector("#t-lanes svg") !== null`)); ++i) await sleep(100);
check("its words can be changed", await run(`document.getElementById("t-words").offsetHeight > 0 && document.getElementById("t-no-core").hidden`), (x) => x === true);
const trained = printed("train", "llama3-8b", "--on", "dgx-h100", "--pp", "2", "--zero", "1", "--global-batch", "64", "--tokens", "1e12", "--price", "2");
check("the training step", trained, await run(`document.getElementById("t-answer").textContent`));
check("its question is a sentence of words", await run(`[...document.getElementById("t-sentence").childNodes].map((n) => (n.id ? "*" : n.textContent)).join("")`), (x) => x.startsWith("How long is a training step of * on *, * sequences"));
const clear = (id) => change(id, "");
await clear("t-tokens");
for (let i = 0; i < 100 && (await run(`document.getElementById("t-command").textContent`)).includes("--tokens"); ++i) await sleep(100);
check("without tokens there is no bill", await run(`document.getElementById("t-answer").textContent`), (x) => !x.includes("GPU-hours"));
// Serving: the words, the slider, the link, a plan of the frontier.
const sAnswer = () => run(`document.getElementById("s-answer").textContent`);
const until = async (test) => { for (let i = 0; i < 200 && !(await test()); ++i) await sleep(100); };
const serving = async (fragment) => { await open(`view=serving${fragment}`); await until(() => run(`document.querySelector("#s-lanes svg") !== null && document.getElementById("s-cancel").hidden`)); };
const asCommand = async () => { const line = await run(`document.getElementById("s-command").textContent`); return printed(...line.split(" ").slice(1)).split("\n")[0]; };
await serving("");
check("a served model", await sAnswer(), await asCommand());
check("its question is a sentence of words", await run(`[...document.getElementById("s-sentence").childNodes].map((n) => (n.id ? "*" : n.textContent)).join("")`), (x) => x.startsWith("What do users of * see, served by *"));
await run(`{ const e = document.getElementById("s-slide"); e.value = 230; e.dispatchEvent(new Event("input", { bubbles: true })); e.dispatchEvent(new Event("change", { bubbles: true })); }`);
await until(async () => (await sAnswer()).includes("Unstable"));
check("the slider's rate is above capacity", await sAnswer(), (x) => x.includes("20 requests/s") && x.includes("are stable"));
check("as the command says", await sAnswer(), await asCommand());
await run(`history.back()`);
await until(async () => (await sAnswer()).includes("4 requests/s"));
check("Back returns to the rate before", await sAnswer(), "4 requests/s");
await serving("&s.model=deepseek-r1&s.on=hgx-b200&s.engine=trtllm&s.precision=fp4&s.tp=8&s.ep=8&s.replicas=1&s.concurrency=16&s.rate=0");
check("a link with another question", await sAnswer(), await asCommand());
check("its words stand in the sentence", await run(`["s-model", "s-load", "s-of", "s-ep"].map((i) => document.getElementById(i).value).join(" ")`), "deepseek-r1 16 clients 8");
await run(`dispatchEvent(new KeyboardEvent("keydown", { key: "End", bubbles: true }))`);
check("the keys move the time", await run(`document.getElementById("s-now").textContent`), /requests decode, \d+ wait, .* % of the cache's tokens in use/);
await change("s-tp", "3");
await until(async () => (await sAnswer()).includes("does not divide"));
check("a plan that does not divide", await sAnswer(), "--tp 3: does not divide");
await serving("");
await run(`{ document.getElementById("s-goal-tpot").value = 20; document.getElementById("s-best").click(); }`);
await until(() => run(`document.querySelectorAll("#s-frontier circle").length > 3`));
check("the frontier", await run(`document.getElementById("s-plans-answer").textContent`), /points of \d+ plans were tried/);
await run(`document.querySelector("#s-plans button").click()`);
await until(async () => (await run(`document.getElementById("s-command").textContent`)).includes("--concurrency"));
check("a plan of it is shown", await sAnswer(), await asCommand());
check("and the frontier stays", await run(`document.querySelectorAll("#s-frontier circle").length`), (n) => n > 3);
await open("tour=2");
await settled();
check("no rate is in the picture while the tour asks for one", await run(`[...document.querySelectorAll("#picture text")].filter((t) => t.textContent.includes("31.5") && getComputedStyle(t).visibility !== "hidden").length`), (n) => n === 0);
check("nor is it the guess that the slider begins with", await run(`document.getElementById("tour-said").textContent`), "100 GB/s");
await open("tour=7");
await settled();
check("the tour hides its answer", await run(`document.getElementById("tour-after").hidden && document.querySelectorAll("#tour-figure .cliff > rect").length`), (n) => n === 1);
await key(" ");
await sleep(300);
check("Space gives it", await run(`document.getElementById("tour-after").hidden ? 0 : document.querySelectorAll("#tour-figure .cliff > rect").length`), (n) => n > 3);
await key(" ");
await sleep(300);
check("and then the next step", await run(`document.getElementById("tour-step").textContent`), "8 of 8");
await open("tour=8");
await sleep(300);
await settled();
await run(`document.getElementById("tour-see").click()`);
check("the tour's last answer", await run(`document.getElementById("tour-result").textContent`), command("all_reduce", "--on", "dgx-h100:nodes=2,net=ib-ndr", "--bytes", "1G", "--fault", "nic:0/3=down").answer);
// Pictures of every view as SVG and PNG.
const exported = (picture, form) => run(`page.exported("${picture}", "${form}").then(async (b) => b && { size: b.size, text: b.type.includes("svg") ? (await b.text()).slice(0, 1e6) : [...new Uint8Array(await b.slice(1, 4).arrayBuffer())].map((c) => String.fromCharCode(c)).join("") })`);
for (const [picture, fragment] of [["machine", "view=machine"], ["map", "view=machine&on=dgx-h100:nodes=32,net=ib-ndr&bytes=1M"], ["stepper", "view=stepper&at=6"],
  ["curves", "view=curves"], ["cliff", "view=machine"], ["training", "view=training"], ["serving", "view=serving"]]) {
  await open(fragment);
  if (picture === "serving") await until(() => run(`document.querySelector("#s-lanes svg") !== null`));
  if (picture === "training") for (let i = 0; i < 100 && !(await run(`document.querySelector("#t-lanes svg") !== null`)); ++i) await sleep(100);
  const svg = await exported(picture, "svg"), png = await exported(picture, "png");
  check(`${picture} as SVG, without the page's colours by name`, svg?.text, (t) => /^<svg/.test(t) && !t.includes("var(--") && t.includes("<title>"));
  check(`${picture} as PNG`, png, (p) => p?.text === "PNG" && p.size > 4000);
}
await open("view=machine");
check("there is a button for each", await run(`document.querySelectorAll("[data-export]").length`), (n) => n === 16);
if (process.env.WEFT_AXE) await axeLooks(browser, process.env.WEFT_AXE);
check("nothing was refused by the content policy, no script failed", said.join("; "), (x) => x === "");

const failed = await close();
console.log(failed ? `page: ${failed} differ` : "page: as the command");
process.exit(failed ? 1 : 0);
