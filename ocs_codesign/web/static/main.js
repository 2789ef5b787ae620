"use strict";
// The page: its views, its theme, and what is said where something goes wrong.
(() => {
  const { el, state, catalogue, views } = explorer;
  const VIEWS = ["frontier", "design", "compare", "files"];
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

  /** Colours of canvases do not follow the style sheet by themselves. */
  const repaint = () =>
    document.querySelectorAll("canvas").forEach((canvas) => canvas.dispatchEvent(new Event("themechange")));

  const QUIET = ["alpha", "gbps", "bytes", "layout", "colour", "root", "step"];
  state.onchange((before, now, isFromOutside) => {
    if (before.theme !== now.theme) {
      themed();
    }
    tabs();
    const other = Object.keys(now).filter((name) => before[name] !== now[name] && name !== "theme");
    if (isFromOutside || other.some((name) => !QUIET.includes(name))) show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themed);
  explorer.chart.NARROW.addEventListener("change", show);

  function about() {
    const info = catalogue.info();
    document.getElementById("about").replaceChildren(
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
