"""Servers as their own tools tell them: NCCL's topology, nvidia-smi topo -m, lstopo.

Source of NCCL's speeds: src/graph/topo.h and topo.cc of NCCL 2.28, which are what NCCL reckons
with and not peaks.
"""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, final

from ocs_codesign.core.files.atomic import decoded
from ocs_codesign.core.quantities import exact
from ocs_codesign.core.shown import shown
from ocs_codesign.interop.wiring.wires import Wire, Wires
from ocs_codesign.interop.wiring.xml_files import root_of

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_GBPS = Fraction(10**9)
"""Bytes a second of a gigabyte a second."""

_NVLINK = ((100, "40.1"), (90, "20.6"), (87, "20"), (86, "12"), (70, "20"), (60, "18"))
_PCIE = (
    *(("2.5 GT/s", 15), ("5 GT/s", 30), ("8 GT/s", 60), ("16 GT/s", 120), ("32 GT/s", 240)),
    *(("64 GT/s", 480), ("2.5 GT/s PCIe", 15), ("5.0 GT/s PCIe", 30), ("8.0 GT/s PCIe", 60)),
    *(("16.0 GT/s PCIe", 120), ("32.0 GT/s PCIe", 240), ("64.0 GT/s PCIe", 480)),
)
_PCIE_UNKNOWN = 60
_INTEL = ((0xCF, 40), (0x8F, 22), (0x55, 10), (0, 6))
_CPUS = {"arm64": 6, "ppc64": 32}
_AMD, _OTHER_CPU = 16, 10
_NVSWITCH, _BRIDGE, _PEER = "0x0680", "0x06", "0x03"
_MAX_ATTRIBUTES, _MAX_CHILDREN, _MAX_TEXT = 16, 640, 255


def read_nccl_topology(data: bytes, name: str) -> Wires:
    """The wires of a file of NCCL_TOPO_DUMP_FILE, as wide as NCCL counts them.

    Raises ValueError with the element for what is none, and for a GPU without sm.
    """
    root = root_of(data, name)
    if root.tag != "system" or root.get("version") != "1":
        raise ValueError(f"{name}: a topology of NCCL is a system of version 1")
    try:
        return _NcclReader(root).found
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


@final
class _NcclReader:
    """Walks over a system."""

    def __init__(self, root: Element) -> None:
        self.found = Wires("NCCL topology XML")
        self.found.guess("speeds are those that NCCL reckons with, below the peaks of the links")
        self.gpus: dict[str, str] = {}
        self.links: list[tuple[str, int, Element]] = []
        cpus = list(root)
        for at, cpu in enumerate(cpus):
            _check(cpu, "cpu")
            self.found.node(_cpu(at), is_host=False)
            for child in cpu:
                self._under(child, _cpu(at))
        for (one, first), (other, _) in combinations(enumerate(cpus), 2):
            self.found.cable(_cpu(one), _cpu(other), "cpu", _between_cpus(first) * _GBPS)
        for gpu, sm, link in self.links:
            self._nvlink(gpu, sm, link)

    def _under(self, element: Element, above: str) -> None:
        if element.tag == "nic":
            for net in element:
                _check(net, "net")
            return
        if element.tag != "pci":
            raise ValueError(f"<{element.tag}> below {above}: a cpu has pci and nic, a pci as well")
        _check(element, "pci")
        busid = _text(element, "busid")
        gpu = element.find("gpu")
        name = busid
        if gpu is not None:
            rank = gpu.get("rank", gpu.get("dev", ""))
            name = f"gpu{_whole(rank, 'rank of a gpu')}"
            if name in self.found.hosts:
                raise ValueError(f"{name} is there twice")
            self.gpus[busid.lower()] = name
        self.found.node(name, is_host=gpu is not None)
        self.found.cable(name, above, "pcie", _pcie(element) * _GBPS)
        for child in element:
            if child.tag == "gpu":
                self._gpu(child, name, above)
            elif child.tag not in ("net", "gin"):
                self._under(child, name)

    def _gpu(self, gpu: Element, name: str, above: str) -> None:
        _check(gpu, "gpu")
        sm = _whole(gpu.get("sm", ""), f"sm of {name}")
        for link in gpu:
            _check(link, link.tag)
            if link.tag == "nvlink":
                self.links.append((name, sm, link))
            elif link.tag == "c2c":
                # Between a GPU and the CPU that it hangs on, in MB/s.
                width = Fraction(_whole(link.get("bw", ""), f"bw of {name}"), 1000)
                count = _whole(link.get("count", "1"), f"count of {name}")
                self.found.cable(name, above, "c2c", width * count * _GBPS)

    def _nvlink(self, gpu: str, sm: int, link: Element) -> None:
        speed = next((Fraction(one) for least, one in _NVLINK if sm >= least), None)
        if speed is None:
            raise ValueError(f"{gpu} has sm {sm}: NVLinks are known from 60 on")
        width = _whole(link.get("count", "1"), f"count of {gpu}") * speed * _GBPS
        kind, target = link.get("tclass", ""), link.get("target", "").lower()
        if kind.startswith(_NVSWITCH):
            self.found.node("nvswitch", is_host=False)
            self.found.cable(gpu, "nvswitch", "nvlink", width)
        elif kind.startswith(_PEER):
            if target not in self.gpus:
                raise ValueError(f"{gpu} has an NVLink to {shown(target)}, which is no gpu")
            self.found.wires.append(Wire(gpu, self.gpus[target], "nvlink", width))
        elif kind.startswith(_BRIDGE):
            self.found.cable(gpu, _cpu(0), "nvlink", width)
        else:
            raise ValueError(f"{gpu} has an NVLink of tclass {shown(kind)}, which is not known")


def _cpu(at: int) -> str:
    return f"cpu{at}"


def _check(element: Element, tag: str) -> None:
    """ValueError for another element, and for more than NCCL itself reads."""
    if element.tag != tag:
        raise ValueError(f"<{element.tag}> where a <{tag}> is expected")
    if len(element.attrib) > _MAX_ATTRIBUTES or len(element) > _MAX_CHILDREN:
        raise ValueError(
            f"a <{tag}> has {_MAX_ATTRIBUTES} attributes, {_MAX_CHILDREN} parts at most"
        )
    if any(len(value) > _MAX_TEXT for value in element.attrib.values()):
        raise ValueError(f"a <{tag}> has texts of {_MAX_TEXT} characters at most")


def _pcie(element: Element) -> Fraction:
    """GB/s of what joins a device to what it hangs on: unknown texts are generation 3."""
    width = _whole(element.get("link_width", "0"), "link_width") or 16
    speed = element.get("link_speed", "")
    known = next((rate for text, rate in _PCIE if speed.startswith(text)), None)
    return Fraction(width * (known or _PCIE_UNKNOWN), 80)


def _between_cpus(cpu: Element) -> Fraction:
    """GB/s between processors, by the kind of the first of them."""
    arch, vendor = cpu.get("arch", ""), cpu.get("vendor", "")
    if arch in _CPUS:
        return Fraction(_CPUS[arch])
    if "AMD" in vendor:
        return Fraction(_AMD)
    if "Intel" in vendor:
        model = _whole(cpu.get("modelid", "0"), "modelid")
        return Fraction(next(speed for least, speed in _INTEL if model >= least))
    return Fraction(_OTHER_CPU)


def _text(element: Element, key: str) -> str:
    value = element.get(key)
    if not value:
        raise ValueError(f"a <{element.tag}> has no {key}")
    return value


def _whole(text: str, what: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,9}", text):
        raise ValueError(f"{what} is {shown(text)}: a whole number")
    return int(text)


# nvidia-smi topo -m.


_MAX_LINKS = 18
"""NVLinks of a GPU: a row that has more counts the same ones for every peer behind a switch."""
_CELL = re.compile(r"X|NV([0-9]{1,3})|PIX|PXB|PHB|NODE|SYS|N/A|OK|-")
_GPU = re.compile(r"GPU[0-9]{1,4}")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def read_topo_matrix(data: bytes, name: str) -> Wires:
    """The NVLinks in the matrix of ``nvidia-smi topo -m``: what else it says has no bandwidth.

    Raises ValueError with the line for cells that are none, that differ by direction, and where
    there is no NVLink.
    """
    found = Wires("nvidia-smi topo -m")
    lines = [_ESCAPES.sub("", line).split() for line in decoded(data, name).splitlines()]
    heading = next((cells for cells in lines if cells and _GPU.fullmatch(cells[0])), [])
    gpus = [cell for cell in heading if _GPU.fullmatch(cell)]
    rows: dict[str, list[int]] = {}
    for number, cells in enumerate(lines, 1):
        if cells is heading or not cells or not _GPU.fullmatch(cells[0]):
            continue
        place = f"{name}, line {number}"
        own = [_CELL.fullmatch(cell) for cell in cells[1 : len(gpus) + 1]]
        if len(own) < len(gpus) or any(cell is None for cell in own) or cells[0] in rows:
            raise ValueError(
                f"{place}: a row has a cell such as NV4 or SYS for each of {len(gpus)} GPUs"
            )
        rows[cells[0]] = [int(cell[1] or 0) if cell else 0 for cell in own]
    if list(rows) != gpus or not gpus:
        raise ValueError(f"{name}: there is no row for every GPU of the heading")
    for one, other in combinations(range(len(gpus)), 2):
        if rows[gpus[one]][other] != rows[gpus[other]][one]:
            raise ValueError(f"{name}: {gpus[one]} and {gpus[other]} differ by direction")
    if not any(any(row) for row in rows.values()):
        raise ValueError(f"{name}: there is no NVLink, and of PCIe it says no bandwidth")
    found.guess("PCIe and NICs are left out: the matrix has no bandwidth for them")
    for gpu in gpus:
        found.node(gpu, is_host=True)
    if max(map(sum, rows.values())) > _MAX_LINKS:
        _starred(found, rows, name)
        return found
    for one, other in combinations(range(len(gpus)), 2):
        count = rows[gpus[one]][other]
        if count:
            found.cable(gpus[one], gpus[other], "nvlink", None, lanes=count)
    return found


def _starred(found: Wires, rows: dict[str, list[int]], name: str) -> None:
    """A switch that all GPUs have the links to which their row has for every peer."""
    for at, (gpu, row) in enumerate(rows.items()):
        counts = {count for peer, count in enumerate(row) if peer != at}
        if len(counts) != 1:
            many = f"{sum(row)} NVLinks, more than {_MAX_LINKS}"
            raise ValueError(f"{name}: {gpu} has {many}, and not as many to all")
        found.cable(gpu, "nvswitch", "nvlink", None, lanes=counts.pop())
    found.node("nvswitch", is_host=False)
    found.guess("more NVLinks a row than a GPU has: the same ones to all peers, behind a switch")


# lstopo XML.


_ACCELERATORS = ("0302", "1200")
_NVLINK_MATRIX = "NVLinkBandwidth"
_MEGABYTE = Fraction(10**6)


def read_lstopo(data: bytes, name: str) -> Wires:
    """The PCIe tree and the NVLinks of an XML file of lstopo (hwloc 2).

    Raises ValueError for other versions and for a matrix that does not fit its objects.
    """
    root = root_of(data, name)
    if root.tag != "topology" or not root.get("version", "2").startswith("2"):
        raise ValueError(f"{name}: lstopo of hwloc 2 writes a topology of version 2")
    found, objects = Wires("lstopo XML"), {}
    number = 0

    def walk(element: Element, above: str | None) -> None:
        nonlocal number
        for child in element.findall("object"):
            kind, here = child.get("type", ""), above
            if kind in ("Machine", "Package", "Bridge", "PCIDev"):
                kept = child.get("pci_type", "").split(" ", 1)[0]
                is_host = kind == "PCIDev" and (kept in _ACCELERATORS or _computes(child))
                here = f"gpu{number}" if is_host else f"{kind.lower()}{child.get('gp_index', '')}"
                number += is_host
                found.node(here, is_host=is_host)
                for each in (child, *child.findall("object[@type='OSDev']")):
                    objects[each.get("gp_index", "")] = here
                if above is not None:
                    link = "pcie" if kind in ("Bridge", "PCIDev") else "cpu"
                    speed = exact(float(child.get("pci_link_speed", "0") or 0))
                    found.cable(here, above, link, speed * _GBPS or None)
            walk(child, here)

    try:
        walk(root, None)
        for matrix in (*root.iter("distances2hetero"), *root.iter("distances2")):
            if matrix.get("name") == _NVLINK_MATRIX:
                _nvlinks(found, matrix, objects)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: {error}") from None
    return found


def _computes(device: Element) -> bool:
    names = [one.get("name", "") for one in device.findall("object[@type='OSDev']")]
    return any(name.startswith(("cuda", "nvml", "rsmi", "ze")) for name in names)


def _nvlinks(found: Wires, matrix: Element, objects: dict[str, str]) -> None:
    """Links from MB/s between all objects of a matrix."""
    indexes = " ".join(part.text or "" for part in matrix.findall("indexes")).split()
    values = " ".join(part.text or "" for part in matrix.findall("u64values")).split()
    if len(values) != len(indexes) ** 2:
        raise ValueError(f"{_NVLINK_MATRIX}: {len(values)} values for {len(indexes)} objects")
    names = [objects.get(one.rpartition(":")[2]) for one in indexes]
    for at, text in enumerate(values):
        one, other = names[at // len(names)], names[at % len(names)]
        speed = _whole(text, _NVLINK_MATRIX)
        if one is None or other is None:
            raise ValueError(f"{_NVLINK_MATRIX} names an object that is not there")
        if speed and one != other:
            found.wires.append(Wire(one, other, "nvlink", speed * _MEGABYTE))
