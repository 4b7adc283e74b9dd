// SVG and PNG of the picture that a view shows. What styles the page gives it is written into the copy, so that the file
// looks as the page does.
(() => {
  const { $, shape } = page;
  const kStyles = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-weight", "font-family", "text-anchor"];
  const copy = (svg) => {
    const own = svg.isConnected ? null : document.body.appendChild(svg);  // styles are those of the page
    const out = svg.cloneNode(true), from = [svg, ...svg.querySelectorAll("*")], to = [out, ...out.querySelectorAll("*")];
    from.forEach((e, i) => {
      const style = getComputedStyle(e);
      if (e.tagName !== "svg" && e.tagName !== "g" && e.tagName !== "image")
        for (const name of kStyles) to[i].setAttribute(name, style.getPropertyValue(name).replaceAll('"', "'"));
      for (const name of ["style", "tabindex", "class"]) to[i].removeAttribute(name);
    });
    own?.remove();
    for (const hit of out.querySelectorAll('[opacity="0"]')) hit.remove();
    const [x, y, width, height] = out.getAttribute("viewBox").split(/\s+/).map(Number);
    out.setAttribute("xmlns", page.space);
    out.setAttribute("width", width);
    out.setAttribute("height", height);
    const paper = shape(null, "rect", { x, y, width, height, fill: getComputedStyle(document.body).backgroundColor });
    out.prepend(paper);
    out.prepend(shape(null, "title", {}, page.said().join(" ")));
    return { text: new XMLSerializer().serializeToString(out), width, height };
  };
  const save = (blob, name) => {
    const a = document.createElement("a");
    a.href = URL.createObjectURL(blob);
    a.download = name;
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 1000);
  };
  const png = async ({ text, width, height }) => {
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = document.createElement("canvas"), scale = 2;
    canvas.width = Math.min(width * scale, 8192);
    canvas.height = Math.min(height * scale, 8192);
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => { canvas.toBlob(done, "image/png"); });
  };
  page.exported = async (picture, form) => {  // for tests, too
    const svg = page.pictures[picture]?.();
    if (!svg) return null;
    const made = copy(svg);
    return form === "svg" ? new Blob([made.text], { type: "image/svg+xml" }) : png(made);
  };
  for (const button of document.querySelectorAll("[data-export]")) {
    const [picture, form] = button.dataset.export.split(" ");
    button.addEventListener("click", async () => {
      const blob = await page.exported(picture, form);
      if (blob) save(blob, `weft-${picture}.${form}`);
    });
  }
})();
