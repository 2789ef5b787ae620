"use strict";
// What a message costs: the model's three numbers, their sliders, and the one formula for time.
explorer.message = (() => {
  const { el, field, time, size, rate } = explorer;
  const ALPHA_US = [0, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
  const GBPS = [10, 25, 50, 100, 200, 400, 800, 1600, 3200, 6400, 12800];
  const BYTES = Array.from({ length: 25 }, (_, power) => 2 ** (10 + power));
  const SLIDERS = [
    ["alpha", "Time of a step, α", ALPHA_US, (us) => time(us * 1e-6)],
    ["gbps", "Bandwidth of a node, B", GBPS, (gbps) => `${gbps} Gbit/s`],
    ["bytes", "Message, M", BYTES, size],
  ];
  const FORMULA = "T = α · steps + t_b · M / B";

  /** The model as the address has it, in seconds, bytes a second and bytes. */
  function model() {
    const { state } = explorer;
    return {
      alpha_s: Math.max(0, state.number("alpha")) * 1e-6,
      node_bandwidth_Bps: Math.max(1e-9, state.number("gbps")) * 1.25e8,
      message_bytes: Math.max(0, state.number("bytes")),
    };
  }

  const time_s = (cost, { alpha_s, node_bandwidth_Bps, message_bytes }) =>
    alpha_s * cost.steps + (cost.number * message_bytes) / node_bandwidth_Bps;

  function nearestOf(values, wanted) {
    const distance = (at) => Math.abs(values[at] - wanted);
    return values.reduce((best, _, at) => (distance(at) < distance(best) ? at : best), 0);
  }

  /** The three sliders; `told` is called when one has moved. */
  function sliders(told) {
    const rows = SLIDERS.map(([name, text, values, shown]) => {
      const at = nearestOf(values, explorer.state.number(name));
      const output = el("output", {}, shown(explorer.state.number(name)));
      const moved = (event) => {
        const chosen = values[Number(event.target.value)];
        output.value = shown(chosen);
        event.target.setAttribute("aria-valuetext", shown(chosen));
        explorer.state.set({ [name]: String(chosen) }, { quietly: true });
        told();
      };
      const slider = el("input", {
        type: "range", min: 0, max: values.length - 1, step: 1, value: at, id: `slider-${name}`,
        "aria-valuetext": shown(values[at]), oninput: moved,
      });
      return field(text, slider, output);
    });
    return el("fieldset", { class: "sliders" }, el("legend", {}, "Time of a message"), rows);
  }

  /** The formula with a design's numbers and units. */
  function worked(cost) {
    const now = model();
    const fixed = now.alpha_s * cost.steps;
    const carried = time_s(cost, now) - fixed;
    const whole = (text) => text.replaceAll(" ", "\u00a0"); // a number and its unit on one line
    return el(
      "p",
      { class: "formula" },
      `${whole(FORMULA)} = ${whole(time(now.alpha_s))} · ${cost.steps} + ${cost.t_b} · ${whole(size(now.message_bytes))} / `
        + `${whole(rate(now.node_bandwidth_Bps))} = ${whole(time(fixed))} + ${whole(time(carried))} = `,
      el("strong", {}, whole(time(fixed + carried))),
    );
  }

  const sizes = () => BYTES;
  return { FORMULA, model, time_s, sliders, worked, sizes };
})();
