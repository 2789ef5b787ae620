"""Dark companions of the pictures that README and documentation show.

    python experiments/dark_pictures.py [NAME ...]

Writes figures/NAME.dark.png from figures/NAME.png, for all of them unless some are named: what is
light becomes dark and the other way round, what is blue stays blue. Pictures taken of a page in a
browser have a dark look of their own: their scripts write both.
"""

from __future__ import annotations

import re
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from ocs_codesign.core.files.atomic import write_files

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "figures"
PHOTOGRAPHS = {"explorer", "explorer_alltoall", "report"}
"""Taken of a page in a browser, in both looks, by their own scripts."""

_GROUND, _INK = 0.19, 0.93
"""Lightness of what was white and of what was black."""
_LIFT = 1.5
"""Above 1 what was between is lighter: grey letters keep their contrast."""
_COLOURS = 128
_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
"""From linear RGB to the cone responses, and from their cube roots to Oklab (B. Ottosson, 2020)."""


def main() -> None:
    """Write the companions of the named pictures, or of all that are shown."""
    names = sys.argv[1:] or sorted(shown() - PHOTOGRAPHS)
    write_files(
        {
            FIGURES / f"{name}.dark.png": png(darkened(read(FIGURES / f"{name}.png")))
            for name in names
        }
    )
    print("\n".join(f"figures/{name}.dark.png" for name in names))


def shown() -> set[str]:
    """Names of the pictures on README and on the pages of the documentation."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    texts = (page.read_text(encoding="utf-8") for page in pages)
    return {name for text in texts for name in re.findall(r"figures/(\w+)\.png", text)}


def read(file: Path) -> np.ndarray:
    """The pixels of a picture, ``(height, width, 3)`` of uint8."""
    with Image.open(file) as image:
        return np.asarray(image.convert("RGB"))


def darkened(pixels: np.ndarray) -> np.ndarray:
    """Pixels of the same hue and chroma whose lightness runs from ink to ground."""
    # A number a pixel, since rows of three take ten times as long to sort.
    packed = pixels.reshape(-1, 3) @ np.array([1 << 16, 1 << 8, 1], dtype=np.uint32)
    numbers, inverse = np.unique(packed, return_inverse=True)
    colours = numbers[:, None] >> np.array([16, 8, 0], dtype=np.uint32) & 255
    linear = _linear(colours / 255)
    lab = np.cbrt(linear @ _LMS.T) @ _LAB.T
    lab[:, 0] = _INK + (_GROUND - _INK) * np.clip(lab[:, 0], 0, 1) ** _LIFT
    back = (lab @ np.linalg.inv(_LAB).T) ** 3 @ np.linalg.inv(_LMS).T
    colours = np.rint(255 * _encoded(np.clip(back, 0, 1))).astype(np.uint8)
    turned: np.ndarray = colours[inverse.reshape(-1)].reshape(pixels.shape)
    return turned


def _linear(encoded: np.ndarray) -> np.ndarray:
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def _encoded(linear: np.ndarray) -> np.ndarray:
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def png(pixels: np.ndarray) -> bytes:
    """A PNG file with a palette: lines and letters need few colours."""
    content = BytesIO()
    image = Image.fromarray(pixels).quantize(_COLOURS, dither=Image.Dither.NONE)
    image.save(content, "PNG", optimize=True)
    return content.getvalue()


if __name__ == "__main__":
    main()
