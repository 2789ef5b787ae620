"""The explorer's pictures: a design, its schedule and its all-to-all, as a browser shows them.

    python experiments/explorer_picture.py

Writes figures/explorer.png, figures/explorer_alltoall.png and both dark. Needs the extra `browser`
and Chromium of the system. What a browser draws depends on its version and on the fonts of the
machine, so nothing compares the bytes.
"""

from __future__ import annotations

import shutil
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from ocs_codesign.faces.web.site import PAGE, payloads, write_site
from ocs_codesign.search.catalogue.store import Catalogue

PICTURE = Path(__file__).resolve().parent.parent / "figures" / "explorer.png"
LOOKS: tuple[Literal["light", "dark"], ...] = ("light", "dark")
VIEW = "view=design&n=64&d=4&a=4-any/64/f5e56a&step=2&colour=distance"
EXCHANGE = "view=design&n=16&d=3&links=bidirectional&a=3-bidirectional/16/c5f41a&layout=force"
APART = 30
"""Pixels between two halves."""


def main() -> None:
    """Write the site of one size, open it, and keep what it shows."""
    with TemporaryDirectory() as place:
        with Catalogue() as store:
            sizes = ((64, 4), (16, 3))
            chosen = [one for one in store.questions() if (one.num_nodes, one.degree) in sizes]
            write_site(Path(place) / "site", payloads(store, "designs.sqlite", chosen, 64))
        page = (Path(place) / "site" / PAGE).as_uri()
        photograph(f"{page}#{VIEW}", ".loads", 826, PICTURE)
        beside = PICTURE.with_name("explorer_alltoall.png")
        photograph(f"{page}#{EXCHANGE}", ".exchange pre", 826, beside, ".exchange")


def photograph(
    address: str, shown: str, height: int, picture: Path, part: str | None = None
) -> None:
    """Keep, light and dark, what a browser of that height shows once there is ``shown``.

    The view is scrolled to an element that the address names. Of a ``part`` what is below its
    first ``h4`` stands beside what is above.
    """
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for look in LOOKS:
            file = picture if look == "light" else picture.with_suffix(".dark.png")
            page = browser.new_page(viewport={"width": 1280, "height": height}, color_scheme=look)
            page.goto(address)
            page.wait_for_selector(shown)
            if part is None:
                image = Image.open(BytesIO(page.screenshot())).convert("RGB")
            else:
                image = _side_by_side(page, part)
            colours = image.convert("P", palette=Image.Palette.ADAPTIVE, colors=160)
            colours.save(file, optimize=True)
            print(file)
        browser.close()


def _side_by_side(page: Page, part: str) -> Image.Image:
    """What is above and what is below the first ``h4`` of a part."""
    section = page.locator(part)
    whole = Image.open(BytesIO(section.screenshot())).convert("RGB")
    top = section.bounding_box() or {"y": 0.0}
    heading = section.locator("h4").first.bounding_box() or {"y": 0.0}
    middle = round(heading["y"] - top["y"])
    height = max(middle, whole.height - middle)
    image = Image.new("RGB", (2 * whole.width + APART, height), whole.getpixel((0, 0)))
    image.paste(whole.crop((0, 0, whole.width, middle)))
    below = whole.crop((0, middle, whole.width, whole.height))
    image.paste(below, (whole.width + APART, 0))
    return image


if __name__ == "__main__":
    main()
