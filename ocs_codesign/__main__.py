"""Runs the command line: ``python -m ocs_codesign``."""

import sys

from ocs_codesign.faces.cli import main

if __name__ == "__main__":
    sys.exit(main())
