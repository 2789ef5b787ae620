"use strict";
// What all views share: payloads, elements, texts. Everything that comes from data or from a file
// reaches the page as text nodes, never as markup.
const explorer = (() => {
  const waiting = new Map();
  const loaded = new Map();

  /** Load a payload by name, once; rejects where the site has none. */
  function load(name) {
    if (!loaded.has(name)) {
      loaded.set(name, new Promise((resolve, reject) => {
        const script = document.createElement("script");
        const failed = (why) => {
          loaded.delete(name);
          waiting.delete(name);
          reject(new Error(why));
        };
        waiting.set(name, (text) => decode(text).then(resolve, () => failed(`${name} is damaged`)));
        script.src = `data/${name}.js`;
        script.onerror = () => failed(`this site has no ${name}`);
        script.onload = () => script.remove();
        document.head.append(script);
      }));
    }
    return loaded.get(name);
  }

  /** What every payload's script calls. */
  function receive(name, text) {
    const resolve = waiting.get(name);
    waiting.delete(name);
    if (resolve) resolve(text);
  }

  function bytesOf(text) {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  }

  function decode(text) {
    const packed = new Blob([bytesOf(text)]).stream();
    return new Response(packed.pipeThrough(new DecompressionStream("deflate-raw"))).json();
  }

  /** An element with attributes, listeners (on...) and children; null children are left out. */
  function el(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (name === "value") made.value = value;
      else made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.flat(2).filter((child) => child !== null && child !== undefined));
    return made;
  }

  let labels = 0;
  /** A control under its label; `more` stands beside it. */
  function field(text, control, more = null) {
    control.id = control.id || `control-${(labels += 1)}`;
    return el("div", { class: "field" }, el("label", { for: control.id }, text), control, more);
  }

  function select(options, chosen, onchange) {
    return el(
      "select",
      { onchange: (event) => onchange(event.target.value) },
      options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)),
    );
  }

  function button(text, onclick, more = {}) {
    return el("button", { type: "button", onclick, ...more }, text);
  }

  /** A table with a caption; `numbers` columns from the one at `first` are flush right. */
  function table(caption, columns, rows, numbers = 0, first = 0) {
    const kind = (at) => (at >= first && at < first + numbers ? "number" : null);
    const cell = (value, at) => el("td", { class: kind(at) }, value ?? "–");
    return el(
      "div",
      { class: "scrolled", tabindex: "0", role: "region", "aria-label": caption },
      el(
        "table",
        {},
        el("caption", {}, caption),
        el("thead", {}, el("tr", {}, columns.map((name, at) =>
          el("th", { scope: "col", class: kind(at) }, name)))),
        el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cell)))),
      ),
    );
  }

  function facts(rows) {
    return el("dl", {}, rows.filter((row) => row[1] !== null && row[1] !== undefined)
      .map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  }

  /** Text in parts: an option of a command stays on one line, else it breaks after its hyphens. */
  const worded = (text) => text.split(/((?<![\w-])--[a-z][\w-]*)/)
    .map((part, at) => (at % 2 ? el("span", { class: "whole" }, part) : part));

  const TOLD_MS = 4000;

  /** Text to copy, with the button that does, and that says for a while what became of it. */
  function copied(text, what) {
    const code = el("code", {}, worded(text));
    const shown = el("pre", { tabindex: "0", "aria-label": what }, code);
    let over = null;
    const copy = button("Copy", async () => {
      const isCopied = await copyText(text, code);
      label(isCopied ? "Copied" : "Selected");
      say(isCopied ? `${what} copied.` : `${what} selected: copy it by the keys of your system.`);
      clearTimeout(over);
      over = setTimeout(() => label("Copy"), TOLD_MS);
    });
    function label(done) {
      copy.textContent = done;
      copy.classList.toggle("done", done !== "Copy");
      copy.setAttribute("aria-label", `${done} ${what}`);
    }
    label("Copy");
    return el("div", { class: "copied" }, shown, copy);
  }

  /** Whether a text is on the clipboard now; where that is not allowed, its element is selected. */
  async function copyText(text, shown) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const range = document.createRange();
      range.selectNodeContents(shown);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      return document.execCommand("copy");
    }
  }

  /** Tell those who listen instead of looking; what is said twice is another text, so it is heard twice. */
  function say(text) {
    const status = document.getElementById("status");
    status.textContent = status.textContent === text ? `${text}\u00a0` : text;
  }

  /** A fraction such as 341/256 as a number. */
  function value(text) {
    const [above, below] = String(text).split("/");
    return Number(above) / Number(below ?? 1);
  }

  function digits(number, most = 4) {
    return Number.isInteger(number) ? String(number) : String(Number(number.toPrecision(most)));
  }

  /** A number of things, as in 1 step and 2 steps. */
  const many = (number, thing) => `${number} ${thing}${number === 1 ? "" : "s"}`;

  const unitOf = (number, units) => units.find(([each]) => Math.abs(number) >= each) ?? units.at(-1);

  function scaled(number, units) {
    const [size, unit] = unitOf(number, units);
    return `${digits(number / size)} ${unit}`;
  }

  const TIMES = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
  const unitOfTime = (seconds) => unitOf(seconds, TIMES);
  const time = (seconds) => (seconds === 0 ? "0 s" : scaled(seconds, TIMES));
  const size = (bytes) =>
    scaled(bytes, [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]]);
  const rate = (bytesPerSecond) => scaled(bytesPerSecond, [[1e9, "GB/s"], [1e6, "MB/s"], [1, "B/s"]]);
  /** A word for a shell, in quotes where it needs them. */
  const quoted = (word) => (/^[\w.,:/=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  return {
    load, receive, bytesOf, el, field, select, button, table, facts, worded, copied, say, value, digits, many,
    time, unitOfTime, size, rate, quoted, colour,
  };
})();
