"use strict";
// All-to-all of a design as `optimum` answers it: its cut and busiest links on the graph, who is how far from whom.
explorer.exchange = (() => {
  const { el, field, catalogue, copied, quoted, many } = explorer;
  const MOST_KEYS = 6;
  const MARGIN_PX = 20; // for the numbers of nodes
  const [NEAR, FAR] = [0.3, 0.85]; // of a ramp: the fewest hops and the most

  /** A section that fills when its data is there. */
  function make(design, graph) {
    const body = el("div", {}, el("p", { class: "note" }, "Being worked out."));
    const made = el("section", { class: "exchange", "aria-label": "All-to-all" }, el("h3", {}, "All-to-all"), body);
    catalogue.exchange(design).then((found) => body.replaceChildren(...(found && graph ? drawn(found, graph) : absent()),
      copied(`ocs-codesign optimum ${quoted(design.recipe)} --collective alltoall --plot alltoall.png`, "the command of the all-to-all")))
      .catch((error) => body.replaceChildren(el("p", { class: "wrong", role: "alert" }, `This cannot be shown: ${error.message}.`)));
    return made;
  }

  const absent = () => [el("p", { class: "note" },
    `Pages have the all-to-all of stored designs of up to ${catalogue.info().exchange_nodes} nodes whose program is small. `
    + "The command finds it, with what proves it, and draws it:")];

  function drawn(found, graph) {
    const view = viewed(found, graph);
    return [
      explorer.facts(found.facts.filter(([name]) => name !== "network")),
      picture(view), keysOfLinks(view),
      el("h4", {}, "Hops of every pair"), ...matrix(view),
    ];
  }

  /** An answer beside its graph: sides of the cut, hops, and links as the drawing takes them. */
  function viewed(found, graph) {
    const side = found.side && new Set(found.side);
    const hops = explorer.bfb.distances(graph);
    const sends = (links, isPlain = false) => links.map((link) => ({ link, isPlain, share: Math.min(0.7, 12 / links.length) }));
    const isEvery = found.leaving.length === graph.links; // such prices tell no link from another
    return {
      found, graph, hops, most: Math.max(1, ...hops.map((row) => Math.max(...row))), side, isEvery,
      busy: sends(found.busiest), leaving: side || !isEvery ? sends(found.leaving, side === null) : [],
      crosses: (from, to) => side !== null && side.has(from) && !side.has(to),
    };
  }

  function picture({ found, graph, side, busy, leaving }) {
    const canvas = el("canvas", { role: "img", class: "graph exchanged" });
    const sides = Array.from({ length: graph.n }, (_, node) => Number(side !== null && !side.has(node)));
    const cut = side ? `A cut of ${many(side.size, "node")}, ${many(leaving.length, "link")} out of it.` : "No cheap cut is as narrow.";
    canvas.setAttribute("aria-label", `All-to-all on ${graph.n} nodes, t_b ${found.t_b}. ${cut} `
      + `${many(busy.length, "link")} of ${graph.links} busy all the time.`);
    const show = () => explorer.drawing.draw(canvas, graph, {
      layout: explorer.state.get("layout"), root: null, shades: (node) => d3.schemeTableau10[sides[node]],
      now: leaving, before: busy, inks: { now: "--bound", before: "--ink" },
    });
    new ResizeObserver(() => canvas.isConnected && show()).observe(canvas);
    canvas.addEventListener("themechange", show);
    return canvas;
  }

  function keysOfLinks({ graph, side, isEvery, busy, leaving }) {
    const { hued } = explorer.drawing;
    const rest = graph.n - (side?.size ?? 0);
    return el("p", { class: "keys" },
      side && hued(d3.schemeTableau10[0], `${many(side.size, "node")} of the cut`), side && hued(d3.schemeTableau10[1], `${many(rest, "node")} beyond the cut`),
      leaving.length ? el("span", { class: "key leaving" }, side ? "leaves the cut" : "has a price, which proves the bound") : null,
      el("span", { class: "key busy" }, busy.length === graph.links ? "busy all the time: every link" : `busy all the time: ${busy.length} of ${graph.links} links`),
      !side && isEvery ? el("span", {}, "Prices on all links prove the bound.") : null);
  }

  /** Hops as shades, red where the cut is crossed; one pair is told, chosen by numbers or on the picture. */
  function matrix(view) {
    const { graph: { n }, hops, most, side, crosses } = view;
    const ramp = (far, isRed) => (isRed ? d3.interpolateReds : d3.interpolateBlues)(NEAR + ((FAR - NEAR) * (far - 1)) / Math.max(1, most - 1));
    const pairs = n * (n - 1);
    const mean = hops.reduce((sum, row) => sum + row.reduce((all, each) => all + each, 0), 0) / pairs;
    const over = side ? side.size * (n - side.size) : 0;
    const summary = `${pairs} pairs of nodes, 1 to ${many(most, "hop")}, ${explorer.digits(mean)} on average`
      + `${over ? `; ${over} cross the cut` : ""}.`;
    const canvas = el("canvas", { role: "img", class: "matrix", "aria-label": `Matrix of hops: ${summary}` });
    const told = el("p", { class: "told", "aria-live": "polite" });
    const chosen = { from: 0, to: n - 1 };
    const inside = (value) => Math.max(0, Math.min(n - 1, Math.round(value) || 0));
    const number = (end, value) => el("input", { type: "number", min: 0, max: n - 1, value, "data-end": end,
      onchange: (event) => choose({ [end]: inside(Number(event.target.value)) }) });
    const ends = { from: number("from", chosen.from), to: number("to", chosen.to) };

    function choose(pair) {
      Object.assign(chosen, pair);
      const { from, to } = chosen;
      [ends.from.value, ends.to.value] = [from, to];
      told.textContent = from === to ? `Node ${from} keeps its own piece.`
        : `From node ${from} to node ${to}: ${many(hops[from][to], "hop")}${crosses(from, to) ? ", across the cut" : ""}.`;
      show();
    }

    function show() {
      const wide = Math.max(200, canvas.clientWidth);
      const ratio = devicePixelRatio || 1;
      canvas.width = canvas.height = Math.round(wide * ratio);
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      const cell = (wide - MARGIN_PX) / n;
      const at = (node) => MARGIN_PX + node * cell;
      const gap = cell > 6 ? 1 : 0;
      for (let from = 0; from < n; from += 1)
        for (let to = 0; to < n; to += 1) {
          pen.fillStyle = from === to ? explorer.colour("--empty") : ramp(hops[from][to], crosses(from, to));
          pen.fillRect(at(to), at(from), cell - gap, cell - gap);
        }
      axes(pen, n, cell, at);
      [pen.lineWidth, pen.strokeStyle] = [2, explorer.colour("--ink")];
      pen.strokeRect(at(chosen.to) - 0.5, at(chosen.from) - 0.5, cell, cell);
    }

    canvas.addEventListener("click", (event) => {
      const box = canvas.getBoundingClientRect();
      const node = (place) => inside(Math.floor(((place - MARGIN_PX) * n) / (box.width - MARGIN_PX)));
      choose({ from: node(event.clientY - box.top), to: node(event.clientX - box.left) });
    });
    canvas.addEventListener("themechange", show);
    new ResizeObserver(() => canvas.isConnected && show()).observe(canvas);
    choose({});
    const few = most <= MOST_KEYS ? d3.range(1, most + 1) : [1, Math.round(most / 2), most];
    const keys = [...few.map((far) => explorer.drawing.hued(ramp(far, false), many(far, "hop"))),
      over ? explorer.drawing.hued(ramp(most, true), "red: across the cut") : null];
    return [canvas, el("p", { class: "keys" }, keys), el("p", { class: "note" }, summary),
      el("div", { class: "controls", role: "group", "aria-label": "A pair of nodes" }, field("From node", ends.from), field("To node", ends.to)), told];
  }

  /** Numbers of nodes beside the matrix, as many as have room. */
  function axes(pen, n, cell, at) {
    pen.fillStyle = explorer.colour("--soft");
    pen.font = "11px system-ui, sans-serif";
    [pen.textAlign, pen.textBaseline] = ["center", "middle"];
    const every = d3.tickStep(0, n, Math.max(2, (n * cell) / 40));
    for (let node = 0; node < n; node += Math.max(1, every)) {
      pen.fillText(String(node), at(node) + cell / 2, MARGIN_PX / 2);
      pen.fillText(String(node), MARGIN_PX / 2, at(node) + cell / 2);
    }
  }

  return { make };
})();
