"use strict";
// The page: its views, its theme, and what is said where something goes wrong.
(() => {
  const { el, state, catalogue, views } = explorer;
  const VIEWS = ["frontier", "design", "compare", "files"];
  const WORDS = [
    ["steps", "rounds of sends, one after the other; each takes α, whatever is sent"],
    ["t_b", "what the busiest link of every step sends, together, as a time in units of M/B; M is the buffer of a node in bytes, B what a node sends in a second"],
    ["time", "α · steps + t_b · M/B"],
    ["bound", "the least t_b in as many steps that counting nodes, ports and steps allows any topology"],
    ["frontier", "the designs that no other one beats in steps and t_b at once"],
    ["published, baselines", "designs of the literature; rings, tori and a fat tree as usual choices"],
    ["α, hops, root", "the time of a step without bytes; links on the shortest path; the node whose shard is played"],
    ["handle", "a short name of the recipe"],
  ];
  const main = document.getElementById("main");
  let turn = 0;

  function tabs() {
    const now = current();
    document.getElementById("views").replaceChildren(...VIEWS.map((name) => el("a", {
      href: state.address({ view: name }), "aria-current": name === now ? "page" : null,
    }, views[name].name)));
  }

  const current = () => (VIEWS.includes(state.get("view")) ? state.get("view") : VIEWS[0]);

  /** Show the view of the address; one that was asked for meanwhile is not overtaken. */
  async function show() {
    const mine = (turn += 1);
    const name = current();
    tabs();
    let made;
    try {
      made = await views[name].make();
    } catch (error) {
      made = el("p", { class: "wrong", role: "alert" }, `This cannot be shown: ${error.message}.`);
    }
    if (mine !== turn) return;
    const focused = main.contains(document.activeElement) ? document.activeElement.id : "";
    main.replaceChildren(made);
    main.dataset.view = name;
    if (focused) document.getElementById(focused)?.focus();
    document.title = `${views[name].name} · topologies of ocs_codesign`;
    performance.mark("explorer-shown");
  }

  function themed() {
    const now = state.get("theme");
    document.documentElement.dataset.theme = now;
    const dark = now ? now === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    const button = document.getElementById("theme");
    button.textContent = dark ? "Light" : "Dark";
    button.setAttribute("aria-label", `Change to the ${dark ? "light" : "dark"} theme`);
    button.onclick = () => state.set({ theme: dark ? "light" : "dark" }, { quietly: true });
    repaint();
  }

  /** Colours of canvases do not follow the style sheet by themselves, nor does a layout that a control beside another one sets. */
  const repaint = () =>
    document.querySelectorAll("canvas").forEach((canvas) => canvas.dispatchEvent(new Event("themechange")));

  const QUIET = ["alpha", "gbps", "bytes", "layout", "colour", "root", "step"];
  state.onchange((before, now, isFromOutside) => {
    if (before.theme !== now.theme) {
      themed();
    }
    if (before.layout !== now.layout) repaint();
    tabs();
    const other = Object.keys(now).filter((name) => before[name] !== now[name] && name !== "theme");
    if (isFromOutside || other.some((name) => !QUIET.includes(name))) show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themed);
  explorer.chart.NARROW.addEventListener("change", show);

  function about() {
    const info = catalogue.info();
    document.getElementById("about").replaceChildren(
      el("details", { class: "words" }, el("summary", {}, "What the words mean"), explorer.facts(WORDS)),
      `${info.num_designs.toLocaleString("en")} designs of the catalogue ${info.catalogue}, ocs_codesign ${info.version}. `
      + `Graphs are drawn and played up to ${info.graph_nodes} nodes. Charts and springs: D3 (licence in vendor/).`);
  }

  themed();
  tabs();
  catalogue.open().then(() => {
    about();
    return show();
  }).catch((error) => {
    main.replaceChildren(el("p", { class: "wrong", role: "alert" }, `The data cannot be read: ${error.message}.`));
  });
})();
