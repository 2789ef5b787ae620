"use strict";
// A graph on a canvas: links under nodes, what moves in a step above both.
explorer.drawing = (() => {
  const { colour } = explorer;
  const MOST_DRAWN = 2500;
  const MOST_ARROWS = 500;
  const MOST_NAMES = 64;
  const LEAST_NAMED = 7.5; // pixels: smaller numbers cannot be read
  const MOST_KEYS = 6;
  const MARGIN = 0.9;

  /** Whether not all links of a graph are drawn, but a tree and those that the schedule uses. */
  const isReduced = (graph) => graph.links > MOST_DRAWN;

  /** Draw a graph; `now` and `before` are sends in `inks`, `has` tells the nodes that have the shard.
   * Without a root no node is one. */
  function draw(canvas, graph, { layout, shades, root, now = [], before = [], has = null, inks = {} }) {
    const side = Math.max(200, canvas.clientWidth);
    const ratio = devicePixelRatio || 1;
    canvas.width = canvas.height = Math.round(side * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const at = placed(graph, layout, side);
    const paint = { pen, graph, at, bent: layout === "circle", side };
    const radius = Math.max(1.5, Math.min(11, (side * 1.3) / graph.n / (layout === "circle" ? 1 : 0.5)));
    if (!isReduced(graph)) {
      const arrows = graph.links <= MOST_ARROWS && !graph.isPaired();
      pen.globalAlpha = Math.max(0.12, Math.min(0.75, 260 / graph.links));
      for (let link = 0; link < graph.links; link += 1)
        line(paint, link, { width: 1, ink: inkOf(graph, link), arrow: arrows, radius });
    }
    if (isReduced(graph) && root !== null)
      for (const link of tree(graph, root)) line(paint, link, { width: 0.8, ink: inkOf(graph, link), radius });
    pen.globalAlpha = 0.55;
    for (const send of before) line(paint, send.link, { width: 1.6, ink: colour(inks.before ?? "--sent"), radius });
    pen.globalAlpha = 1;
    const arrows = now.length <= MOST_ARROWS;
    for (const send of now)
      line(paint, send.link, { width: Math.min(1 + 3 * send.share, Math.max(1, radius / 2)), ink: colour(inks.now ?? "--sends"), arrow: arrows && !send.isPlain, radius });
    for (let node = 0; node < graph.n; node += 1) dot(paint, node, { shades, radius, root, has });
  }

  /** Circuits of a pod are told apart from its fixed links. */
  const inkOf = (graph, link) => colour(graph.parts?.circuits[link] ? "--circuit" : "--link");

  /** A link into every node on a shortest path from the root. */
  function tree(graph, root) {
    const hops = explorer.bfb.fromNode(graph, root);
    const isNext = (link) => hops[graph.tail[link]] >= 0 && hops[graph.head[link]] === hops[graph.tail[link]] + 1;
    return graph.into().map((links) => links.find(isNext)).filter((link) => link !== undefined);
  }

  function placed(graph, layout, side) {
    const places = explorer.graph.places(graph, layout);
    return places.map(([x, y]) => [side / 2 + (x * MARGIN * side) / 2, side / 2 + (y * MARGIN * side) / 2]);
  }

  function line({ pen, graph, at, bent, side }, link, { width, ink, arrow = false, radius }) {
    const [from, to] = [at[graph.tail[link]], at[graph.head[link]]];
    if (from === to) return;
    const middle = [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2];
    const towards = bent ? 0.18 : 0;
    const turn = middle.map((each) => each + towards * (side / 2 - each));
    pen.beginPath();
    pen.moveTo(...from);
    pen.quadraticCurveTo(...turn, ...to);
    [pen.lineWidth, pen.strokeStyle] = [width, ink];
    pen.stroke();
    if (!arrow) return;
    const angle = Math.atan2(to[1] - turn[1], to[0] - turn[0]);
    const tip = [to[0] - radius * Math.cos(angle), to[1] - radius * Math.sin(angle)];
    const size = 4 + 1.5 * width;
    pen.beginPath();
    pen.moveTo(...tip);
    for (const side of [-0.4, 0.4])
      pen.lineTo(tip[0] - size * Math.cos(angle + side), tip[1] - size * Math.sin(angle + side));
    pen.fillStyle = ink;
    pen.fill();
  }

  function dot({ pen, graph, at }, node, { shades, radius, root, has }) {
    const [x, y] = at[node];
    pen.beginPath();
    pen.arc(x, y, node === root ? radius + 2 : radius, 0, 2 * Math.PI);
    const isEmpty = has && !has(node);
    const isRinged = isEmpty && graph.parts !== null; // its cube stays to be seen
    pen.fillStyle = isEmpty ? colour("--empty") : shades(node);
    pen.fill();
    pen.lineWidth = node === root ? 3 : isRinged ? 2 : 1;
    pen.strokeStyle = node === root ? colour("--sends") : isRinged ? shades(node) : colour("--ink");
    if (node === root || isRinged || radius > 3) pen.stroke();
    if (graph.n > MOST_NAMES || radius < LEAST_NAMED) return;
    const fill = d3.lab(isEmpty ? colour("--empty") : shades(node));
    pen.fillStyle = fill.l > 55 ? "#000" : "#fff";
    pen.font = `${Math.round(radius * 1.05)}px system-ui, sans-serif`;
    [pen.textAlign, pen.textBaseline] = ["center", "middle"];
    pen.fillText(String(node), x, y + 0.5);
  }

  /** The node nearest to a place on the canvas. */
  function nodeAt(canvas, graph, layout, event) {
    const box = canvas.getBoundingClientRect();
    const at = placed(graph, layout, box.width);
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return d3.leastIndex(at, (one, other) =>
      (one[0] - x) ** 2 + (one[1] - y) ** 2 - (other[0] - x) ** 2 - (other[1] - y) ** 2);
  }

  /** Shades of nodes: by hops from the root, orbit of the declared group, cube, or distances. */
  function shading(graph, by, root) {
    if (by === "orbit" && graph.orbits) return coloured(graph.orbits);
    if (by === "cube" && graph.parts) return coloured(graph.parts.cubes);
    if (by === "class") return coloured(explorer.graph.classes(graph));
    const hops = explorer.bfb.fromNode(graph, root);
    const most = Math.max(1, ...hops);
    return (node) => d3.interpolateViridis(1 - hops[node] / most);
  }

  /** What the colours of nodes and links say, as keys of a legend. */
  function keys(graph, by, root, isPlayed) {
    const { el } = explorer;
    const hops = explorer.bfb.fromNode(graph, root);
    const most = Math.max(0, ...hops);
    const told = by !== "distance" ? [] : most <= MOST_KEYS ? d3.range(most + 1) : [0, Math.round(most / 2), most];
    const hue = (far) => d3.interpolateViridis(1 - far / Math.max(1, most));
    return [
      ...told.map((far) => hued(hue(far), far === 0 ? `root ${root}` : explorer.many(far, "hop"))),
      ...(by === "cube" && graph.parts ? cubeKeys(graph) : []),
      ...(graph.parts ? [["circuit", "circuit of a switch"], ["fixed", "fixed link"]] : [])
        .map(([name, text]) => el("span", { class: `key ${name}` }, text)),
      ...(isPlayed ? [["sends", "sends in this step"], ["sent", "sent before"], ["empty", "has nothing of it"]] : [])
        .map(([name, text]) => el("span", { class: `key ${name}` }, text)),
    ];
  }

  function cubeKeys(graph) {
    const { cubes } = graph.parts;
    const shades = coloured(cubes);
    const number = new Set(cubes).size;
    const first = d3.range(Math.min(number, MOST_KEYS)).map((cube) => cubes.indexOf(cube));
    const more = number > MOST_KEYS ? [explorer.el("span", {}, `and ${number - MOST_KEYS} more`)] : [];
    return [...first.map((node) => hued(shades(node), `cube ${cubes[node]}`)), ...more];
  }

  const hued = (hue, text) => explorer.el("span", { class: "key hue" }, explorer.el("i", { style: `background: ${hue}` }), text);

  function coloured(numbers) {
    const most = Math.max(...numbers) + 1;
    if (most <= 10) return (node) => d3.schemeTableau10[numbers[node]];
    return (node) => d3.interpolateSinebow((numbers[node] * 0.61803398875) % 1);
  }

  return { draw, isReduced, nodeAt, shading, keys, hued };
})();
