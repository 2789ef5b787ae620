"use strict";
// A graph with its controls: layout, colours, the schedule played step by step, loads per step.
explorer.panel = (() => {
  const { el, field, select, button, bfb } = explorer;
  const BEAT_MS = 900;
  const MOST_COMPARED = 1024;
  const COLOURS = [
    ["distance", "hops from the root"],
    ["orbit", "orbits of the declared symmetry"],
    ["cube", "cubes of the pod"],
    ["class", "nodes alike by distances"],
  ];

  /** What a collective does with the shard of one node: steps in all, and each step. */
  function plan(graph, collective, root) {
    const gather = phase(graph, root);
    const scatter = collective === "allgather" ? null : phase(graph.reversed(), root);
    const first = scatter ? scatter.steps : 0;
    const total = (collective === "reduce-scatter" ? 0 : gather.steps) + first;
    const reduces = (step) => step <= first && collective !== "allgather";

    function at(step) {
      if (step === 0) return { now: [], before: [], has: null };
      if (reduces(step)) {
        const rank = (send) => scatter.steps + 1 - send.step;
        return {
          now: scatter.sends.filter((send) => rank(send) === step),
          before: scatter.sends.filter((send) => rank(send) < step),
          has: (node) => scatter.hops[node] <= scatter.steps - step,
        };
      }
      return {
        now: gather.sends.filter((send) => send.step === step - first),
        before: gather.sends.filter((send) => send.step < step - first),
        has: (node) => gather.hops[node] <= step - first,
      };
    }

    /** Loads in the order of the steps, in shards of M/N. */
    function loads() {
      const back = scatter ? [...bfb.loads(graph.reversed())].reverse() : [];
      return collective === "reduce-scatter" ? back : [...back, ...bfb.loads(graph)];
    }
    return { total, at, loads, reduces };
  }

  function phase(graph, root) {
    const hops = bfb.distances(graph)[root];
    return { sends: bfb.sends(graph, root), hops, steps: Math.max(...hops) };
  }

  function told(played, step, root) {
    const { what = "shard" } = played;
    if (step === 0) return `Before the first step: node ${root} has its own ${what}.`;
    const { now } = played.at(step);
    const many = explorer.many(now.length, "link");
    return played.reduces(step)
      ? `Step ${step} of ${played.total}: ${many} bring parts of the sum for node ${root}.`
      : `Step ${step} of ${played.total}: ${many} carry the ${what} of node ${root}.`;
  }

  /** The panel of a graph: BFB for a collective, or a saved schedule, is played. What is chosen is
   * kept in the address if `isMain`. */
  function make(graph, { collective = "allgather", title = "Graph", isMain = false, schedule = null } = {}) {
    const { state } = explorer;
    const refused = schedule ? null : bfb.refusal(graph);
    const planned = (root) => (schedule ? schedule.plan(root) : plan(graph, collective, root));
    const chosen = {
      layout: state.get("layout"), colour: state.get("colour"),
      root: inside(state.number("root"), graph.n), step: isMain ? state.number("step") : 0,
    };
    let played = refused ? null : planned(chosen.root);
    let beat = null;
    const canvas = el("canvas", { role: "img", tabindex: "-1", class: "graph" });
    const words = el("p", { class: "told", "aria-live": "polite" });
    const keys = el("p", { class: "keys" });
    const at = el("input", { type: "range", min: 0, max: played ? played.total : 0, step: 1, value: 0,
      "aria-label": "Step of the schedule", oninput: () => go(Number(at.value)) });
    const play = button("▶ Play", () => (beat ? stop() : start()), { class: "play" });
    const buttons = [
      button("←", () => go(chosen.step - 1), { "aria-label": "Step back" }),
      play,
      button("→", () => go(chosen.step + 1), { "aria-label": "Step forward" }),
    ];

    function keep(changes) {
      Object.assign(chosen, changes);
      if (isMain)
        state.set(Object.fromEntries(Object.entries(changes).map(([name, each]) => [name, String(each)])), { quietly: true });
      show();
    }

    function go(step) {
      if (played) keep({ step: Math.max(0, Math.min(played.total, step)) });
    }

    function start() {
      if (!played) return;
      play.textContent = "❚❚ Pause";
      if (chosen.step === played.total) go(0);
      beat = setInterval(() => {
        if (!canvas.isConnected || chosen.step >= played.total) stop();
        else go(chosen.step + 1);
      }, BEAT_MS);
    }

    function stop() {
      clearInterval(beat);
      beat = null;
      play.textContent = "▶ Play";
    }

    function reroot(root) {
      if (!refused) played = planned(root);
      keep({ root, step: played ? Math.min(chosen.step, played.total) : 0 });
    }

    function show() {
      const moment = played ? played.at(chosen.step) : {};
      explorer.drawing.draw(canvas, graph, {
        ...chosen, ...moment,
        shades: explorer.drawing.shading(graph, chosen.colour, chosen.root),
      });
      words.textContent = played ? told(played, chosen.step, chosen.root) : refused;
      canvas.setAttribute("aria-label", `${title}: ${graph.n} nodes, ${graph.links} links. ${words.textContent}`);
      keys.replaceChildren(...explorer.drawing.keys(graph, chosen.colour, chosen.root, played !== null));
      at.value = chosen.step;
      number.value = chosen.root;
    }

    canvas.addEventListener("click", (event) =>
      reroot(explorer.drawing.nodeAt(canvas, graph, chosen.layout, event)));
    const number = el("input", { type: "number", min: 0, max: graph.n - 1, value: chosen.root,
      onchange: (event) => reroot(inside(Number(event.target.value), graph.n)) });
    const isKnown = { distance: true, orbit: graph.orbits, cube: graph.parts, class: graph.n <= MOST_COMPARED };
    const shades = COLOURS.filter(([name]) => isKnown[name]);
    if (!isKnown[chosen.colour]) chosen.colour = "distance";
    if (graph.parts && chosen.colour === "distance") chosen.colour = "cube";
    const controls = el("div", { class: "controls" },
      field("Layout", select([["circle", "circle"], ["force", "force"]], chosen.layout, (layout) => keep({ layout }))),
      field("Root", number),
      field("Colours", select(shades, chosen.colour, (colour) => keep({ colour }))));
    const player = played && el("div", { class: "player", role: "group", "aria-label": "Schedule" }, buttons, at);
    const made = el("section", { class: "panel", "aria-label": title }, controls, canvas, keys, player, words, notes(graph),
      played && explorer.chart.loads(played.loads(), graph, schedule ? "this schedule" : "BFB"));
    new ResizeObserver(() => canvas.isConnected && show()).observe(canvas);
    canvas.addEventListener("themechange", show);
    if (played) chosen.step = inside(chosen.step, played.total + 1);
    return made;
  }

  const inside = (value, n) => Math.max(0, Math.min(n - 1, Math.round(value) || 0));

  function notes(graph) {
    const orbits = graph.orbits ? new Set(graph.orbits).size : null;
    const lines = [];
    if (orbits !== null)
      lines.push(`Declared symmetry: ${explorer.many(orbits, "orbit")} of nodes`
        + `${orbits === 1 ? ", all nodes are alike" : ""}.`);
    if (explorer.drawing.isReduced(graph))
      lines.push(`Of ${graph.links} links one a node is drawn, on shortest paths from the root, beside those that the schedule uses.`);
    return lines.length ? el("p", { class: "note" }, lines.join(" ")) : null;
  }

  return { make };
})();
