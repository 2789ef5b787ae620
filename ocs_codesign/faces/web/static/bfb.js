"use strict";
// Breadth-first broadcast in the browser: for every receiver and distance the least busiest link,
// exactly, and for one node's shard what every link carries at every step.
//
// A receiver takes the shards of nodes at distance t over links that come from distance t - 1. The
// least load of the busiest of k links into it is the largest, over sets L of them, of the number
// of shards that only L can bring, divided by |L|: what is confined to L has to come over L.
explorer.bfb = (() => {
  const MOST_PORTS = 12;
  const MOST_NODES = 1024;

  /** Why a graph is not played, null if it can be. */
  function refusal(graph) {
    if (graph.n > MOST_NODES) return `Schedules are played up to ${MOST_NODES} nodes.`;
    const into = graph.into();
    if (into.some((links) => links.length > MOST_PORTS)) return `Schedules are played up to ${MOST_PORTS} ports.`;
    if (distances(graph).some((row) => row.includes(-1))) return "Not every node reaches every other.";
    return null;
  }

  /** distances(graph)[v][u]: hops from v to u, -1 if there is no path. */
  function distances(graph) {
    graph.hops ??= Array.from({ length: graph.n }, (_, from) => fromNode(graph, from));
    return graph.hops;
  }

  /** Hops from one node to all, -1 where there is no path. */
  function fromNode(graph, from) {
    if (graph.hops) return graph.hops[from];
    const hops = new Int16Array(graph.n).fill(-1);
    const queue = new Int32Array(graph.n);
    let [head, tail] = [0, 1];
    [queue[0], hops[from]] = [from, 0];
    const out = graph.out();
    while (head < tail) {
      const node = queue[head++];
      for (const link of out[node]) {
        const next = graph.head[link];
        if (hops[next] < 0) {
          hops[next] = hops[node] + 1;
          queue[tail++] = next;
        }
      }
    }
    return hops;
  }

  /** By distance, how many shards can come over which links into a receiver, as bit masks. */
  function masks(graph, receiver) {
    const hops = distances(graph);
    const links = graph.into()[receiver];
    const steps = [];
    for (let from = 0; from < graph.n; from += 1) {
      const far = hops[from][receiver];
      if (far <= 0) continue;
      let mask = 0;
      links.forEach((link, bit) => {
        if (hops[from][graph.tail[link]] === far - 1) mask |= 1 << bit;
      });
      const counts = (steps[far] ??= new Map());
      counts.set(mask, (counts.get(mask) ?? 0) + 1);
    }
    return steps;
  }

  /** The least load of the busiest of k links, as [shards, links]. */
  function busiest(counts, k) {
    const confined = new Int32Array(1 << k);
    for (const [mask, number] of counts) confined[mask] += number;
    for (let bit = 0; bit < k; bit += 1)
      for (let set = 0; set < 1 << k; set += 1)
        if (set & (1 << bit)) confined[set] += confined[set ^ (1 << bit)];
    let best = [0, 1];
    for (let set = 1; set < 1 << k; set += 1) {
      const size = bits(set);
      if (confined[set] * best[1] > best[0] * size) best = [confined[set], size];
    }
    return best;
  }

  function bits(set) {
    let number = 0;
    for (let rest = set; rest; rest &= rest - 1) number += 1;
    return number;
  }

  /** The load of the busiest link of every step in shards, as lowest [numerator, denominator]. */
  function loads(graph) {
    if (graph.loads) return graph.loads;
    const found = [];
    for (let receiver = 0; receiver < graph.n; receiver += 1) {
      const k = graph.into()[receiver].length;
      masks(graph, receiver).forEach((counts, step) => {
        const here = busiest(counts, k);
        const most = (found[step - 1] ??= [0, 1]);
        if (here[0] * most[1] > most[0] * here[1]) found[step - 1] = here;
      });
    }
    graph.loads = found.map(([above, below]) => lowest(above, below));
    return graph.loads;
  }

  function lowest(above, below) {
    let [a, b] = [above, below];
    while (b) [a, b] = [b, a % b];
    return [above / a, below / a];
  }

  /** t_b of these loads as text: a shard is M/N, and d links together have B. */
  function t_b(graph, each) {
    let [above, below] = [0n, 1n];
    for (const [num, den] of each) {
      above = above * BigInt(den) + BigInt(num) * below;
      below *= BigInt(den);
    }
    [above, below] = [above * BigInt(graph.degree), below * BigInt(graph.n)];
    let [a, b] = [above, below];
    while (b) [a, b] = [b, a % b];
    return below === a ? String(above / a) : `${above / a}/${below / a}`;
  }

  /** What links carry of one node's shard: [{ link, step, share }], steps from 1. */
  function sends(graph, root) {
    const hops = distances(graph);
    const found = [];
    for (let receiver = 0; receiver < graph.n; receiver += 1) {
      if (receiver === root) continue;
      const far = hops[root][receiver];
      const links = graph.into()[receiver];
      let mask = 0;
      links.forEach((link, bit) => {
        if (hops[root][graph.tail[link]] === far - 1) mask |= 1 << bit;
      });
      const shares = divided(masks(graph, receiver)[far], links.length, mask);
      shares.forEach((share, bit) => {
        if (share > 0) found.push({ link: links[bit], step: far, share });
      });
    }
    return found;
  }

  /** How the shards of one mask are divided over the links, such that no link is busier than need. */
  function divided(counts, k, wanted) {
    const [room, unit] = busiest(counts, k);
    const classes = [...counts.keys()].sort((one, other) => bits(one) - bits(other) || one - other);
    const flow = classes.map(() => new Array(k).fill(0));
    const left = new Array(k).fill(room);
    classes.forEach((mask, at) => {
      let missing = counts.get(mask) * unit;
      while (missing > 0) {
        const moved = augment(classes, flow, left, k, at, missing);
        if (moved === 0) throw new Error("a step has no balanced division");
        missing -= moved;
      }
    });
    const at = classes.indexOf(wanted);
    return flow[at].map((part) => part / (counts.get(wanted) * unit));
  }

  /** Send more of a class along a shortest path of changes; how much was sent. */
  function augment(classes, flow, left, k, from, most) {
    const cameFrom = new Map([[`c${from}`, null]]);
    const queue = [`c${from}`];
    for (const place of queue) {
      const number = Number(place.slice(1));
      if (place[0] === "c") {
        for (let bit = 0; bit < k; bit += 1) {
          if (classes[number] & (1 << bit) && !cameFrom.has(`l${bit}`)) {
            cameFrom.set(`l${bit}`, place);
            queue.push(`l${bit}`);
          }
        }
      } else if (left[number] > 0) {
        return push(flow, left, cameFrom, number, most);
      } else {
        classes.forEach((_, at) => {
          if (flow[at][number] > 0 && !cameFrom.has(`c${at}`)) {
            cameFrom.set(`c${at}`, place);
            queue.push(`c${at}`);
          }
        });
      }
    }
    return 0;
  }

  function push(flow, left, cameFrom, end, most) {
    const path = [];
    for (let place = `l${end}`; place !== null; place = cameFrom.get(place)) path.unshift(place);
    let amount = Math.min(most, left[end]);
    for (let at = 1; at + 1 < path.length; at += 2)
      amount = Math.min(amount, flow[Number(path[at + 1].slice(1))][Number(path[at].slice(1))]);
    for (let at = 0; at < path.length; at += 2) {
      flow[Number(path[at].slice(1))][Number(path[at + 1].slice(1))] += amount;
      if (at + 2 < path.length) flow[Number(path[at + 2].slice(1))][Number(path[at + 1].slice(1))] -= amount;
    }
    left[end] -= amount;
    return amount;
  }

  return { refusal, fromNode, distances, loads, t_b, sends, lowest };
})();
