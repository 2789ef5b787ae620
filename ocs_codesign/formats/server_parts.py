"""Parts of files that describe servers: what joins their GPUs, and what NICs hang on."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from ocs_codesign.files.naming import shown
from ocs_codesign.formats.fabric.scalars import Bandwidth
from ocs_codesign.networks.cards import ACROSS, GPU, NIC, RAILS, SHARED, SWITCH, attached
from ocs_codesign.quantities import exact
from ocs_codesign.search.clusters.description import MESH, NETWORK, ONE_SWITCH, Inner

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_GPUS = 1024
MAX_NICS = 1024


def _places(value: Any) -> Any:
    if isinstance(value, list) and value and all(type(gpu) is int and gpu >= 0 for gpu in value):
        return tuple(value)
    if value not in (GPU, SHARED, SWITCH):
        raise ValueError(
            f"is {shown(value)}: write {GPU}, {SHARED}, {SWITCH} or a list of GPUs of the server"
        )
    return value


Places = Annotated[
    Any,
    BeforeValidator(_places),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": [GPU, SHARED, SWITCH]},
                {"type": "array", "items": {"type": "integer"}},
            ]
        }
    ),
]
Wiring = Literal["rails", "across"]
Relay = Literal["gpu", "nic"]
WIRING = f"{RAILS}: NIC r of every server is on rail r; {ACROSS}: all NICs are on one recipe."
RELAY = f"What data pass on the way: a {GPU}, or only a {NIC}, from port to port."


class ServerPart(BaseModel):
    """GPUs of a server and what joins them: one of switch, mesh and network."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    gpus: int | None = Field(None, ge=1, le=MAX_GPUS, description="GPUs of a server.")
    switch: Bandwidth | None = Field(None, description="Of every GPU to the inner switch.")
    mesh: Bandwidth | None = Field(None, description="Of the link between any two GPUs, each way.")
    network: str | None = Field(
        None, max_length=10_000, description="A network with a unit, such as mi250(1)."
    )

    @model_validator(mode="after")
    def _one_inner(self) -> ServerPart:
        self.inner()
        return self

    def inner(self) -> Inner:
        """What joins the GPUs; ValueError unless one is given."""
        ways = {ONE_SWITCH: self.switch, MESH: self.mesh, NETWORK: self.network}
        given = [kind for kind, value in ways.items() if value is not None]
        if len(given) != 1:
            what = " and ".join(given) + " are given" if given else "none is given"
            raise ValueError(f"must have one of {', '.join(ways)}: {what}")
        if self.network is not None:
            inner = Inner.of_network(self.network)
            if self.gpus not in (None, inner.num_gpus):
                raise ValueError(
                    f"must not have gpus {self.gpus}: the network has {inner.num_gpus}"
                )
            return inner
        if self.gpus is None:
            raise ValueError("must have gpus: how many has a server?")
        return Inner(given[0], self.gpus, exact(self.switch or self.mesh or 0.0))


class CardPart(BaseModel):
    """What a NIC, or several alike, hang on."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    count: int = Field(1, ge=1, le=MAX_NICS, description="How many such NICs a server has.")
    gpus: Places = Field(
        GPU,
        description=f"{GPU}: NIC r of R hangs on GPU r * G / R; {SHARED}: R NICs divide the GPUs; "
        f"{SWITCH}: on the inner switch; or a list of GPUs.",
    )
    host_bandwidth: Bandwidth | None = Field(
        None, description="Of the link to each of them; by default it is never the narrowest."
    )

    @property
    def host_Bps(self) -> Fraction | None:  # noqa: N802 - the unit keeps its case
        """The bandwidth of a link to a GPU, exactly."""
        return None if self.host_bandwidth is None else exact(self.host_bandwidth)


def places(cards: Sequence[CardPart], inner: Inner) -> list[tuple[int, ...]]:
    """The GPUs of every NIC in a row, none for the switch; ValueError for what does not fit."""
    wanted = [card.gpus for card in cards for _ in range(card.count)]
    network = inner.network()[0]
    by_word = {
        word: attached(word, network, len(wanted))
        for word in (GPU, SHARED, SWITCH)
        if word in wanted
    }
    each = [by_word[one][at] if isinstance(one, str) else one for at, one in enumerate(wanted)]
    return attached(each, network, len(wanted))
