"""Residual networks of bottleneck blocks: parameters and operations of their convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.workload.models.layer import Block, ModelOnRanks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.workload.models.parallel import Parallel

_EXPANSION = 4


@final
@dataclass(frozen=True, slots=True)
class ResidualNetwork:
    """Bottleneck blocks, so many in each of four stages, on square images (He et al., 2016).

    ``batch`` images an iteration of all ranks together. Normalisations count as parameters.

    >>> resnet50 = ResidualNetwork((3, 4, 6, 3), 224, 1000, 256)
    >>> resnet50.num_parameters, round(resnet50.multiplications / 1e9, 2)
    (25557032, 4.09)
    """

    blocks: tuple[int, ...]
    image: int
    classes: int
    batch: int
    element_bytes: int = 2

    def __post_init__(self) -> None:
        if not self.blocks or min(self.blocks) < 1 or max(self.blocks) > 1000:
            raise ValueError(f"blocks is {list(self.blocks)}: every stage has from 1 to 1000")
        for name in ("image", "classes", "batch", "element_bytes"):
            if not 1 <= getattr(self, name) <= 2**30:
                raise ValueError(f"{name} is {getattr(self, name)}: it is at least 1")
        if self.image % (4 * 2 ** (len(self.blocks) - 1)):
            raise ValueError(f"image is {self.image}: every stage halves its sides once more")

    @property
    def num_parameters(self) -> int:
        """All parameters."""
        return sum(parameters for _, parameters, _, _ in self._convolutions())

    @property
    def multiplications(self) -> int:
        """Multiplications and additions, a pair counted once, of one image forward."""
        return sum(products for _, _, products, _ in self._convolutions())

    def on_ranks(self, parallel: Parallel) -> ModelOnRanks:
        """What a rank computes and sends; ValueError unless only copies and ZeRO divide it."""
        if parallel.tensor * parallel.expert * parallel.pipeline * parallel.chunks > 1:
            raise ValueError("a residual network is divided by data alone")
        per_microbatch = parallel.data * parallel.microbatches
        if self.batch % per_microbatch:
            raise ValueError(
                f"batch is {self.batch}: data times microbatches, {per_microbatch}, does not divide"
            )
        images = self.batch // per_microbatch
        layers = tuple(
            (
                Block(
                    name,
                    parameters,
                    2.0 * products * images,
                    float((parameters + moved * images) * self.element_bytes),
                ),
            )
            for name, parameters, products, moved in self._convolutions()
        )
        return ModelOnRanks("residual network", layers, 0, self.element_bytes, self.num_parameters)

    def _convolutions(self) -> Iterator[tuple[str, int, int, int]]:
        """Name, parameters, multiplications, and numbers moved, of an image, layer by layer."""
        side = self.image // 2
        yield "stem", 7 * 7 * 3 * 64 + 2 * 64, 7 * 7 * 3 * 64 * side * side, 64 * side * side
        side //= 2
        channels = 64
        for stage, count in enumerate(self.blocks):
            width = 64 * 2**stage
            for number in range(count):
                stride = 2 if stage and not number else 1
                name = f"stage {stage + 1}"
                yield _one(name, 1, channels, width, side)
                side //= stride
                yield _one(name, 3, width, width, side)
                yield _one(name, 1, width, width * _EXPANSION, side)
                if not number:
                    yield _one(name, 1, channels, width * _EXPANSION, side)
                channels = width * _EXPANSION
        yield "classes", (channels + 1) * self.classes, channels * self.classes, channels


def _one(name: str, kernel: int, inner: int, outer: int, side: int) -> tuple[str, int, int, int]:
    """A convolution and its normalisation, by the side of what comes out."""
    weights = kernel * kernel * inner * outer
    return name, weights + 2 * outer, weights * side * side, (inner + outer) * side * side
