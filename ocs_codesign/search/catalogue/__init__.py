"""The catalogue: designs found by sweeps, stored with provenance, looked up in milliseconds."""

from ocs_codesign.search.catalogue.entry import Entry, Provenance
from ocs_codesign.search.catalogue.lookup import Found, find, nearest
from ocs_codesign.search.catalogue.store import Catalogue, shipped_path

__all__ = ["Catalogue", "Entry", "Found", "Provenance", "find", "nearest", "shipped_path"]
