"""The explorer's picture: a design and its schedule, as a browser shows them.

    python experiments/explorer_picture.py

Writes figures/explorer.png and figures/explorer.dark.png. Needs the extra `browser` and Chromium
of the system. What a browser draws depends on its version and on the fonts of the machine, so
nothing compares the bytes.
"""

from __future__ import annotations

import shutil
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from PIL import Image
from playwright.sync_api import sync_playwright

from ocs_codesign.faces.web.site import PAGE, payloads, write_site
from ocs_codesign.search.catalogue.store import Catalogue

PICTURE = Path(__file__).resolve().parent.parent / "figures" / "explorer.png"
LOOKS: tuple[Literal["light", "dark"], ...] = ("light", "dark")
VIEW = "view=design&n=64&d=4&a=4-any/64/f5e56a&step=2&colour=distance"


def main() -> None:
    """Write the site of one size, open it, and keep what it shows."""
    with TemporaryDirectory() as place:
        with Catalogue() as store:
            chosen = [one for one in store.questions() if (one.num_nodes, one.degree) == (64, 4)]
            write_site(Path(place) / "site", payloads(store, "designs.sqlite", chosen, 64))
        address = f"{(Path(place) / 'site' / PAGE).as_uri()}#{VIEW}"
        photograph(address, ".loads", 826, PICTURE)


def photograph(address: str, shown: str, height: int, picture: Path) -> None:
    """Keep, light and dark, what a browser of that height shows once there is ``shown``.

    The view is scrolled to an element that the address names.
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
            image = Image.open(BytesIO(page.screenshot())).convert(
                "P", palette=Image.Palette.ADAPTIVE, colors=160
            )
            image.save(file, optimize=True)
            print(file)
        browser.close()


if __name__ == "__main__":
    main()
