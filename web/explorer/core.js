// weft's two modules, each in a worker beside the page: questions, dropped files, cancel. `core` answers about collectives,
// `workloads` about training and serving; a module is unpacked with its first question.
"use strict";
const droppedFiles = new Map();
const coreOf = (id) => {
  const text = (element) => document.getElementById(element).textContent.trim();
  const built = () => Boolean(text(id));
  const state = { worker: null, module: null, waiting: new Map(), next: 0 };
  const post = (message) => new Promise((done, failed) => {
    const id = ++state.next;
    state.waiting.set(id, { done, failed });
    state.worker.postMessage({ id, ...message });
  });
  const startCore = async () => {
    if (!state.module) {
      const packed = Uint8Array.from(atob(text(id)), (c) => c.charCodeAt(0));
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      state.module = await WebAssembly.compile(await new Response(stream).arrayBuffer());
    }
    const url = URL.createObjectURL(new Blob([text("worker")], { type: "text/javascript" }));
    state.worker = new Worker(url);
    URL.revokeObjectURL(url);
    state.worker.onmessage = ({ data: m }) => {
      const { done, failed } = state.waiting.get(m.id) || {};
      state.waiting.delete(m.id);
      if (m.failed !== undefined) failed?.(new Error(m.failed));
      else done?.(m.answer);
    };
    await post({ core: state.module });
    for (const [file, content] of droppedFiles) await post({ file, text: content });
  };
  const stopCore = () => {
    state.worker?.terminate();
    state.worker = null;
    for (const { failed } of state.waiting.values()) failed(new Error("cancelled"));
    state.waiting.clear();
  };
  const askCore = async (question) => {
    try {
      if (!state.worker) await startCore();
      return JSON.parse(await post({ ask: JSON.stringify(question) }));
    } catch (problem) {
      if (problem.message === "cancelled") return { schema: "weft.error/1", message: "Cancelled." };
      stopCore();  // the core may be in any state: the next question starts another
      return { schema: "weft.error/1", message: `The core stopped at this question (${problem.message}). The next one starts it again.` };
    }
  };
  // Ends the question that the core is at, if there is one.
  const cancelCore = () => { if (state.waiting.size) stopCore(); };
  const take = async (file, content) => { if (state.worker) await post({ file, text: content }); };
  return { askCore, built, cancelCore, stopCore, take };
};
const core = coreOf("core"), workloads = coreOf("workloads");
// A name with a dot is a file's for the modules. Those that start later get the file, too.
const dropFile = async (name, content) => {
  droppedFiles.set(name, content);
  await core.take(name, content);
  await workloads.take(name, content);
};
