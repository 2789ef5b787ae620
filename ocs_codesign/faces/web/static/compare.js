"use strict";
// Two designs side by side.
explorer.views.compare = (() => {
  const { el, field, select, state, catalogue, message } = explorer;
  const SIDES = [["a", "Left"], ["b", "Right"]];

  async function make() {
    const found = await Promise.all(SIDES.map(([side]) => (state.get(side) ? catalogue.design(state.get(side)) : null)));
    const first = found[0] ?? found[1];
    if (!first) return el("p", {}, "Choose two designs first, in the view of ",
      el("a", { href: state.address({ view: "frontier" }) }, "frontiers"), ".");
    const graphs = await Promise.all(found.map((each) => (each ? catalogue.graph(each.design) : null)));
    const designs = found.map((each) => each?.design);
    const collective = catalogue.collective();
    const times = el("div", {});
    const show = () => times.replaceChildren(...together(designs.filter(Boolean), collective));
    show();
    return el("div", { class: "view" },
      el("h2", {}, `Two designs, ${collective}`),
      message.sliders(show), times,
      el("div", { class: "two" }, SIDES.map(([side, text], at) =>
        column(side, text, found[at] ?? { asked: first.asked, design: null }, graphs[at], collective))));
  }

  function column(side, text, { asked, design }, graph, collective) {
    const all = [...asked.designs, ...asked.compared.filter((each) => each.key)];
    const keys = new Map(all.map((each) => [each.key, each]));
    const options = [["", "–"], ...[...keys.values()].map((each) =>
      [each.key, `${each.label} (${explorer.many(each.costs.allgather.steps, "step")})`])];
    return el("section", { "aria-label": `${text} design`, class: `side-${side}` },
      field(`${text}, of ${asked.n} nodes`, select(options, design?.key ?? "", (key) => state.set({ [side]: key }))),
      design && [
        el("h3", {}, design.label),
        explorer.views.design.facts(asked, design),
        explorer.copied(design.recipe, `the recipe of the ${text.toLowerCase()} design`),
        explorer.views.design.drawn(design, graph, collective, false),
      ]);
  }

  function together(designs, collective) {
    const model = message.model();
    const times = designs.map((each) => message.time_s(each.costs[collective], model));
    const texts = designs.map((each, at) => el("li", { class: `line-${at}` }, `${each.label}: ${explorer.time(times[at])}`));
    return [
      el("ul", { class: "legend", "aria-live": "polite" }, texts),
      el("p", { class: "formula" }, verdict(designs, times)),
      el("figure", {}, explorer.chart.times(designs, collective)),
    ];
  }

  function verdict(designs, times) {
    if (designs.length < 2) return "Choose the other design.";
    if (times[0] === times[1]) return "Both take as long as each other.";
    const [fast, slow] = times[0] < times[1] ? [0, 1] : [1, 0];
    return `${message.FORMULA}: ${designs[fast].label} takes ${explorer.digits((100 * times[fast]) / times[slow], 4)} % of the other's time.`;
  }

  return { name: "Compare", make };
})();
