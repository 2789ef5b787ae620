"use strict";
// Saved schedules: what every link carries when, to be played, and the load of every step.
explorer.schedule = (() => {
  const LINKS = ["tail", "head"];
  const SENDS = ["root", "lo", "hi", "link", "step"];
  const KNOWN = [...LINKS, ...SENDS, "phase", "num_chunks", "collective"];
  const COLLECTIVES = ["allgather", "reduce-scatter", "allreduce", "alltoall"];
  const [MOST_NODES, MOST_LINKS, MOST_STEPS] = [4096, 65536, 100000];
  const WHY = {
    link_speed: "links of unequal speeds", num_hosts: "switches", multicast: "switches", aggregate: "switches",
    plane: "circuits that change", collective_group: "groups",
  };

  /** The schedule of a schedule.npz; whether it is a correct one is for ocs-codesign verify to say. */
  async function read(file) {
    const arrays = await explorer.arrays.read(file);
    check(arrays);
    const [tail, head] = LINKS.map((end) => Int32Array.from(arrays.get(end)));
    const n = Math.max(largest(tail), largest(head)) + 1;
    const graph = explorer.graph.make(n, tail, head, null, file.name);
    const [root, lo, hi, link, step] = SENDS.map((name) => arrays.get(name));
    const [collective, chunks] = ["collective", "num_chunks"].map((name) => arrays.get(name));
    const total = largest(step);
    const sends = { root, lo, hi, link, step, phase: arrays.get("phase") ?? null, chunks, collective, graph, total };
    sends.reducing = reducing(sends);
    if (collective === "alltoall" && chunks % n) throw new Error(`num_chunks is ${chunks}: it must be a multiple of ${n} nodes`);
    if (largest(root) >= n) throw new Error("the array root has numbers of nodes that are not there");
    const ofRoot = grouped(root, n);
    return { collective, graph, steps: total, plan: (node) => plan(sends, ofRoot(node), node) };
  }

  function largest(values) {
    let most = -1;
    for (const value of values) if (value > most) most = value;
    return most;
  }

  function check(arrays) {
    for (const name of arrays.keys())
      if (!KNOWN.includes(name)) throw new Error(WHY[name] ? `schedules with ${WHY[name]} are not played` : `the array ${name} is of no schedule that is played`);
    for (const name of [...LINKS, ...SENDS, "num_chunks", "collective"])
      if (!arrays.has(name)) throw new Error(`the array ${name} is missing: this is no schedule`);
    const [collective, chunks] = [arrays.get("collective"), arrays.get("num_chunks")];
    if (!COLLECTIVES.includes(collective)) throw new Error(`a schedule of ${String(collective).slice(0, 20)} is not played`);
    if (!(Number.isSafeInteger(chunks) && chunks > 0)) throw new Error("num_chunks is no number of chunks");
    if (arrays.has("phase") !== (collective === "allreduce")) throw new Error("an allreduce, and only it, has a phase for every send");
    const links = arrays.get("tail").length;
    if (!(links >= 1 && links <= MOST_LINKS)) throw new Error(`schedules on 1 to ${MOST_LINKS} links are played`);
    const sends = arrays.get("root").length;
    const range = (name, length, low, high) => {
      const values = arrays.get(name);
      if (typeof values !== "object" || values.length !== length) throw new Error(`the array ${name} is not as long as the others`);
      for (const value of values) if (!(value >= low && value <= high)) throw new Error(`the array ${name} has ${value}: it must be from ${low} to ${high}`);
    };
    for (const end of LINKS) range(end, links, 0, MOST_NODES - 1);
    range("root", sends, 0, MOST_NODES - 1);
    range("link", sends, 0, links - 1);
    range("step", sends, 1, MOST_STEPS);
    range("lo", sends, 0, chunks - 1);
    range("hi", sends, 1, chunks);
    if (arrays.has("phase")) range("phase", sends, 0, 1);
    arrays.get("lo").forEach((low, send) => {
      if (low >= arrays.get("hi")[send]) throw new Error("a send has no chunks");
    });
  }

  /** The places of every value in a column, found once. */
  function grouped(column, most) {
    const start = new Int32Array(most + 1);
    for (const value of column) start[value + 1] += 1;
    for (let value = 0; value < most; value += 1) start[value + 1] += start[value];
    const [next, order] = [start.slice(), new Int32Array(column.length)];
    for (let at = 0; at < column.length; at += 1) order[next[column[at]]++] = at;
    return (value) => order.subarray(start[value], start[value + 1]);
  }

  /** The last step that brings parts of sums, 0 if there are none. */
  function reducing({ step, phase, collective, total }) {
    if (collective !== "allreduce") return collective === "reduce-scatter" ? total : 0;
    let last = 0;
    for (let send = 0; send < step.length; send += 1) if (phase[send] === 0 && step[send] > last) last = step[send];
    return last;
  }

  /** What the panel plays for a node: its shard, the sum for it, or all that it sends. */
  function plan(sends, mine, node) {
    const { graph, total } = sends;
    const steps = grouped(Int32Array.from(mine, (send) => sends.step[send]), total + 1);
    const known = new Map();
    const of = (step) => {
      if (!known.has(step)) known.set(step, shares(sends, Array.from(steps(step), (at) => mine[at])));
      return known.get(step);
    };
    const complete = completed(sends, mine, node);
    const last = new Int32Array(graph.n);
    for (const send of mine)
      if (sends.step[send] <= sends.reducing) last[graph.tail[sends.link[send]]] = Math.max(last[graph.tail[sends.link[send]]], sends.step[send]);
    const reduces = (step) => step <= sends.reducing;
    function at(step) {
      if (step === 0) return { now: [], before: [], has: null };
      const first = reduces(step) ? 1 : sends.reducing + 1;
      const before = Array.from({ length: step - first }, (_, gone) => of(first + gone)).flat();
      const has = reduces(step) ? (each) => each === node || last[each] > step : (each) => complete[each] <= step;
      return { now: of(step), before, has };
    }
    return { total, at, reduces, loads: () => loads(sends), what: sends.collective === "alltoall" ? "data" : "shard" };
  }

  /** Sends of one step together by link: the share of a shard that it carries. */
  function shares({ lo, hi, link, chunks }, which) {
    const found = new Map();
    for (const send of which) found.set(link[send], (found.get(link[send]) ?? 0) + (hi[send] - lo[send]) / chunks);
    return [...found].map(([each, share]) => ({ link: each, share: Math.min(1, share) }));
  }

  /** The step from which a node has all that it is to get of another's data; never is Infinity. */
  function completed(sends, mine, node) {
    const { graph, chunks, collective } = sends;
    const unit = chunks / graph.n;
    const wanted = (each) => (collective === "alltoall" ? [each * unit, (each + 1) * unit] : [0, chunks]);
    const got = Array.from({ length: graph.n }, () => []);
    for (const send of mine)
      if (sends.step[send] > sends.reducing) got[graph.head[sends.link[send]]].push([sends.step[send], sends.lo[send], sends.hi[send]]);
    return got.map((parts, each) => {
      if (each === node) return 0;
      const [low, high] = wanted(each);
      const inside = parts.map(([step, lo, hi]) => [step, Math.max(lo, low), Math.min(hi, high)]).filter(([, lo, hi]) => lo < hi);
      const steps = [...new Set(inside.map(([step]) => step))].sort((one, other) => one - other);
      return steps.find((step) => covers(inside.filter((part) => part[0] <= step), low, high)) ?? Infinity;
    });
  }

  function covers(parts, low, high) {
    let reached = low;
    for (const [, lo, hi] of [...parts].sort((one, other) => one[1] - other[1])) {
      if (lo > reached) return false;
      reached = Math.max(reached, hi);
    }
    return reached >= high;
  }

  /** The load of the busiest link of every step in shards, as lowest [numerator, denominator]. */
  function loads(sends) {
    const { graph, collective, chunks, total, step, link, lo, hi } = sends;
    const unit = collective === "alltoall" ? chunks / graph.n : chunks;
    const inStep = grouped(step, total + 1);
    const carried = new Float64Array(graph.links);
    return Array.from({ length: total }, (_, before) => {
      const here = inStep(before + 1);
      let most = 0;
      for (const send of here) {
        carried[link[send]] += hi[send] - lo[send];
        if (carried[link[send]] > most) most = carried[link[send]];
      }
      for (const send of here) carried[link[send]] = 0;
      return explorer.bfb.lowest(most, unit);
    });
  }

  return { read };
})();
