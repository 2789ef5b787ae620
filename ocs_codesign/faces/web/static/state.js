"use strict";
// The view as the address has it after #, so that it can be shared and the browser can go back.
explorer.state = (() => {
  const FIRST = {
    view: "frontier", n: "64", d: "4", links: "any", c: "allgather", a: "", b: "",
    alpha: "10", gbps: "400", bytes: String(2 ** 20), layout: "circle", colour: "distance",
    root: "0", step: "0", theme: "", baselines: "yes",
  };
  let current = read();
  let changed = () => {};
  let shown = address({});

  function read() {
    const given = new URLSearchParams(location.hash.slice(1));
    const known = Object.keys(FIRST).map((name) => [name, given.get(name) ?? FIRST[name]]);
    return Object.fromEntries(known);
  }

  /** The address of the page with some values changed. */
  function address(changes) {
    const next = { ...current, ...changes };
    const told = Object.entries(next).filter(([name, value]) => value !== FIRST[name]);
    return `#${new URLSearchParams(told)}`;
  }

  /** Change values: a step that the browser can go back, or in place of the current one. */
  function set(changes, { quietly = false } = {}) {
    const before = current;
    const there = address(changes);
    current = { ...current, ...changes };
    if (quietly) history.replaceState(null, "", there);
    else if (there !== location.hash) history.pushState(null, "", there);
    shown = there;
    changed(before, current, false);
  }

  function reread() {
    const before = current;
    current = read();
    if (address({}) !== shown) changed(before, current, true);
    shown = address({});
  }
  addEventListener("popstate", reread);
  addEventListener("hashchange", reread);

  return {
    get: (name) => current[name],
    number: (name) => {
      const number = Number(current[name]);
      return Number.isFinite(number) ? number : Number(FIRST[name]);
    },
    set,
    address,
    onchange: (listener) => {
      changed = listener;
    },
  };
})();
