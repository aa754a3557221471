"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const nodes = new Map(data.nodes.map((node) => [node.id, node]));
  const tip = document.getElementById("tip");
  const graph = document.getElementById("graph");
  const all = (selector) => [...document.querySelectorAll(selector)];
  const SHOWN_ALTERNATIVES = 8;

  // Colours: by layout or by algorithm.
  for (const button of all("[data-colours]")) {
    button.addEventListener("click", () => {
      document.documentElement.dataset.colour = button.dataset.colours;
      for (const other of all("[data-colours]")) {
        other.setAttribute("aria-pressed", String(other === button));
      }
    });
  }

  // Zoom.
  const [width, height] = [graph.width.baseVal.value, graph.height.baseVal.value];
  let scale = 1;
  for (const button of all("[data-zoom]")) {
    button.addEventListener("click", () => {
      const step = Number(button.dataset.zoom);
      scale = step === 0 ? 1 : Math.min(3, Math.max(0.1, scale * 1.25 ** step));
      graph.setAttribute("width", width * scale);
      graph.setAttribute("height", height * scale);
    });
  }

  const canvas = document.querySelector(".canvas");
  canvas.scrollLeft = (canvas.scrollWidth - canvas.clientWidth) / 2;

  // The tooltip: a node and its alternatives.
  const element = (tag, text, parent) => {
    const made = document.createElement(tag);
    made.textContent = text;
    parent.append(made);
    return made;
  };
  const ms = (seconds) => (seconds * 1e3).toFixed(3);
  const blocks = (option) => `${option.reads} → ${option.writes}`;
  const extra = (option) => {
    if (option.network_seconds === null) return "impossible";
    const more = ms(option.network_seconds - data.seconds);
    return more.startsWith("-") ? more.replace("-0.000", "+0.000") : `+${more}`;
  };

  function describe(node) {
    tip.replaceChildren();
    element("b", node.label.replace("->", "→"), tip);
    const own = node.template === null ? "" : `, ${node.measured ? "" : "~"}${ms(node.seconds)} ms`;
    element("div", `${node.algorithm}, ${blocks(node)}${own}`, tip);
    if (node.schedule) element("div", node.schedule, tip);
    element("div", `output ${node.shape.join("x")}`, tip);
    if (!node.alternatives.length) return;
    const table = element("table", "", tip);
    const head = element("tr", "", element("thead", "", table));
    for (const title of ["else", "layouts", "own ms", "whole network"]) element("th", title, head);
    const body = element("tbody", "", table);
    for (const other of node.alternatives.slice(0, SHOWN_ALTERNATIVES)) {
      const row = element("tr", "", body);
      element("td", other.template === null ? "" : other.algorithm, row);
      element("td", blocks(other), row);
      element("td", other.template === null ? "" : ms(other.seconds), row).className = "number";
      element("td", extra(other), row).className = "number";
    }
    const hidden = node.alternatives.length - SHOWN_ALTERNATIVES;
    if (hidden > 0) element("div", `and ${hidden} more`, tip);
  }

  function showTip(box, id) {
    describe(nodes.get(id));
    tip.hidden = false;
    const at = box.getBoundingClientRect();
    const beside = at.right + 12 + tip.offsetWidth < innerWidth;
    const left = beside ? at.right + 12 : at.left - tip.offsetWidth - 12;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${Math.max(8, Math.min(at.top, innerHeight - tip.offsetHeight - 8))}px`;
  }

  // Choosing a node chooses its row in the table, and the other way round.
  function choose(id, from) {
    for (const part of all("[data-node]")) part.classList.toggle("chosen", part.dataset.node === id);
    for (const edge of all(".edge")) {
      edge.classList.toggle("near", edge.dataset.from === id || edge.dataset.to === id);
    }
    const inGraph = from.closest("#graph") !== null;
    const same = all(inGraph ? "tr" : "#graph .node").filter((part) => part.dataset.node === id);
    const inline = inGraph ? "nearest" : "center";
    same.pop()?.scrollIntoView({ block: "center", inline, behavior: "smooth" });
  }

  for (const box of all("#graph .node")) {
    const id = box.dataset.node;
    // Our tooltip replaces the browser's, which would cover it.
    box.querySelector("title").remove();
    box.setAttribute("aria-label", nodes.get(id).label);
    box.addEventListener("pointerenter", () => showTip(box, id));
    box.addEventListener("focus", () => showTip(box, id));
    box.addEventListener("pointerleave", () => { tip.hidden = true; });
    box.addEventListener("blur", () => { tip.hidden = true; });
    box.addEventListener("click", () => choose(id, box));
    box.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(id, box); });
  }
  for (const row of all("tr[data-node]")) {
    row.addEventListener("click", () => choose(row.dataset.node, row));
  }
})();
