"""Does the site's search find the words that people bring along? ``python docs/search.py SITE``

The site's own script ranks an entry of the index by the share of it that was typed, 100 if all was,
and a page that merely has the words by 15 at most; entries of the glossary are main ones.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

WORDS = {
    "reconfiguration delay": "dead time",
    "switching time": "dead time",
    "bisection": "cut",
    "all_to_all": "all-to-all",
    "all_reduce": "allreduce",
    "straggler": "slow host",
    "NCCL": "nccl-tests",
    "torus": "ring",
    "dragonfly": "fat tree",
    "OCS": "plane",
    "min-cut": "bottleneck",
    "bubble": "exposed",
}
"""What is typed, and the word of ours that is explained in the same place."""

PLACES = 2
"""First or second."""


def found(index: dict[str, object], typed: str) -> list[str]:
    """Places of the index entries that an entry of these letters finds, the best first."""
    documents, entries = index["docnames"], index["indexentries"]
    typed = typed.lower().strip()
    ranked = [
        (-100 * len(typed) / len(entry), f"{documents[number]}#{anchor}")
        for entry, places in entries.items()
        if typed in entry.lower() and 2 * len(typed) >= len(entry)
        for number, anchor, is_main in places
        if is_main
    ]
    return [place for _, place in sorted(ranked)]


def main(site: Path) -> int:
    """Say which words are not found; 1 if there are any."""
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text[text.index("(") + 1 : text.rindex(")")])
    page = (site / "concepts" / "glossary.html").read_text(encoding="utf-8")
    missed = []
    for typed, ours in WORDS.items():
        anchors = [place.rpartition("#")[2] for place in found(index, typed)[:PLACES]]
        starts = [page.find(f'id="{each}"') for each in anchors]
        terms = [
            page[page.rfind("</dd>", 0, at) : page.index("<dd", at)] for at in starts if at > 0
        ]
        if not any(f">{ours}<" in each for each in terms):
            missed.append(f"{typed} does not find {ours}: {anchors}")
    sys.stderr.write("".join(f"{line}\n" for line in missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
