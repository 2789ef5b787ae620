"use strict";
// The view of files: a bundle, a schedule, a timeline, a graph. They are read here and go nowhere.
explorer.views.files = (() => {
  const { el, field } = explorer;
  const MOST_BYTES = 64 * 2 ** 20;

  /** What was opened stays when other views are shown in between. */
  const shown = el("div", { class: "opened", role: "region", "aria-label": "What was opened" });

  async function make() {
    const opened = async (event, read) => {
      const { files } = event.target;
      if (!files.length) return;
      shown.replaceChildren(el("p", {}, "Reading …"));
      try {
        shown.replaceChildren(...(await read(files)));
        explorer.say("The file is shown.");
      } catch (error) {
        shown.replaceChildren(el("p", { class: "wrong", role: "alert" }, explorer.worded(`Not opened: ${error.message}.`)));
      }
    };
    const again = (event) => (event.target.value = ""); // a file that was changed meanwhile is read again
    const input = (id, read, more) => el("input", { type: "file", id, onclick: again, onchange: (event) => opened(event, read), ...more });
    return el("div", { class: "view" },
      el("h2", {}, "Open files"),
      el("p", {}, "They are read by this page and sent nowhere."),
      el("div", { class: "pickers" },
        field("A bundle's directory, as deploy writes it", input("bundle", explorer.bundle.show, { webkitdirectory: true })),
        field(explorer.worded("A bundle as one file: the zip of deploy --archive"), input("archive", explorer.bundle.showArchive, { accept: ".zip" })),
        field("A schedule: schedule.npz of build, or of a bundle", input("schedule", schedule, { accept: ".npz" })),
        field("A timeline or a simulation: JSON of planes or simulate", input("timeline", timeline, { accept: ".json" })),
        field("A graph: JSON or an edge list of topology", input("graph", graph, { accept: ".json,.txt,.edgelist,.edges,.csv" }))),
      shown);
  }

  async function content(file) {
    if (file.size > MOST_BYTES) throw new Error(`${file.name} has more than ${MOST_BYTES / 2 ** 20} MiB`);
    return file.text();
  }

  async function schedule([file]) {
    const saved = await explorer.schedule.read(file);
    return [
      el("h2", {}, `Schedule of ${saved.collective}, ${file.name}`),
      explorer.facts([["nodes", String(saved.graph.n)], ["links", String(saved.graph.links)], ["steps", String(saved.steps)]]),
      el("p", { class: "note" }, "It is played as it is; ocs-codesign verify says whether it is a correct one."),
      explorer.panel.make(saved.graph, { title: file.name, schedule: saved }),
    ];
  }

  async function timeline([file]) {
    const text = await content(file);
    let answer;
    try {
      answer = JSON.parse(text);
    } catch {
      throw new Error(`${file.name} is no JSON`);
    }
    return explorer.timeline.show(answer, file.name);
  }

  async function graph([file]) {
    const made = explorer.graph.parse(await content(file), file.name);
    const collective = explorer.catalogue.collective();
    return [
      el("h2", {}, file.name),
      explorer.facts([["nodes", String(made.n)], ["links", String(made.links)]]),
      explorer.panel.make(made, { collective, title: file.name }),
    ];
  }

  return { name: "Files", make };
})();
