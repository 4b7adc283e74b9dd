// Parses the scripts of the explorer's page without a browser, and says where one is wrong.
//   node web/test/parse.mjs build/weft      Exit: 0 all parse, 1 one does not, 2 wrong usage
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Script } from "node:vm";

const [weft] = process.argv.slice(2);
if (!weft) {
  console.error("usage: node web/test/parse.mjs WEFT");
  process.exit(2);
}
const folder = mkdtempSync(join(tmpdir(), "weft-parse-")), file = join(folder, "page.html");
execFileSync(weft, ["explore", "--out", file], { stdio: "ignore" });
const scripts = [...readFileSync(file, "utf8").matchAll(/<script(?: type="text\/plain" id="worker")?>([^]*?)<\/script>/g)].map((m) => m[1]);
rmSync(folder, { recursive: true });
let wrong = scripts.length ? 0 : 1;
for (const [i, text] of scripts.entries())
  try { new Script(text, { filename: `script ${i}` }); } catch (e) { wrong = 1; console.log(e.stack.split("\n").slice(0, 5).join("\n")); }
console.log(`parse: ${scripts.length} scripts, ${wrong ? "wrong" : "all parse"}`);
process.exit(wrong);
