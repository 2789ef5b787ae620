"use strict";
// The view of a size: its frontier, its designs, and which is fastest for a message.
explorer.views = {};
explorer.views.frontier = (() => {
  const { el, field, select, button, state, catalogue, message } = explorer;
  const ORDERS = {
    design: (row) => row.each.label,
    steps: (row) => row.steps,
    t_b: (row) => row.t_b,
    "above the bound": (row) => row.above ?? Infinity,
    time: (row) => row.time,
  };
  let order = "steps";
  let isDown = false;

  async function make() {
    const degree = closest(catalogue.degrees(), state.number("d"));
    const kinds = catalogue.linksOf(degree);
    const links = kinds.includes(state.get("links")) ? state.get("links") : kinds[0];
    const kind = catalogue.kindOf(degree, links);
    const n = catalogue.nearest(kind, state.number("n"));
    const asked = await catalogue.question(kind, n);
    const collective = catalogue.collective();
    const body = el("div", { class: "frontier" });
    const show = () => body.replaceChildren(...contents(asked, collective));
    const view = el("div", { class: "view" }, form({ degree, links, kind, n, collective }),
      el("div", { class: "side" }, message.sliders(show)), body);
    show();
    return view;
  }

  const closest = (values, wanted) =>
    values.reduce((best, each) => (Math.abs(each - wanted) < Math.abs(best - wanted) ? each : best));

  function form({ degree, links, kind, n, collective }) {
    const sizes = catalogue.sizes(kind);
    const at = sizes.indexOf(n);
    const go = (changes) => state.set(changes);
    const nodes = el("input", {
      type: "number", min: sizes[0], max: sizes.at(-1), value: n, id: "nodes",
      onchange: (event) => go({ n: String(catalogue.nearest(kind, Number(event.target.value) || n)) }),
    });
    const to = (next, text, label) => button(text, () => go({ n: String(sizes[next]) }), {
      "aria-label": label, disabled: sizes[next] === undefined,
    });
    return el("form", { class: "question", "aria-label": "Question", onsubmit: (event) => event.preventDefault() },
      field("Nodes N", nodes, el("span", { class: "near" }, to(at - 1, "−", "Fewer nodes"), to(at + 1, "+", "More nodes"))),
      field("Ports d", select(catalogue.degrees().map((each) => [each, each]), degree, (d) => go({ d }))),
      field("Links", select(catalogue.linksOf(degree).map((each) => [each, catalogue.LINKS[each]]), links,
        (each) => go({ links: each }))),
      field("Collective", select(catalogue.COLLECTIVES.map((each) => [each, each]), collective, (c) => go({ c }))),
      el("label", { class: "check" }, el("input", { type: "checkbox", id: "baselines",
        checked: state.get("baselines") === "yes",
        onchange: (event) => go({ baselines: event.target.checked ? "yes" : "no" }) }), " Baselines"));
  }

  function contents(asked, collective) {
    const rows = rowsOf(asked, collective);
    const fastest = d3.least(rows.filter((row) => row.kind === "stored"), (row) => row.time);
    const chosen = [state.get("a"), state.get("b")].filter(Boolean);
    return [
      el("h2", {}, `${asked.n} nodes of ${asked.degree} ports, ${catalogue.LINKS[asked.links]}, ${collective}`),
      el("p", { class: "best", "aria-live": "polite" }, ...best(fastest)),
      el("figure", {}, explorer.chart.frontier(asked, collective, chosen, look), legend(asked, collective)),
      waiting(rows),
      designs(asked, rows, fastest, collective),
      missing(asked),
    ].filter(Boolean);
  }

  function best(fastest) {
    if (!fastest) return ["No stored design answers this question."];
    const { message_bytes } = message.model();
    return [`Fastest for ${explorer.size(message_bytes)}: `,
      el("a", { href: linkTo(fastest.each) }, fastest.each.label), ` in ${explorer.time(fastest.time)}.`];
  }

  function legend(asked, collective) {
    const bounds = asked.bounds[collective];
    const text = bounds.length
      ? bounds.map(([steps, t_b]) => `${explorer.many(steps, "step")} on: t_b ≥ ${t_b}`).join("; ")
      : "counting leaves no room for such a topology";
    const all = explorer.chart.shown(asked, collective);
    const key = (name, text, isThere) => (all.some(isThere) ? el("span", { class: `key ${name}` }, text) : null);
    return el("figcaption", {},
      key("front", "frontier", (point) => point.isFront),
      key("stored", "other stored designs", (point) => point.kind === "stored" && !point.isFront),
      key("published", "published", (point) => point.kind === "published"),
      key("baseline", "baselines", (point) => point.kind === "baseline"),
      el("span", { class: "key bound" }, `what counting rules out (from ${text})`));
  }

  function rowsOf(asked, collective) {
    const model = message.model();
    return explorer.chart.points(asked, collective).map((point) => ({
      ...point,
      above: catalogue.above(asked, collective, point.each),
      time: message.time_s(point.each.costs[collective], model),
    }));
  }

  const linkTo = (each) => state.address({ view: "design", a: each.key, step: "0" });
  const look = (each) => state.set({ view: "design", a: each.key, step: "0" });

  function designs(asked, rows, fastest, collective) {
    const sorted = d3.sort(rows, ORDERS[order], (row) => row.t_b);
    if (isDown) sorted.reverse();
    const caption = `Designs of ${asked.n} nodes of ${asked.degree} ports; t_b in units of M/B`;
    const made = explorer.table(caption, [...Object.keys(ORDERS), "what", "t_b exactly", "compare"],
      sorted.map((row) => cells(row, fastest, collective)), 4, 1);
    made.querySelectorAll("th").forEach((head, at) => {
      const name = Object.keys(ORDERS)[at];
      if (!name) return;
      head.setAttribute("aria-sort", name !== order ? "none" : isDown ? "descending" : "ascending");
      head.replaceChildren(button(name, () => {
        isDown = name === order ? !isDown : false;
        order = name;
        const again = designs(asked, rows, fastest, collective);
        made.replaceWith(again);
        again.querySelectorAll("th button")[at].focus();
      }));
    });
    return made;
  }

  function cells(row, fastest, collective) {
    const { each } = row;
    const name = each.key ? el("a", { href: linkTo(each) }, each.label) : each.label;
    const what = row.kind !== "stored" ? row.kind : row.isFront ? "frontier" : "stored";
    return [
      name, row.steps, explorer.digits(row.t_b, 6),
      row.above === null ? null : `${explorer.digits(100 * row.above, 3)} %`,
      el("span", { class: row === fastest ? "fastest" : null }, explorer.time(row.time)),
      what, each.costs[collective].t_b,
      each.key && button("Compare", () => compare(each), { "aria-label": `Compare ${each.label}` }),
    ];
  }

  /** The first design that is compared is the one on the left, the next one on the right. */
  function compare(each) {
    const left = state.get("a");
    if (!left || left === each.key) {
      state.set({ a: each.key });
      explorer.say(`${each.label} is on the left: choose another one.`);
    } else state.set({ view: "compare", b: each.key });
  }

  /** What the next design will be compared with. */
  function waiting(rows) {
    const left = rows.find((row) => row.each.key && row.each.key === state.get("a"));
    return left ? el("p", { class: "note" }, `${left.each.label} is chosen: compare it with another one of the table.`) : null;
  }

  function missing(asked) {
    if (!asked.uncosted.length) return null;
    const [up, multiple] = catalogue.info().kautz;
    return el("p", { class: "note" }, `Without a point: ${asked.uncosted.join(", ")}, published, whose cost has no formula `
      + `(worked out here up to ${up} nodes and for multiples of ${multiple}): `
      + `ocs-codesign cost tells it.`);
  }

  return { name: "Frontier", make };
})();
