// Compares the modules in WebAssembly with the command, byte by byte.
//   node web/test/core.mjs build/web/weft.wasm build/web/workloads.wasm build/weft     (or web/prebuilt/….wasm.gz.base64)
// Exit: 0 all answers are equal, 1 some differ.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

const [wasm, workloads, weft] = process.argv.slice(2);
if (!wasm || !workloads || !weft) {
  console.error("usage: node web/test/core.mjs WASM WORKLOADS WEFT");
  process.exit(2);
}
// The page's own worker, without its messages.
const worker = readFileSync(new URL("../explorer/worker.js", import.meta.url), "utf8");
const { start, ask, put, exports } = new Function(`${worker}; return { start, ask, put, exports: () => core.exports };`)();
// A module, or web/prebuilt's form of it.
const compiled = (file) => {
  const bytes = readFileSync(file);
  return WebAssembly.compile(file.endsWith(".base64") ? gunzipSync(Buffer.from(bytes.toString(), "base64")) : bytes);
};
await start(await compiled(wasm));

const command = (words) => {
  const options = ["explore", words.collective || "all_reduce", "--json", "-"];
  for (const [key, option] of Object.entries({ on: "--on", bytes: "--bytes", dtype: "--dtype", algo: "--algo", proto: "--proto",
    ranks: "--ranks", root: "--root" }))
    if (words[key] !== undefined) options.push(option, String(words[key]));
  return execFileSync(weft, options, { maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] });
};

// A question's answer in one piece, or its curves afterwards, as the page asks.
const askedLater = (words) => {
  const answer = JSON.parse(ask(JSON.stringify({ ask: "answer", ...words, curves: false })));
  const { algorithm, protocol } = answer.schedule;
  const { curves } = JSON.parse(ask(JSON.stringify({ ask: "curves", ...words, points: false, answered: [algorithm, protocol] })));
  for (const c of curves.candidates)
    c.busbw_GBps = JSON.parse(ask(JSON.stringify({ ask: "curve", ...words, of: [c.algorithm, c.protocol] }))).busbw_GBps;
  return JSON.stringify({ ...answer, curves });
};

const questions = [
  {},
  { collective: "all_gather", bytes: "64M", algo: "pat" },
  { collective: "all_to_all", bytes: "4M", on: "dgx-h100:nodes=2,net=ib-ndr" },
  { collective: "all_reduce", bytes: "1G", on: "dgx-h100:nodes=4,net=roce-400", algo: "ring" },
  { collective: "reduce_scatter", bytes: "64K", on: "dgx-a100" },
  { collective: "broadcast", bytes: "1K", on: "mi300x", root: 3 },
  { collective: "all_reduce", bytes: "16M", on: "pcie-2x4090", dtype: "bfloat16" },
  { collective: "barrier", on: "dgx-h100", ranks: 4 },
];
let failed = 0;
for (const words of questions) {
  const started = performance.now();
  const here = ask(JSON.stringify({ ask: "answer", ...words }));
  const took = performance.now() - started;
  const there = JSON.stringify(JSON.parse(command(words)));
  const same = JSON.stringify(JSON.parse(here)) === there;
  const again = performance.now();
  ask(JSON.stringify({ ask: "answer", ...words, curves: false }));
  const alone = performance.now() - again;
  const later = askedLater(words) === there;
  console.log(`${same && later ? "equal" : "DIFFER"} ${JSON.stringify(words)}: ${here.length} bytes, ${took.toFixed(0)} ms; without curves ${alone.toFixed(0)} ms`);
  if (!same || !later) ++failed;
}

// Bad input is one sentence, and the next question is answered.
for (const [question, words] of [["no JSON", "JSON"], ['{"ask": "answer", "on": "dgx"}', "dgx"], ['{"ask": "answer", "ranks": 900}', "900"],
  ['{"ask": "answer", "size": "1M"}', "size"], ['{"ask": "answer", "bytes": 4}', "bytes"]]) {
  const answer = JSON.parse(ask(question));
  const fine = answer.schema === "weft.error/1" && answer.message.includes(words);
  console.log(`${fine ? "refused" : "WRONG"} ${question}: ${answer.message}`);
  if (!fine) ++failed;
}

// A dropped file is a machine.
put("broken.xml" + "<system><cpu");
exports().weft_drop_file(new TextEncoder().encode("broken.xml").length);
const broken = JSON.parse(ask('{"ask": "answer", "on": "broken.xml"}'));
console.log(`${broken.schema === "weft.error/1" ? "refused" : "WRONG"} broken.xml: ${broken.message}`);
if (broken.schema !== "weft.error/1") ++failed;
const words = JSON.parse(ask('{"ask": "words"}'));
if (words.machines.length < 20) ++failed;

// Training and serving: the module's report is the one of the command that it names.
await start(await compiled(workloads));
const jobs = [{ ask: "train" }, { ask: "train", model: "llama3-70b", on: "dgx-h100:nodes=4,net=ib-ndr", tp: 8, pp: 2, micro_batch: 1, global_batch: 64, tokens: 0 },
  { ask: "train", on: "dgx-h100:nodes=2", zero: 1, bucket: 50, overlap: 0, faults: ["nic:0/3=down"] },
  { ask: "serve" }, { ask: "serve", model: "deepseek-r1", on: "hgx-b200", engine: "trtllm", precision: "fp4", tp: 8, ep: 8, replicas: 1, concurrency: 16, rate: 0, price: 3 },
  { ask: "serve", rate: 20, prefill: "auto:tp=2", replicas: 1, faults: [] }, { ask: "serve", faults: ["gpu:0/3=down"] }, { ask: "frontier", tpot: 20, ttft: 500, price: 2 }];
for (const job of jobs) {
  const started = performance.now(), here = JSON.parse(ask(JSON.stringify(job))), took = performance.now() - started;
  let there = "";
  try { there = execFileSync(weft, [...(here.command ?? "").split(" ").slice(1), "--json", "-"], { maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] }).toString(); }
  catch (e) { there = String(e.stdout ?? ""); }  // exit status 1 is an answer, too
  const same = there !== "" && JSON.stringify(here.report) === JSON.stringify(JSON.parse(there));
  console.log(`${same ? "equal" : "DIFFER"} ${JSON.stringify(job)}: ${took.toFixed(0)} ms${here.message ? `: ${here.message}` : ""}`);
  if (!same) ++failed;
}
console.log(failed ? `${failed} answers differ from the command's` : `core: ${questions.length + jobs.length} answers equal to the command's, bad input refused`);
process.exit(failed ? 1 : 0);
