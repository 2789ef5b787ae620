"use strict";
// A fabric bundle, read from its directory or from a zip of it: what is in it, whether it is whole,
// its topologies and its schedules.
explorer.bundle = (() => {
  const { el } = explorer;
  const FORMAT = "ocs-codesign bundle";
  const MOST_BYTES = 64 * 2 ** 20;
  const MOST_FILES = 20000;

  /** The files of a chosen directory by their place in it. */
  function byPlace(files) {
    if (files.length > MOST_FILES) throw new Error(`the directory has more than ${MOST_FILES} files: choose that of the bundle`);
    return new Map([...files].map((file) => [file.webkitRelativePath.split("/").slice(1).join("/") || file.name, file]));
  }

  async function text(files, place) {
    const file = files.get(place);
    if (!file) throw new Error(`the directory has no ${place}`);
    if (file.size > MOST_BYTES) throw new Error(`${place} has more than ${MOST_BYTES / 2 ** 20} MiB`);
    return file.text();
  }

  async function json(files, place) {
    const content = await text(files, place);
    try {
      return JSON.parse(content);
    } catch {
      throw new Error(`${place} is no JSON`);
    }
  }

  /** Rows of a CSV file by the names of its columns; csvParse would make code of the names. */
  async function rows(files, place) {
    const [names, ...lines] = d3.csvParseRows(await text(files, place));
    return lines.map((line) => Object.fromEntries(line.map((cell, at) => [names[at], cell])));
  }

  /** The files of a zip by their place under the folder that the manifest is in. */
  function inArchive(files) {
    const manifests = [...files.keys()].filter((name) => /^(?:[^/]+\/)?manifest\.json$/.test(name));
    if (manifests.length !== 1) throw new Error(manifests.length ? "the archive has several bundles" : "the archive has no manifest.json");
    const folder = manifests[0].slice(0, -"manifest.json".length);
    return new Map([...files].filter(([name]) => name.startsWith(folder)).map(([name, file]) => [name.slice(folder.length), file]));
  }

  const show = (chosen) => shown(byPlace(chosen));
  const showArchive = async ([file]) => shown(inArchive(await explorer.archive.open(file)));

  async function shown(files) {
    const manifest = await json(files, "manifest.json");
    if (manifest.format !== FORMAT || !Array.isArray(manifest.configurations))
      throw new Error("manifest.json is not that of a bundle");
    const state = await json(files, "state.json");
    const ports = await rows(files, "ports.csv");
    const wrong = await differing(files, manifest.files ?? {});
    const configurations = [];
    for (const each of manifest.configurations) {
      const links = await rows(files, `links/${each.name}.csv`);
      configurations.push(await configuration(files, each, links, state.up));
    }
    return [
      el("h2", {}, `Bundle of ${manifest.fabric}`),
      explorer.facts([
        ["files", wholeness(manifest, wrong)],
        ["up", state.up ?? `${state.planned ?? "nothing"} is planned`],
        ["failed", ["hosts", "ports", "switches"].map((what) => `${(state.failed?.[what] ?? []).length} ${what}`).join(", ")],
        ["version", manifest.version === undefined ? null : String(manifest.version)],
      ]),
      el("p", { class: "note" }, "Cables, circuits and schedules are checked by ocs-codesign verify-bundle."),
      claims(manifest),
      explorer.table("Ports of the switches", ["switch", "side", "ports", "used", "spare", "failed", "free"],
        ports.map((row) => ["switch", "side", "ports", "used", "spare", "failed", "free"].map((name) => row[name])), 5, 2),
      el("div", { class: "two" }, configurations),
    ];
  }

  /** Listed files that are missing or have other contents than the manifest says. */
  async function differing(files, listed) {
    const wrong = [];
    for (const [place, { bytes, sha256 }] of Object.entries(listed)) {
      const file = files.get(place);
      if (!file || file.size !== bytes) wrong.push(place);
      else if (crypto.subtle && hex(await crypto.subtle.digest("SHA-256", await file.arrayBuffer())) !== sha256) wrong.push(place);
    }
    return wrong;
  }

  const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");

  function wholeness(manifest, wrong) {
    const number = Object.keys(manifest.files ?? {}).length;
    if (!wrong.length) return `${number}, all as the manifest lists them`;
    return el("strong", { class: "wrong" }, `${wrong.length} of ${number} missing or changed: ${wrong.slice(0, 4).join(", ")}`);
  }

  function claims(manifest) {
    const found = manifest.configurations.flatMap((each) =>
      Object.entries(each.bounds ?? {}).map(([collective, bound]) =>
        [each.name, collective, each.nodes, each.degree, bound.steps, bound.t_b, each.recipe].map((value) => String(value ?? "–"))));
    return explorer.table("Configurations and the bounds of their collectives",
      ["configuration", "collective", "nodes", "ports", "steps at least", "t_b at least", "recipe"], found, 4, 2);
  }

  async function configuration(files, each, links, up) {
    const end = (name) => Int32Array.from(links, (row) => Number(row[name]));
    const [tail, head] = [end("from_rank"), end("to_rank")];
    const n = links.length ? Math.max(...tail, ...head) + 1 : 0;
    if (!(n > 0 && n <= 4096)) throw new Error(`links/${each.name}.csv has no ranks that can be drawn`);
    const graph = explorer.graph.make(n, tail, head, null, each.name);
    const planes = d3.rollups(links, (group) => group.length, (row) => row.plane);
    const over = links.filter((row) => row.flag === "over").length;
    return el("section", { "aria-label": `Configuration ${each.name}` },
      el("h3", {}, `${each.name}${each.name === up ? ", up now" : ""}`),
      explorer.facts([
        ["links of planes", d3.sort(planes, ([plane]) => Number(plane)).map(([plane, number]) => `plane ${plane}: ${number}`).join(", ")],
        ["light", over ? `${over} links are over the budget` : "all links within the budget"],
      ]),
      await played(files, each, graph));
  }

  /** The schedules of a configuration, one at a time; BFB where it has none. */
  async function played(files, each, graph) {
    const title = `Configuration ${each.name}`;
    const claimed = Array.isArray(each.collectives) ? each.collectives : [];
    const saved = claimed.filter((name) => files.has(place(each, name)));
    if (!saved.length) return explorer.panel.make(graph, { title });
    const held = el("div", {});
    let turn = 0;
    const choose = async (collective) => {
      const mine = (turn += 1);
      const made = await panel(files, each, graph, collective);
      if (mine === turn) held.replaceChildren(made);
    };
    await choose(saved[0]);
    return [explorer.field("Schedule", explorer.select(saved.map((name) => [name, name]), saved[0], choose)), held];
  }

  const place = (each, collective) => `schedules/${each.name}/${collective}/schedule.npz`;

  async function panel(files, each, graph, collective) {
    try {
      const schedule = await explorer.schedule.read(await named(files.get(place(each, collective)), place(each, collective)));
      if (ends(schedule.graph) !== ends(graph)) throw new Error(`its links are not those of links/${each.name}.csv`);
      return explorer.panel.make(schedule.graph, { title: `Configuration ${each.name}, ${collective}`, schedule });
    } catch (error) {
      return el("div", {}, el("p", { class: "wrong", role: "alert" }, `The schedule of ${collective} is not played: ${error.message}.`),
        explorer.panel.make(graph, { title: `Configuration ${each.name}` }));
    }
  }

  const ends = (graph) => JSON.stringify(Array.from(graph.tail, (tail, link) => tail * graph.n + graph.head[link]).sort((one, other) => one - other));

  /** A file under the name of its place, for sentences. */
  const named = async (file, name) => new File([file instanceof File ? file : await file.arrayBuffer()], name);

  return { show, showArchive };
})();
