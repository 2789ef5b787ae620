"use strict";
// Questions and designs, as values that views show: what the payloads' columns mean.
explorer.catalogue = (() => {
  const COLLECTIVES = ["allgather", "reduce-scatter", "allreduce"];
  const LINKS = { any: "any links", bidirectional: "links in both directions" };
  let index = null;

  const open = async () => (index = await explorer.load("index"));
  const kindOf = (degree, links) => `${degree}-${links}`;
  const sizes = (kind) => index.kinds[kind]?.chunks.flat() ?? [];

  const degrees = () => [...new Set(Object.values(index.kinds).map((kind) => kind.degree))];
  const linksOf = (degree) => Object.keys(LINKS).filter((links) => index.kinds[kindOf(degree, links)]);

  /** The size nearest to n that the catalogue has, null if it has no such designs. */
  function nearest(kind, n) {
    const all = sizes(kind);
    return all.length ? all.reduce((best, each) => (Math.abs(each - n) < Math.abs(best - n) ? each : best)) : null;
  }

  /** A question with its designs, which know where they stand in it. */
  async function question(kind, n) {
    const chunk = index.kinds[kind]?.chunks.find((each) => each.includes(n));
    if (!chunk) throw new Error(`there are no designs of ${n} nodes of ${kind.replace("-", " ports, links: ")}`);
    const pages = await explorer.load(`designs/${kind}/${chunk[0]}`);
    const page = pages.find((each) => each.nodes === n);
    const { degree, bidirectional } = index.kinds[kind];
    const common = { kind, n, degree };
    const columns = page.designs;
    const designs = columns.recipe.map((recipe, at) => ({
      ...common, at, recipe,
      what: "stored",
      handle: columns.handle[at],
      label: plain(columns.label[at]),
      schedule: columns.schedule[at],
      known: columns.measured[at] ? "measured" : "predicted",
      bidirectional: columns.bidirectional[at],
      reverseSymmetric: columns.reverse_symmetric[at],
      alltoall: columns.alltoall[at],
      costs: Object.fromEntries(COLLECTIVES.map((name) => [name, cost(columns[name][at])])),
      key: keyOf(kind, n, columns.handle[at]),
    }));
    const compared = page.compared.map((each) => ({
      ...common, ...each, at: null, label: plain(each.label),
      what: each.kind,
      kind,
      costs: Object.fromEntries(Object.entries(each.costs).map(([name, pair]) => [name, cost(pair)])),
      key: each.handle ? keyOf(kind, n, each.handle) : null,
    }));
    return {
      kind, n, degree, links: bidirectional ? "bidirectional" : "any", designs, compared,
      bounds: page.bounds, frontier: page.frontier, uncosted: page.uncosted.map(plain),
    };
  }

  /** A label without the box that stands for a product of graphs: it looks like a missing glyph. */
  const plain = (label) => label.replace(/□(?=[²³⁴-⁹])/g, "").replaceAll("□", "×");

  const cost = ([steps, t_b]) => ({ steps, t_b, number: explorer.value(t_b) });
  const keyOf = (kind, n, handle) => `${kind}/${n}/${handle.slice(1)}`;

  /** Least t_b in so many steps, as text; null where counting allows none. */
  function least(asked, collective, steps) {
    const allowed = asked.bounds[collective].filter(([from]) => from <= steps);
    return allowed.length ? allowed.at(-1)[1] : null;
  }

  /** By how much a design's t_b exceeds the least in as many steps: 0.01 is 1 %. */
  function above(asked, collective, each) {
    const bound = least(asked, collective, each.costs[collective].steps);
    return bound === null ? null : Math.max(0, each.costs[collective].number / explorer.value(bound) - 1);
  }

  /** The design of a key such as 4-any/64/8de2d5, with its question. */
  async function design(key) {
    const [kind, n, handle] = key.split("/");
    const asked = await question(kind, Number(n));
    const found = [...asked.designs, ...asked.compared].find((each) => each.key === key);
    if (!found) throw new Error(`there is no design #${handle} of ${n} nodes`);
    return { asked, design: found };
  }

  /** The graph of a design, null where the site does not have its links. */
  async function graph(of) {
    if (of.n > index.graph_nodes) return null;
    const stored = (await explorer.load(`graphs/${of.kind}/${of.n}`))[of.at ?? await twin(of)];
    return stored ? explorer.graph.stored(stored) : null;
  }

  /** The all-to-all of a design, null where the site does not have it. */
  async function exchange(of) {
    if (of.n > index.exchange_nodes) return null;
    return (await explorer.load(`alltoall/${of.kind}/${of.n}`))[of.at ?? await twin(of)] ?? null;
  }

  /** Where the stored design of the same recipe is, -1 if there is none. */
  async function twin(of) {
    const asked = await question(of.kind, of.n);
    return asked.designs.findIndex((each) => each.recipe === of.recipe);
  }

  /** The collective of the address, the first where it names none. */
  function collective() {
    const now = explorer.state.get("c");
    return COLLECTIVES.includes(now) ? now : COLLECTIVES[0];
  }

  return {
    collective, COLLECTIVES, LINKS, open, kindOf, sizes, degrees, linksOf, nearest, question, design, graph, exchange,
    least, above, info: () => index,
  };
})();
