"use strict";
// Graphs: from payloads and from files; their classes of nodes, and where the nodes are drawn.
explorer.graph = (() => {
  const MOST_NODES = 4096;
  const MOST_LINKS = 65536;
  const FORCED = 300;
  const SEAM = 0.05; // circuits pull less than fixed links, so that cubes stay together

  /** A graph of n nodes from the ends of its links; `orbits` is null where none are known. Of a pod
   * `parts` are the `cubes` of its nodes, and whether a link is one of its `circuits`. */
  function make(n, tail, head, orbits = null, name = "", parts = null) {
    const links = tail.length;
    let [outOf, intoOf, back] = [null, null, null];
    const proper = (ends) => {
      const found = Array.from({ length: n }, () => []);
      for (let link = 0; link < links; link += 1) if (tail[link] !== head[link]) found[ends[link]].push(link);
      return found;
    };
    const ports = new Int32Array(n);
    for (const node of tail) ports[node] += 1;
    const graph = {
      n, tail, head, orbits, name, parts, links,
      degree: Math.max(0, ...ports),
      out: () => (outOf ??= proper(tail)),
      into: () => (intoOf ??= proper(head)),
      /** The graph with its links reversed; link numbers stay. */
      reversed: () => {
        back ??= make(n, head, tail, orbits, name, parts);
        return back;
      },
      isPaired: () => pairs(tail, head, n),
    };
    return graph;
  }

  function pairs(tail, head, n) {
    const number = new Map();
    for (let link = 0; link < tail.length; link += 1) {
      const [one, other] = [tail[link], head[link]];
      if (one === other) continue;
      const key = Math.min(one, other) * n + Math.max(one, other);
      number.set(key, (number.get(key) ?? 0) + (one < other ? 1 : -1));
    }
    return [...number.values()].every((each) => each === 0);
  }

  /** The graph of a payload. */
  function stored({ nodes, degree, heads, orbits }) {
    const tail = Int32Array.from({ length: nodes * degree }, (_, link) => Math.floor(link / degree));
    return make(nodes, tail, numbers(heads, nodes), orbits === null ? null : numbers(orbits, nodes));
  }

  function numbers(text, n) {
    const bytes = explorer.bytesOf(text);
    return Int32Array.from(n <= 256 ? bytes : new Uint16Array(bytes.buffer));
  }

  /** The graph of a file: node-link JSON, or an edge list with a tail and a head a line. */
  function parse(text, name) {
    const { edges, cubes, led } = text.trimStart().startsWith("{") ? nodeLink(JSON.parse(text)) : { edges: edgeList(text) };
    if (!edges.length) throw new Error("the file has no links");
    if (edges.length > MOST_LINKS) throw new Error(`more than ${MOST_LINKS} links are not drawn`);
    const n = Math.max(...edges.flat()) + 1;
    if (n > MOST_NODES) throw new Error(`more than ${MOST_NODES} nodes are not drawn`);
    const end = (which) => Int32Array.from(edges, (edge) => edge[which]);
    return make(n, end(0), end(1), null, name, cubes && partsOf(cubes, led, edges));
  }

  /** Cubes numbered from 0, and the links that a switch leads: by their attribute, or between cubes. */
  function partsOf(cubes, led, edges) {
    const isTold = led.some((each) => each !== undefined);
    const circuits = edges.map(([one, other], at) => (isTold ? led[at] !== undefined : cubes[one] !== cubes[other]));
    return { cubes: numbered(cubes).of, circuits };
  }

  function nodeLink(value) {
    const edges = value.edges ?? value.links;
    if (!Array.isArray(value.nodes) || !Array.isArray(edges)) throw new Error("this is no node-link JSON");
    const number = new Map(value.nodes.map((node, at) => [node.id, at]));
    const found = edges.map((edge) => [number.get(edge.source), number.get(edge.target)]);
    if (found.flat().includes(undefined)) throw new Error("a link ends at a node that the file does not have");
    const cubes = value.nodes.every((node) => node.cube !== undefined) ? value.nodes.map((node) => String(node.cube)) : null;
    const both = (each, back) => (value.directed === false ? each.flatMap((one) => [one, back(one)]) : each);
    return {
      edges: both(found, ([one, other]) => [other, one]),
      cubes,
      led: both(edges.map((edge) => edge.switch), (led) => led),
    };
  }

  function edgeList(text) {
    return text.split(/\r?\n/).map((line, at) => [line.replace(/#.*/, "").trim(), at + 1])
      .filter(([line]) => line)
      .map(([line, at]) => {
        const ends = line.split(/[\s,;]+/).slice(0, 2);
        if (ends.length < 2 || !ends.every((end) => /^\d{1,6}$/.test(end)))
          throw new Error(`line ${at}: two numbers of nodes are needed`);
        return ends.map(Number);
      });
  }

  /** Classes of nodes that distances cannot tell apart, refined by those of their neighbours. */
  function classes(graph) {
    if (graph.classes) return graph.classes;
    const hops = explorer.bfb.distances(graph);
    const profile = (count) => JSON.stringify([...count.entries()].sort((one, other) => one[0] - other[0]));
    let names = Array.from({ length: graph.n }, (_, node) => {
      const [away, back] = [new Map(), new Map()];
      for (let other = 0; other < graph.n; other += 1) {
        away.set(hops[node][other], (away.get(hops[node][other]) ?? 0) + 1);
        back.set(hops[other][node], (back.get(hops[other][node]) ?? 0) + 1);
      }
      return profile(away) + profile(back);
    });
    let number = 0;
    let now = numbered(names);
    while (now.size > number) {
      number = now.size;
      const near = (links, ends) => links.map((link) => now.of[ends[link]]).sort((a, b) => a - b);
      names = names.map((_, node) =>
        JSON.stringify([now.of[node], near(graph.out()[node], graph.head), near(graph.into()[node], graph.tail)]));
      now = numbered(names);
    }
    graph.classes = now.of;
    return graph.classes;
  }

  function numbered(names) {
    const number = new Map();
    for (const name of names) if (!number.has(name)) number.set(name, number.size);
    return { of: names.map((name) => number.get(name)), size: number.size };
  }

  /** Places of the nodes in [-1, 1]: on a circle, or where springs bring them to rest. */
  function places(graph, layout) {
    graph.places ??= {};
    graph.places[layout] ??= layout === "force" ? forced(graph) : circle(graph.n);
    return graph.places[layout];
  }

  function circle(n) {
    return Array.from({ length: n }, (_, node) => {
      const angle = (2 * Math.PI * node) / n - Math.PI / 2;
      return [Math.cos(angle), Math.sin(angle)];
    });
  }

  /** The same graph gives the same picture: springs start on the circle and run a set time. */
  function forced(graph) {
    const nodes = circle(graph.n).map(([x, y]) => ({ x: 100 * x, y: 100 * y }));
    const links = [];
    for (let link = 0; link < graph.links; link += 1)
      if (graph.tail[link] !== graph.head[link])
        links.push({ source: graph.tail[link], target: graph.head[link], pull: graph.parts?.circuits[link] ? SEAM : 1 });
    const rounds = graph.n <= FORCED ? 200 : 60;
    d3.forceSimulation(nodes)
      .force("link", d3.forceLink(links).distance(30).strength(({ pull }) => pull * (graph.n <= FORCED ? 0.25 : 0.1)))
      .force("charge", d3.forceManyBody().strength(-90))
      .force("x", d3.forceX().strength(0.03))
      .force("y", d3.forceY().strength(0.03))
      .stop()
      .tick(rounds);
    const [left, right] = d3.extent(nodes, (node) => node.x);
    const [top, bottom] = d3.extent(nodes, (node) => node.y);
    const half = Math.max(right - left, bottom - top, 1e-9) / 2;
    return nodes.map(({ x, y }) => [(x - (left + right) / 2) / half, (y - (top + bottom) / 2) / half]);
  }

  return { make, stored, parse, classes, places };
})();
