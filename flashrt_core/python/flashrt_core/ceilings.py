# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""What a device can do at most: the measured rates that times are compared with."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashrt_core._core import CallReport


@dataclass(frozen=True)
class Ceilings:
    """Rates of one device: memory and matrix products of large operands, measured on it."""

    bytes_per_s: float
    flops_per_s: dict[str, float]  # by the type of the factors

    def milliseconds(self, flops: float, product: str, bytes_moved: float) -> float | None:
        """The shortest time that the rates allow; None where a rate is not known."""
        if flops and product not in self.flops_per_s:
            return None
        arithmetic = flops / self.flops_per_s[product] if flops else 0.0
        return max(arithmetic, bytes_moved / self.bytes_per_s) * 1e3


# Read bandwidth of 2 GB by bulk copies; products of 4096 x 8192 x 8192 by cuBLASLt, those of e4m3 with fast
# accumulation.
CEILINGS = {
    'NVIDIA H200': Ceilings(4575e9, {'e4m3': 1526e12, 'bf16': 794e12, 'f16': 794e12}),
}


@dataclass(frozen=True)
class Work:
    """What some calls have to do, over all their iterations."""

    flops: dict[str, float]  # by the type of the factors
    weight_bytes: float
    activation_bytes: float

    @property
    def bytes_moved(self) -> float:
        return self.weight_bytes + self.activation_bytes

    def floor_ms(self, ceilings: Ceilings | None) -> float | None:
        """Memory and products overlap within one call, so the floor of a call is the larger of the two."""
        if ceilings is None:
            return None
        floors = [ceilings.milliseconds(flops, product, 0) for product, flops in self.flops.items()]
        if any(floor is None for floor in floors):
            return None
        return max(sum(floors), ceilings.milliseconds(0, '', self.bytes_moved))


def work_of(call: 'CallReport', joined: list['CallReport']) -> Work:
    """Of one call and those whose work its kernel does: what it wrote for them never leaves the kernel."""
    flops: dict[str, float] = {}
    weights = activations = 0.0
    written_before = 0.0
    for part in [call, *joined]:
        if part.flops:
            flops[part.product] = flops.get(part.product, 0.0) + part.flops * part.repeat
        weights += part.weight_bytes * part.repeat
        activations += (part.read_bytes + part.written_bytes) * part.repeat
        activations -= 2 * written_before * part.repeat
        written_before = part.written_bytes
    return Work(flops, weights, activations)
