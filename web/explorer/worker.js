// Runs weft's core (web/core) beside the page, so that the page stays responsive and a question can be cancelled by
// ending the worker. Messages: {id, core: WebAssembly.Module}, {id, file, text}, {id, ask}; answered by {id, answer} or
// {id, failed}.
"use strict";
let core = null;

// The few calls of the system that the core's C library names. Nothing is read or written outside of the page.
const system = () => {
  const bytes = () => new DataView(core.exports.memory.buffer);
  const known = {
    clock_time_get: (clock, precision, at) => {
      bytes().setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true);
      return 0;
    },
    fd_write: (fd, list, count, written) => {
      let all = 0;
      for (let i = 0; i < count; ++i) all += bytes().getUint32(list + 8 * i + 4, true);
      bytes().setUint32(written, all, true);
      return 0;
    },
    environ_sizes_get: (count, size) => {
      bytes().setUint32(count, 0, true);
      bytes().setUint32(size, 0, true);
      return 0;
    },
    environ_get: () => 0,
    proc_exit: (code) => { throw new Error(`the core ended with ${code}`); },
  };
  return new Proxy(known, { get: (all, name) => all[name] || (() => 52) });  // 52: ENOSYS
};

const put = (text) => {
  const bytes = new TextEncoder().encode(text);
  const at = core.exports.weft_buffer(bytes.length);
  new Uint8Array(core.exports.memory.buffer, at, bytes.length).set(bytes);
  return bytes.length;
};
const ask = (question) => {
  put(question);
  core.exports.weft_ask();
  const at = core.exports.weft_answer();
  return new TextDecoder().decode(new Uint8Array(core.exports.memory.buffer, at, core.exports.weft_answer_size()));
};

const start = async (module) => {
  const wasi = system();
  core = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: wasi, env: wasi });
  if (core.exports._initialize) core.exports._initialize();
};

if (typeof self !== "undefined" && typeof self.postMessage === "function" && typeof window === "undefined")
  self.onmessage = async ({ data }) => {
    try {
      let answer = "";
      if (data.core) await start(data.core);
      else if (data.file !== undefined) {
        const name = new TextEncoder().encode(data.file).length;
        put(data.file + data.text);
        core.exports.weft_drop_file(name);
      } else answer = ask(data.ask);
      self.postMessage({ id: data.id, answer });
    } catch (problem) {
      self.postMessage({ id: data.id, failed: String(problem && problem.message ? problem.message : problem) });
    }
  };
