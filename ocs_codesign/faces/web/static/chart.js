"use strict";
// Charts as SVG: the frontier, loads per step, times of messages.
explorer.chart = (() => {
  const NARROW = matchMedia("(max-width: 40rem)");
  const MARKS = { stored: d3.symbolCircle, published: d3.symbolDiamond2, baseline: d3.symbolTriangle };

  /** Units of a chart's width: pixels, nearly, so that its texts can be read on a phone. */
  const width = () => (NARROW.matches ? 372 : 640);

  function svg(height, label, role = "img") {
    return d3.create("svg").attr("viewBox", `0 0 ${width()} ${height}`).attr("role", role)
      .attr("aria-label", label).attr("class", "chart");
  }

  function axis(on, scale, side, place, ticks, name, format = null) {
    const made = (side === "bottom" ? d3.axisBottom(scale) : d3.axisLeft(scale)).tickSizeOuter(0);
    if (Array.isArray(ticks)) made.tickValues(ticks);
    else made.ticks(ticks);
    if (format) made.tickFormat(format);
    on.append("g").attr("class", "axis").attr("transform", place).call(made);
    const text = on.append("text").attr("class", "name").text(name);
    if (side === "bottom") text.attr("x", width() - 8).attr("y", Number(place.match(/,(.*)\)/)[1]) + 38).attr("text-anchor", "end");
    else text.attr("x", 56).attr("y", 14);
  }

  /** Steps of a chart: every one where they are few, else ever more; none whose texts would touch. */
  function stepTicks(low, high, x) {
    const candidates = high - low <= 12 ? d3.range(low, high + 1)
      : [low, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 4000];
    candidates.sort((one, other) => one - other);
    const half = (step) => 4.5 * String(step).length + 3;
    const isClear = (last, step) => x(step) - x(last) >= half(step) + half(last);
    return candidates.filter((step) => step >= low && step <= high)
      .reduce((kept, step) => (kept.length && !isClear(kept.at(-1), step) ? kept : [...kept, step]), []);
  }

  /** All points of a question: what has a cost for the collective and a bound in as many steps. */
  function points(asked, collective) {
    const front = new Set(asked.frontier[collective]);
    return [
      ...asked.designs.map((each) => ({ each, kind: "stored", isFront: front.has(each.at) })),
      ...asked.compared.filter((each) => each.costs[collective])
        .map((each) => ({ each, kind: each.what, isFront: false })),
    ].map((point) => ({
      ...point,
      steps: point.each.costs[collective].steps,
      t_b: point.each.costs[collective].number,
    }));
  }

  /** The points of a question that its chart has: baselines where they are asked for, never their bounds. */
  const shown = (asked, collective) => points(asked, collective).filter((point) => point.kind !== "baseline"
    || (point.each.known !== "bounded" && explorer.state.get("baselines") === "yes"));

  /** Steps against t_b above the bound; `pick` is called with the design of a point. */
  function frontier(asked, collective, chosen, pick) {
    const [WIDTH, HEIGHT] = [width(), 400];
    const [left, right, top, bottom] = [64, 18, 26, 44];
    const bounds = asked.bounds[collective];
    const label = `Frontier of ${asked.n} nodes of degree ${asked.degree}, ${collective}: steps against t_b above the bound`;
    const chart = svg(HEIGHT, label, "group");
    if (!bounds.length) return chart.node();
    const floor = explorer.value(bounds.at(-1)[1]);
    const above = (t_b) => Math.max(0, 100 * (t_b / floor - 1));
    const all = shown(asked, collective);
    const least = Math.min(bounds[0][0], d3.min(all, (point) => point.steps));
    const most = Math.max(d3.max(all, (point) => point.steps), least + 2);
    const x = d3.scaleLog([Math.max(0.8, least * 0.92), most * 1.08], [left, WIDTH - right]);
    const high = Math.max(4, d3.max(all, (point) => above(point.t_b)) * 1.3);
    const y = d3.scaleSymlog([0, high], [HEIGHT - bottom - 14, top]).constant(high > 20 ? 1 : 0.1);
    axis(chart, x, "bottom", `translate(0,${HEIGHT - bottom})`, stepTicks(least, most, x), "steps", d3.format("d"));
    const ticks = [0, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000]
      .filter((tick) => tick <= high && (tick === 0 || y(0) - y(tick) > 14));
    axis(chart, y, "left", `translate(${left},0)`, ticks, "t_b above the bound", (tick) => `${tick} %`);
    impossible(chart, bounds, { x, y, above, top, left, right: WIDTH - right });
    const front = all.filter((point) => point.isFront).sort((one, other) => one.steps - other.steps);
    const stairs = d3.line((point) => x(point.steps), (point) => y(above(point.t_b))).curve(d3.curveStepAfter);
    chart.append("path").attr("class", "stairs").attr("d", stairs(front));
    marks(chart, spread(all, (point) => x(point.steps), (point) => y(above(point.t_b))), { chosen, pick, collective, above });
    return chart.node();
  }

  /** Points of one cost side by side instead of on top of each other. */
  function spread(all, x, y) {
    const taken = new Map();
    return all.map((point) => {
      const place = `${Math.round(x(point) / 5)},${Math.round(y(point) / 5)}`;
      const before = taken.get(place) ?? 0;
      taken.set(place, before + 1);
      return { ...point, x: x(point) + 3 * Math.min(before, 8), y: y(point) };
    });
  }

  /** What counting allows no topology: fewer steps, and less t_b in as many steps. */
  function impossible(chart, bounds, { x, y, above, top, left, right }) {
    const at = bounds.map(([steps, t_b]) => [Math.max(left, x(steps)), y(above(explorer.value(t_b)))]);
    const line = [[at[0][0], top], ...at.flatMap((place, index) =>
      index ? [[place[0], at[index - 1][1]], place] : [place]), [right, at.at(-1)[1]]];
    const area = [[left, top], ...line, [right, y(0) + 14], [left, y(0) + 14]];
    chart.append("path").attr("class", "impossible").attr("d", `${d3.line()(area)}Z`);
    chart.append("path").attr("class", "bound").attr("d", d3.line()(line));
  }

  function marks(chart, all, { chosen, pick, collective, above }) {
    const shown = chart.append("g").selectAll("path").data(d3.sort(all, (point) => point.isFront)).join("path")
      .attr("class", (point) => `mark ${point.kind}${point.isFront ? " front" : ""}`
        + `${point.each.key && chosen.includes(point.each.key) ? " chosen" : ""}`)
      .attr("transform", (point) => `translate(${point.x},${point.y})`)
      .attr("d", (point) => d3.symbol(MARKS[point.kind], point.isFront ? 110 : 60)());
    shown.append("title").text((point) => `${point.each.label}: ${explorer.many(point.steps, "step")}, t_b ${point.each.costs[collective].t_b}, `
      + `${explorer.digits(above(point.t_b), 3)} % above the bound`);
    shown.filter((point) => point.each.recipe).attr("tabindex", 0).attr("role", "button")
      .attr("aria-label", (point) => `${point.each.label}, ${point.kind}, ${explorer.many(point.steps, "step")}, t_b ${point.each.costs[collective].t_b}`)
      .on("click", (_, point) => pick(point.each))
      .on("keydown", (event, point) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        pick(point.each);
      });
  }

  /** Bars of what every step adds to t_b; loads are in shards of M/N, and those of what is said. */
  function loads(each, graph, of = "BFB") {
    const WIDTH = width();
    const [HEIGHT, left, bottom] = [196, 52, 44];
    const cost = each.map(([above, below]) => (above / below) * (graph.degree / graph.n));
    const t_b = explorer.bfb.t_b(graph, each);
    const steps = explorer.many(each.length, "step");
    const texts = each.map(([above, below]) => (below === 1 ? `${above}` : `${above}/${below}`));
    const few = each.length <= WIDTH / 44;
    const words = few ? `: ${texts.join(", ")} shards` : "";
    const chart = svg(HEIGHT, `Load of the busiest link in ${steps}${words}`);
    const x = d3.scaleBand(d3.range(1, each.length + 1), [left, WIDTH - 10]).padding(0.25);
    const y = d3.scaleLinear([0, d3.max(cost) ?? 1], [HEIGHT - bottom, 44]);
    const every = Math.ceil((each.length * 32) / WIDTH);
    axis(chart, x, "bottom", `translate(0,${HEIGHT - bottom})`, x.domain().filter((step) => (step - 1) % every === 0), "step");
    axis(chart, y, "left", `translate(${left},0)`, 4, "t_b of the step, in units of M/B", d3.format(".2~g"));
    chart.append("g").selectAll("rect").data(cost).join("rect").attr("class", "bar")
      .attr("x", (_, at) => x(at + 1)).attr("width", x.bandwidth())
      .attr("y", (part) => y(part)).attr("height", (part) => y(0) - y(part));
    if (few)
      chart.append("g").selectAll("text").data(texts).join("text").attr("class", "load")
        .attr("x", (_, at) => x(at + 1) + x.bandwidth() / 2).attr("y", (_, at) => y(cost[at]) - 4).text((text) => text);
    const caption = document.createElement("figcaption");
    caption.textContent = `Loads of ${of}: the busiest link of every step in shards of M/N, ${steps}, t_b ${t_b}`
      + `${t_b.includes("/") ? ` (${explorer.digits(explorer.value(t_b), 6)})` : ""}.`;
    const figure = document.createElement("figure");
    figure.className = "loads";
    figure.dataset.t_b = t_b;
    figure.append(chart.node(), caption);
    return figure;
  }

  /** Times over sizes of messages, a line a design, the chosen size marked. */
  function times(designs, collective) {
    const WIDTH = width();
    const [HEIGHT, left, bottom] = [310, 70, 44];
    const { message } = explorer;
    const model = message.model();
    const sizes = message.sizes();
    const lines = designs.map((each) => sizes.map((bytes) =>
      message.time_s(each.costs[collective], { ...model, message_bytes: bytes })));
    const chart = svg(HEIGHT, `Time of ${collective} over the size of the message`);
    const x = d3.scaleLog([sizes[0], sizes.at(-1)], [left + 12, WIDTH - 16]);
    const y = d3.scaleLog(d3.extent(lines.flat()), [HEIGHT - bottom, 24]).nice();
    axis(chart, x, "bottom", `translate(0,${HEIGHT - bottom})`, sizes.filter((_, at) => at % (NARROW.matches ? 10 : 5) === 0), "message M", explorer.size);
    const [low, high] = y.domain().map(Math.log10);
    const powers = d3.range(Math.ceil(low - 1e-9), Math.floor(high + 1e-9) + 1).map((power) => 10 ** power);
    axis(chart, y, "left", `translate(${left},0)`, powers, "time", explorer.time);
    lines.forEach((times, at) => chart.append("path").attr("class", `times line-${at}`)
      .attr("d", d3.line((_, size) => x(sizes[size]), (time) => y(time))(times)));
    const now = Math.max(sizes[0], Math.min(sizes.at(-1), model.message_bytes));
    chart.append("line").attr("class", "now").attr("x1", x(now)).attr("x2", x(now)).attr("y1", 24).attr("y2", HEIGHT - bottom);
    return chart.node();
  }

  return { frontier, points, shown, loads, times, svg, axis, width, NARROW };
})();
