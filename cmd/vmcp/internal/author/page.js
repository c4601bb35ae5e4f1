"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const bars = [...document.querySelectorAll(".bar")];
  const chart = document.querySelector(".chart"), plot = document.getElementById("plot"), axis = document.getElementById("axis");
  const panel = document.querySelector("section"), zoom = document.getElementById("zoom");
  const svg = "http://www.w3.org/2000/svg";
  let chosen = -1;

  // time writes milliseconds with the precision that a reader needs.
  function time(ms) {
    if (ms >= 120000) return (ms / 60000).toFixed(1) + " min";
    if (ms >= 1000) return (ms / 1000).toFixed(2) + " s";
    if (ms >= 10) return ms.toFixed(1) + " ms";
    return ms.toFixed(2) + " ms";
  }

  // pretty breaks JSON text into lines, numbers as they are written.
  function pretty(text) {
    let out = "", depth = 0, inText = false;
    const line = () => "\n" + "  ".repeat(depth);
    for (let i = 0; i < text.length; i++) {
      const c = text[i];
      if (inText) {
        out += c;
        if (c === "\\") out += text[++i] ?? "";
        else if (c === '"') inText = false;
      } else if (c === '"') { inText = true; out += c; }
      else if (c === "{" || c === "[") {
        const close = text[i + 1];
        if (close === "}" || close === "]") { out += c + close; i++; } else { depth++; out += c + line(); }
      } else if (c === "}" || c === "]") { depth = Math.max(0, depth - 1); out += line() + c; }
      else if (c === ",") out += c + line();
      else if (c === ":") out += ": ";
      else out += c;
    }
    return out;
  }

  function add(parent, tag, text, name) {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    if (name) e.className = name;
    parent.append(e);
    return e;
  }

  function block(parent, title, text, name) {
    if (!text) return;
    const box = add(parent, "div");
    add(box, "h3", title);
    add(box, "pre", text, name);
  }

  function show(i) {
    if (chosen >= 0) { bars[chosen].classList.remove("chosen"); bars[chosen].tabIndex = -1; bars[chosen].setAttribute("aria-pressed", "false"); }
    chosen = i;
    const bar = bars[i], step = data.steps[i];
    bar.classList.add("chosen");
    bar.tabIndex = 0;
    bar.setAttribute("aria-pressed", "true");
    panel.replaceChildren();
    add(panel, "h2", (step.kind === "call" ? "" : step.kind + " ") + step.name || step.kind);
    const facts = add(panel, "p", "", "facts");
    add(facts, "b", time(+bar.dataset.durationMs));
    facts.append("  from " + time(+bar.dataset.startMs) + "  ·  step " + bar.dataset.key + (step.file ? "  ·  " + step.file + ":" + step.line : ""));
    if (step.attempt) facts.append("  ·  attempt " + (step.attempt + 1));
    block(panel, "Error" + (step.why ? ": " + step.why : ""), step.error, "bad");
    block(panel, step.file ? step.file + ":" + step.line : "", step.source);
    const columns = add(panel, "div", undefined, "columns");
    block(columns, step.kind === "elicit" ? "Question" : "Arguments", step.args && pretty(step.args));
    block(columns, step.kind === "elicit" ? "Answer" : "Result", step.result && pretty(step.result));
    if (step.cut) add(panel, "p", "Only the beginning is shown here; the recorded case has all of it.", "hint");
  }

  function focus(i) {
    if (i < 0 || i >= bars.length) return;
    bars[i].focus({ preventScroll: true });
    const at = bars[i].getBoundingClientRect(), box = chart.getBoundingClientRect();
    if (at.left < box.left || at.right > box.right) chart.scrollLeft += at.left - box.left - box.width / 3;
    bars[i].scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  bars.forEach((bar, i) => {
    const step = data.steps[i];
    bar.tabIndex = i === 0 ? 0 : -1;
    bar.setAttribute("role", "button");
    bar.setAttribute("aria-pressed", "false");
    bar.setAttribute("aria-label", `${step.kind} ${step.name}, ${time(+bar.dataset.durationMs)}${step.error ? ", failed" : ""}`);
    const tip = document.createElementNS(svg, "title");
    tip.textContent = `${step.kind === "call" ? "" : step.kind + " "}${step.name}  ${time(+bar.dataset.durationMs)}${step.error ? "\n" + step.error : ""}`;
    bar.append(tip);
  });
  plot.addEventListener("click", (e) => {
    const i = bars.indexOf(e.target.closest(".bar"));
    if (i >= 0) { show(i); focus(i); }
  });
  plot.addEventListener("keydown", (e) => {
    const i = bars.indexOf(e.target.closest(".bar"));
    if (i < 0) return;
    const to = { ArrowRight: i + 1, ArrowDown: i + 1, ArrowLeft: i - 1, ArrowUp: i - 1, Home: 0, End: bars.length - 1 }[e.key];
    if (to !== undefined) { focus(to); e.preventDefault(); }
    if (e.key === "Enter" || e.key === " ") { show(i); e.preventDefault(); }
  });

  // The axis has a tick about every 110 pixels, at 1, 2 or 5 times a power of ten.
  function ticks() {
    const width = plot.getBoundingClientRect().width, total = data.total;
    let step = 10 ** Math.floor(Math.log10(Math.max(total * 110 / Math.max(width, 1), 1e-3)));
    while (step * width / total < 80) step *= step.toExponential()[0] === "2" ? 2.5 : 2;
    axis.replaceChildren();
    for (let at = 0, n = 0; at <= total && n < 400; at = ++n * step) {
      const x = (100 * at / total) + "%";
      const rule = document.createElementNS(svg, "line");
      for (const [name, value] of Object.entries({ x1: x, x2: x, y1: 22, y2: "100%" })) rule.setAttribute(name, value);
      const text = document.createElementNS(svg, "text");
      text.setAttribute("x", x);
      text.setAttribute("dx", 4);
      text.setAttribute("y", 15);
      text.textContent = at === 0 ? "0" : time(at).replace(/\.0+(?= )/, "").replace(/(\.\d*?)0+(?= )/, "$1");
      axis.append(rule, text);
    }
  }
  function scale() {
    const middle = (chart.scrollLeft + chart.clientWidth / 2) / Math.max(plot.getBoundingClientRect().width, 1);
    plot.setAttribute("width", 100 * 2 ** zoom.value + "%");
    ticks();
    chart.scrollLeft = middle * plot.getBoundingClientRect().width - chart.clientWidth / 2;
  }
  zoom.addEventListener("input", scale);
  chart.addEventListener("wheel", (e) => {
    if (!e.ctrlKey) return;
    e.preventDefault();
    zoom.value = +zoom.value - Math.sign(e.deltaY) / 2;
    scale();
  }, { passive: false });
  addEventListener("resize", ticks);
  ticks();
  const first = data.steps.findIndex((s) => s.error);
  if (first >= 0) show(first);
})();
