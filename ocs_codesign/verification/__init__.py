"""Every checker of everything. It imports core only and shares no code with what makes things.

A verdict says ok, or names the first witness against it: ``verify`` for schedules on a topology,
``verify_on`` on a network, ``check_forest``, ``check_messages``, ``verify_program`` for circuits
that change, ``check_simulated`` for the clock, rank_programs for what runs on machines.

Read sends (who holds what, replayed) and schedules first; each further module is one kind of thing.
The package is not called verify, since that is the name of the function that everyone calls.

>>> import ocs_codesign as oc
>>> oc.verify(oc.bfb("Complete(4)")).ok
True
"""

from __future__ import annotations

from ocs_codesign.core.registry import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "circuits": "ProgramVerdict check_timed check_timeline verify_program",
        "forests": "check_forest",
        "messages": "check_messages",
        "schedules": "Verdict verify verify_on",
        "sends": "Witness",
        "simulated": "check_simulated",
    },
)
