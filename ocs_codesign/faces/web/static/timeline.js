"use strict";
// Timelines from files: what planes do when, and what decides the time of a simulated collective.
explorer.timeline = (() => {
  const { el } = explorer;
  const ACTIVITIES = ["send", "reconfigure", "idle"];
  const PARTS = ["send", "latency", "addition", "node", "barrier", "dark"];
  const MOST_LANES = 64;
  const MOST_ROWS = 20000;

  /** Views of a JSON answer of planes or of simulate; ValueError-like sentence for any other. */
  function show(answer, name) {
    if (answer && Array.isArray(answer.timeline)) return planes(answer, name);
    if (answer && Array.isArray(answer.critical_path) && Array.isArray(answer.links)) return simulated(answer, name);
    throw new Error("this is neither a timeline of planes nor a simulation: write one with --json of planes or simulate");
  }

  function planes(answer, name) {
    const rows = answer.timeline.map((row) => ({
      lane: `plane ${row.plane}`, start: number(row.start_s), end: number(row.end_s), kind: String(row.activity),
      text: `${row.activity}${row.configuration === null ? "" : ` ${row.configuration}`}${row.step === null ? "" : `, step ${row.step}`}`,
    }));
    return [
      el("h2", {}, `Planes over time, ${name}`),
      explorer.facts([
        ["time", explorer.time(number(answer.time_s))],
        ["bound", answer.bound_s === undefined ? null : explorer.time(number(answer.bound_s))],
        ["proven optimal", answer.optimal === undefined ? null : answer.optimal ? "yes" : "no"],
        ["planes", String(answer.planes)],
      ]),
      el("figure", {}, gantt(rows, ACTIVITIES, `What ${answer.planes} planes do when`, ["plane", "time"]), keys(ACTIVITIES, rows)),
      explorer.table("Intervals", ["begin", "end", "plane", "what"],
        rows.slice(0, 200).map((row) => [explorer.time(row.start), explorer.time(row.end), row.lane, row.text]), 2),
    ];
  }

  function simulated(answer, name) {
    const rows = answer.critical_path.map((row) => ({
      lane: row.link === null ? "no link" : `link ${row.link}`, start: number(row.start_ns) * 1e-9, end: number(row.end_ns) * 1e-9,
      kind: String(row.part), text: `${row.part}, step ${row.step}`,
    }));
    const total = number(answer.time_ns) * 1e-9;
    return [
      el("h2", {}, `Simulated ${answer.collective} of ${answer.num_ranks} ranks, ${name}`),
      explorer.facts([
        ["design", String(answer.design)],
        ["message", explorer.size(number(answer.message_bytes))],
        ["time", explorer.time(total)],
        ["by formula", explorer.time(number(answer.formula_ns) * 1e-9)],
        ["bound of the links", answer.bound_ns === null ? null : explorer.time(number(answer.bound_ns) * 1e-9)],
        ["mode", String(answer.mode)],
      ]),
      el("h3", {}, "What decides the time"),
      el("figure", {}, gantt(rows, PARTS, "The critical path over time", ["link", "time"]), keys(PARTS, rows)),
      el("h3", {}, "What links do"),
      el("figure", {}, gantt(usage(answer), USES, "How long links send and wait, the busiest first", ["link", "time in all"]), keys(USES, usage(answer))),
      explorer.table("Critical path", ["begin", "end", "link", "what"],
        rows.slice(0, 200).map((row) => [explorer.time(row.start), explorer.time(row.end), row.lane, row.text]), 2),
    ];
  }

  const USES = ["busy", "data", "link", "barrier", "dark", "node", "done"];
  const WORDS = {
    busy: "sends", data: "waits for data", link: "waits for the link", barrier: "waits for the step",
    dark: "waits for circuits", node: "waits for the node", done: "has sent all",
  };

  /** Shares of the time, one after the other: not when, but how long. */
  function usage(answer) {
    const links = d3.sort(answer.links, (link) => -number(link.busy_ns)).slice(0, MOST_LANES);
    return links.flatMap((link) => {
      let at = 0;
      return USES.map((kind) => {
        const part = number(kind === "busy" ? link.busy_ns : link.idle_ns[kind] ?? 0) * 1e-9;
        at += part;
        return { lane: `${link.tail} → ${link.head} (${link.link})`, start: at - part, end: at, kind, text: `${WORDS[kind]}, ${explorer.time(part)}` };
      });
    });
  }

  function number(value) {
    const found = Number(value);
    if (!Number.isFinite(found)) throw new Error(`${String(value).slice(0, 40)} is no time`);
    return found;
  }

  /** Intervals as bars, a lane each; the axes have the names of a lane and of what is along it. */
  function gantt(rows, kinds, label, [lane, along]) {
    if (rows.length > MOST_ROWS) throw new Error(`more than ${MOST_ROWS} intervals are not drawn`);
    const lanes = [...new Set(rows.map((row) => row.lane))];
    const shown = lanes.slice(0, MOST_LANES);
    const WIDTH = explorer.chart.width();
    const [left, top, bottom] = [96, 20, 44];
    const room = Math.max(14, Math.min(34, 420 / shown.length));
    const height = top + shown.length * room + bottom;
    const chart = explorer.chart.svg(height, `${label}${lanes.length > shown.length ? `: ${shown.length} of ${lanes.length} lanes` : ""}`);
    const end = d3.max(rows, (row) => row.end) || 1;
    const [unit_s, unit] = explorer.unitOfTime(end);
    const x = d3.scaleLinear([0, end / unit_s], [left, WIDTH - 16]);
    const y = d3.scaleBand(shown, [top, height - bottom]).padding(0.15);
    explorer.chart.axis(chart, x, "bottom", `translate(0,${height - bottom})`, WIDTH < 500 ? 4 : 8, `${along} (${unit})`);
    chart.append("text").attr("class", "name").attr("x", left - 6).attr("y", 12).attr("text-anchor", "end").text(lane);
    chart.append("g").selectAll("text").data(shown).join("text").attr("class", "lane").attr("x", left - 6)
      .attr("y", (each) => y(each) + y.bandwidth() / 2).text((each) => each);
    const known = new Set(shown);
    chart.append("g").selectAll("rect").data(rows.filter((row) => known.has(row.lane) && row.end > row.start)).join("rect")
      .attr("class", (row) => `kind-${Math.max(0, kinds.indexOf(row.kind))}`)
      .attr("x", (row) => x(row.start / unit_s)).attr("width", (row) => Math.max(0.5, x(row.end / unit_s) - x(row.start / unit_s)))
      .attr("y", (row) => y(row.lane)).attr("height", y.bandwidth())
      .append("title").text((row) => row.text);
    return chart.node();
  }

  function keys(kinds, rows) {
    const used = new Set(rows.filter((row) => row.end > row.start).map((row) => row.kind));
    return el("figcaption", {}, kinds.map((kind, at) =>
      used.has(kind) ? el("span", { class: `key kind-${at}` }, (kinds === USES ? WORDS[kind] : kind)) : null));
  }

  return { show };
})();
