// The question as a sentence whose words can be changed, and files that are dropped on the page.
(() => {
  const { $, fillSelect, sizeText, question, other } = page;
  const sizes = [8, 64, 512, 4096, 32768, 65536, 262144, 2 ** 20, 2 ** 22, 2 ** 24, 2 ** 26, 2 ** 28, 2 ** 30];
  const short = (b) => (b >= 2 ** 30 ? `${b / 2 ** 30}G` : b >= 2 ** 20 ? `${b / 2 ** 20}M` : b >= 1024 ? `${b / 1024}K` : `${b}`);
  const drawSentence = page.sentence($("sentence"), $("words"), "w-", $("ask"));
  const fill = () => {
    const choices = page.choices();
    if (!choices) return;
    const w = page.words(), { schedule, phrase } = page.data();
    drawSentence(phrase);
    fillSelect("w-collective", choices.collectives.map((c) => [c.name, c.name]), w.collective);
    fillSelect("w-bytes", sizes.map((b) => [short(b), sizeText(b)]), w.bytes);
    fillSelect("w-dtype", choices.types.map((t) => [t, t]), w.dtype);
    $("w-on").value = w.on;
    $("machines").replaceChildren(...choices.machines.map((m) => new Option(m.summary, m.name)));
    $("w-ranks").value = w.ranks < 0 ? "" : w.ranks;
    $("w-ranks").placeholder = schedule.ranks;
    const here = choices.collectives.find((c) => c.name === w.collective);
    fillSelect("w-algo", [["", "weft's choice"], ...(here ? here.algorithms : []).map((a) => [a, a])], w.algo);
    fillSelect("w-proto", [["", "weft's choice"], ...choices.protocols.map((p) => [p, p])], w.proto);
  };
  const ofForm = () => {
    const now = page.words(), collective = $("w-collective").value, on = $("w-on").value.trim();
    const same = collective === now.collective;
    const ranks = $("w-ranks").value === "" ? -1 : Number($("w-ranks").value);
    const algo = same ? $("w-algo").value : "";
    return { collective, on, bytes: $("w-bytes").value, dtype: $("w-dtype").value, ranks, algo, proto: same ? $("w-proto").value : "",
      chunk: same && on === now.on && ranks === now.ranks && algo === now.algo ? now.chunk : -1, faults: on === now.on ? now.faults : [] };
  };
  page.hooks.core.push(() => {
    $("words").hidden = false;
    $("question").classList.add("spoken");  // the sentence with its amber words stands there
    fill();
    $("words").addEventListener("change", () => question(ofForm(), true));
    $("words").addEventListener("submit", (e) => { e.preventDefault(); if (other(ofForm())) question(ofForm(), true); });
  });
  page.hooks.draw.push(fill);

  const kMostFile = 64 * 2 ** 20;
  const take = async (file) => {
    if (!page.choices()) return;
    if (file.size > kMostFile) { page.say(`${file.name}: ${sizeText(file.size)} are more than the 64 MiB that are read at most.`, true); return; }
    const content = await file.text();
    if (file.name.endsWith(".json")) {
      try { JSON.parse(content); } catch (problem) { page.say(`${file.name} is no JSON: ${problem.message}`, true); return; }
    }
    // A name with a dot is a file's for the core.
    const name = file.name.includes(".") ? file.name : `${file.name}.txt`;
    page.dropped.add(name);
    await dropFile(name, content);
    if (/"num_hidden_layers"|"n_layer"/.test(content)) {  // a model's config.json
      page.show("training", false);
      for (const hook of page.hooks.model) hook(name);
      return;
    }
    const isSchedule = /<algo[\s>]/.test(content) || /"schema"\s*:\s*"weft\.schedule/.test(content);
    if (isSchedule) page.show("stepper", false);
    const words = { ...page.words(), chunk: -1 };
    await question(isSchedule ? { ...words, algo: name, proto: "" } : { ...words, on: name, ranks: -1, faults: [] }, true);
  };
  addEventListener("dragover", (e) => e.preventDefault());
  addEventListener("drop", (e) => { e.preventDefault(); if (e.dataTransfer.files[0]) take(e.dataTransfer.files[0]); });
  $("file").addEventListener("change", () => { if ($("file").files[0]) take($("file").files[0]); });
})();
