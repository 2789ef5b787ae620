"""What libraries take on machines, and what logs say of them, as answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.core.quantities import format_bandwidth, format_size, format_time
from ocs_codesign.faces.answers.declared import made
from ocs_codesign.faces.answers.sections import Facts, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.core.machines.machine import RealMachine
    from ocs_codesign.core.machines.nccl import LibraryTime
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.interop.calibrating import Calibration, Fit
    from ocs_codesign.interop.run.measuring import Probes


# Whose clock an answer is by, for all that have one.


made("machine", caveat=lambda machine: machine.caveat or None)


def clock_facts(machine: RealMachine | None) -> tuple[tuple[str, object], ...]:
    """Whose clock it is, and what of it is assumed; bounds stay those of ideal links."""
    if machine is None:
        return ()
    by = "; calibrated by logs" if machine.is_calibrated else ""
    return (("clock of", f"{machine.title}{by}"), ("but", machine.caveat or None))


made("machines.library", rows=lambda _, __, times: times)
made(
    "library_time",
    algorithm=lambda time: time.algorithm or None,
    protocol=lambda time: time.protocol or None,
)


def library_sections(
    machine: RealMachine, model: str, times: Sequence[LibraryTime], asked: dict[str, Any]
) -> Iterator[Section]:
    """The same for people."""
    yield Facts(("machine", machine.title), ("model", model), *asked.items())
    yield Table(
        ("message", "time", "M / time", "algorithm", "protocol"),
        [
            (
                format_size(time.message_bytes),
                format_time(time.seconds),
                format_bandwidth(time.message_bytes / time.seconds),
                time.algorithm or "as measured",
                time.protocol,
            )
            for time in times
        ],
        numbers=3,
    )


# What logs say: fits with intervals, errors of what is left out, and what is not identified.


made(
    "machines.calibration",
    fit=lambda found: found.fits[0] if found.fits else None,
    nic_us=lambda found: found.machine.numbers["nic_us"].record(),
    machine=lambda found: found.machine.record(),
)


_HOPS = {"launch": "launch_us", "hop inside": "inside_hop_us", "hop between": "net_hop_us"}


def calibration_sections(found: Calibration, *, out: str | None) -> Iterator[Section]:
    """The same for people."""
    for fit in found.fits:
        yield Facts(
            ("log", fit.run.source),
            ("run", f"{fit.run.collective} of {fit.run.ranks} ranks on {fit.run.nodes} nodes"),
            ("curve", f"{fit.method} of {len(fit.run.rows)} sizes"),
            ("floor", f"{fit.floor_us:.4g} us"),
            ("latency", _with_limits(fit, "latency_us", fit.law.latency_us, " us")),
            ("root", _with_limits(fit, "sqrt_coefficient", fit.law.root, " us a root of a byte")),
            ("bandwidth", _with_limits(fit, "bandwidth_GBps", fit.law.bandwidth_GBps, " GB/s")),
            ("busbw", f"{fit.busbw_GBps:.4g} GB/s at the largest size"),
            ("hop between nodes", None if fit.net_hop_us is None else f"{fit.net_hop_us:.3g} us"),
        )
        rows = [
            *((f"sizes {band}", errors) for band, errors in fit.left_out.items()),
            ("NCCL's model to 64 KiB, by this floor", fit.model),
            ("NCCL's model to 64 KiB, by the other logs", fit.others),
        ]
        shown = [
            (name, f"{errors['median']:.1%}", f"{errors['p90']:.1%}")
            for name, errors in rows
            if errors is not None
        ]
        if shown:
            yield Table(("left out", "median error", "90th percentile"), shown)
    if found.hops is not None:
        yield Facts(
            ("of all logs", "small sizes of several numbers of ranks"),
            *(
                (words, f"{value:.3g} us ({low:.3g} to {high:.3g})")
                for words, name in _HOPS.items()
                for value in [getattr(found.hops, name)]
                if value is not None
                for low, high in [found.hops.intervals[name]]
            ),
        )
    machine = found.machine
    nic = machine.numbers["nic_us"]
    yield Facts(
        ("machine", machine.name),
        ("latency of NICs", f"{nic.each[0]:.3g} us ({nic.kind}: {nic.source})"),
        ("written to", out),
    )
    if found.not_identified:
        yield "Not identified:"
        yield from (f"  {what}" for what in found.not_identified)


def _with_limits(fit: Fit, name: str, value: float, unit: str) -> str:
    limits = fit.intervals.get(name)
    within = "" if limits is None else f" ({limits[0]:.4g} to {limits[1]:.4g})"
    return f"{value:.4g}{unit}{within}"


def _groups(probes: Probes) -> Any:
    from ocs_codesign.interop.run.measuring import groups_of

    return groups_of(probes.latency_s)


made(
    "machines.measured",
    groups=_groups,
    latency_us=lambda probes: 1e6 * probes.latency_s,
    machine=lambda _, machine: machine.record(),
)


def measured_sections(probes: Probes, machine: RealMachine) -> Iterator[Section]:
    """The same for people."""
    yield Facts(("measured", machine.title), ("by", probes.library))
    rows = [
        (
            name,
            f"{number.each[0]:.4g}",
            "" if limits is None else f"{limits[0]:.4g} to {limits[1]:.4g}",
        )
        for name, number in machine.numbers.items()
        for limits in [number.interval]
        if number.kind == "measured" and name != "nic_us"
    ]
    yield Table(("number", "value", "middle half"), rows)
