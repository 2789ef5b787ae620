"use strict";
// The view of one design: what it is, its graph and schedule, what a message takes, commands.
explorer.views.design = (() => {
  const { el, state, catalogue, message, copied, quoted } = explorer;

  async function make() {
    const key = state.get("a");
    if (!key) return nothing();
    const { asked, design } = await catalogue.design(key);
    const graph = await catalogue.graph(design);
    const collective = collectiveOf(design);
    const times = el("div", { class: "times" });
    const show = () => times.replaceChildren(message.worked(design.costs[collective]),
      el("figure", {}, explorer.chart.times([design], collective)));
    show();
    return el("div", { class: "view two" },
      el("div", {},
        el("h2", {}, design.label),
        facts(asked, design),
        el("h3", {}, "Recipe"), copied(design.recipe, "the recipe"),
        el("h3", {}, "Commands"), commands(design, collective).map(([what, text]) => [el("p", {}, what), copied(text, what)]),
        el("h3", {}, `Time of ${collective}`), message.sliders(show), times),
      el("div", {}, el("h3", {}, "Graph and schedule"), drawn(design, graph, collective), explorer.exchange.make(design, graph)));
  }

  const nothing = () => el("p", {}, "Choose a design first, in the view of ",
    el("a", { href: state.address({ view: "frontier" }) }, "frontiers"), ".");

  const collectiveOf = (design) =>
    design.costs[catalogue.collective()] ? catalogue.collective() : Object.keys(design.costs)[0];

  function facts(asked, design) {
    const costs = Object.entries(design.costs).map(([name, cost]) => {
      const above = catalogue.above(asked, name, design);
      const over = above === null ? "" : above === 0 ? ", as little as counting allows"
        : `, ${explorer.digits(100 * above, 3)} % above the bound`;
      return [name, `${explorer.many(cost.steps, "step")}, t_b ${cost.t_b} (${explorer.digits(cost.number, 6)})${over}`];
    });
    return explorer.facts([
      ["nodes, ports", `${design.n}, ${design.degree}`],
      ["handle", design.handle],
      ...costs,
      ["all-to-all", design.alltoall ? `t_b ${design.alltoall} (${explorer.digits(explorer.value(design.alltoall), 6)}), messages split over paths` : null],
      ["cost", design.known],
      ["schedule", design.schedule],
      ["what", design.what === "stored" ? null : design.what],
      ["all links in both directions", design.bidirectional === undefined ? null : design.bidirectional ? "yes" : "no"],
    ]);
  }

  function commands(design, collective) {
    const recipe = quoted(design.recipe);
    return [
      ["Build and verify the schedule", `ocs-codesign build ${recipe} --collective ${collective} --out design`],
      ["Check the saved schedule again", "ocs-codesign verify design"],
      ["Work out its cost", `ocs-codesign cost ${recipe}`],
      ["Write its links, for other tools and for this page", `ocs-codesign topology ${recipe} --format json --out graph.json`],
    ];
  }

  /** The panel of a design's graph, or how to get one. */
  function drawn(design, graph, collective, isMain = true) {
    if (graph) {
      const made = explorer.panel.make(graph, { collective, title: design.label, isMain });
      return [made, otherSchedule(design, graph, collective)];
    }
    const most = catalogue.info().graph_nodes;
    return el("div", { class: "note" },
      el("p", {}, explorer.worded(`This site has the links of stored designs of up to ${most} nodes. To draw this one, run the command below `
        + "and open its file in the view of files; or serve these pages with ocs-codesign explore --serve.")),
      copied(`ocs-codesign topology ${quoted(design.recipe)} --format json --out graph.json`, "the command that draws it"));
  }

  function otherSchedule(design, graph, collective) {
    if (explorer.bfb.refusal(graph) || collective !== "allgather") return null;
    const played = explorer.bfb.t_b(graph, explorer.bfb.loads(graph));
    const cost = design.costs[collective];
    return played === cost.t_b ? null : el("p", { class: "note" },
      `What is played is BFB, with t_b ${played}; the cost of the design, ${cost.t_b}, is that of another schedule `
      + `(${design.schedule ?? "by formula"}), which build makes.`);
  }

  return { name: "Design", make, drawn, facts, collectiveOf };
})();
