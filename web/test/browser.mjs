// Chromium with the explorer's page in it, driven by the DevTools protocol. It has no network.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// Ends the process with 2 where Chromium or the page's core is missing.
export const openBrowser = async (weft) => {
  const work = mkdtempSync(join(tmpdir(), "weft-page-")), file = join(work, "page.html");
  execFileSync(weft, ["explore", "--out", file], { stdio: "ignore" });
  if (statSync(file).size < 500_000) {
    console.error("page: there is no core in the page: web/prebuilt is missing");
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
  let next = 0, failed = 0;
  socket.onmessage = ({ data }) => {
    const m = JSON.parse(data);
    if (m.id) { waiting.get(m.id)?.(m); waiting.delete(m.id); }
    else if (m.method === "Log.entryAdded") said.push(m.params.entry.text);
    else if (m.method === "Runtime.exceptionThrown") said.push(m.params.exceptionDetails.exception?.description || m.params.exceptionDetails.text);
  };
  const call = (method, params = {}) => new Promise((done, failure) => {
    const id = ++next;
    waiting.set(id, (m) => (m.error ? failure(new Error(m.error.message)) : done(m.result)));
    socket.send(JSON.stringify({ id, method, params }));
  });
  const run = async (expression) => {
    const { result, exceptionDetails } = await call("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    return exceptionDetails ? `${exceptionDetails.exception?.description ?? exceptionDetails.text}` : result.value;
  };
  for (const domain of ["Page", "Runtime", "Log"]) await call(`${domain}.enable`);
  // Until the core has started, no question is under way and curves that are shown are there; at most `seconds`.
  const settled = async (seconds = 60) => {
    for (let i = 0; i < 10 * seconds; ++i) {
      await sleep(100);
      if (await run(`document.readyState === "complete" && !document.getElementById("words").hidden && document.getElementById("cancel").hidden
        && !(document.getElementById("curves").classList.contains("shown") && document.getElementById("plot").textContent.startsWith("Computing …"))`)) return;
    }
  };
  const open = async (fragment, seconds) => {
    await call("Page.navigate", { url: "about:blank" });
    await call("Page.navigate", { url: `file://${file}#${fragment}` });
    await settled(seconds);
  };
  const shot = async (path) => {
    mkdirSync(join(path, ".."), { recursive: true });
    writeFileSync(path, Buffer.from((await call("Page.captureScreenshot")).data, "base64"));
  };
  const check = (name, is, wanted) => {
    const fine = typeof wanted === "string" ? String(is).includes(wanted) : wanted instanceof RegExp ? wanted.test(is) : wanted(is);
    console.log(fine ? `ok     ${name}` : `WRONG  ${name}: ${is}`);
    if (!fine) ++failed;
  };
  const close = async () => {
    await new Promise((done) => { browser.on("exit", done); browser.kill(); setTimeout(done, 5000); });
    await sleep(300);  // its children write a little longer
    rmSync(work, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 });
    return failed;
  };
  return { work, file, call, run, open, settled, shot, check, close, said };
};
