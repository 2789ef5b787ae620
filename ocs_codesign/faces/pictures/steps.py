"""Training steps as pictures: where the seconds of each division go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.core.quantities import format_time
from ocs_codesign.faces.pictures.drawing import FONT_SIZE, one_axes, set_time_axis
from ocs_codesign.faces.pictures.files import drawing, drawn_alone, pictured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from ocs_codesign.jobs.training.step import StepEstimate

COLOURS = {
    "forward": "#2b5d8a",
    "backward": "#5b8db8",
    "recompute": "#a9c4dc",
    "head": "#1f3a52",
    "offload": "#9a7aa0",
    "tensor": "#c8553d",
    "context": "#e08e6d",
    "expert": "#f0c2a8",
    "bubble": "#d9d9d9",
    "stragglers": "#c9a227",
    "data": "#7a9e5f",
    "optimizer": "#b5c99a",
    "jitter": "#8a8a8a",
}


@pictured(lambda rows, _="": drawing(10, 1.6 + 0.42 * len(rows)))
def draw_steps(
    rows: Sequence[tuple[str, StepEstimate]], title: str = "", *, ax: Axes | None = None
) -> Axes:
    """A bar a step, in the order given, its parts side by side: kernels, wires, waiting."""
    axes = one_axes(ax)
    places = range(len(rows))
    left = [0.0] * len(rows)
    order = [part for part in COLOURS if any(step.parts[part] for _, step in rows)]
    for part in order:
        values = [step.parts[part] for _, step in rows]
        axes.barh(places, values, left=left, color=COLOURS[part], label=part, height=0.7)
        left = [before + value for before, value in zip(left, values, strict=True)]
    for place, (_, step) in enumerate(rows):
        text = f" {format_time(step.seconds)}, MFU {step.utilisation():.0%}"
        axes.text(step.seconds, place, text, va="center", fontsize=FONT_SIZE)
    axes.set_yticks(places, [name for name, _ in rows], fontsize=FONT_SIZE)
    axes.invert_yaxis()
    most = 1.25 * max(step.seconds for _, step in rows)
    axes.set_xlim(0, most)
    set_time_axis(axes, most)
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(0, -0.35 / (0.42 * len(rows) + 0.5)),
        ncols=4,
        frameon=False,
        fontsize=FONT_SIZE,
    )
    axes.set_title(title, loc="left", fontsize=11)
    return axes


steps_figure = drawn_alone(draw_steps)
