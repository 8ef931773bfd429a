"""Links between devices, on their bus, and between machines: bandwidth of one device in one direction."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat

from twinlens.spec.frozen import Spec


class Link(Spec):
    """`one_way_bytes_per_s`: of one device, in one direction. Makers quote NVLink and Infinity Fabric both ways.

    `kind`: between devices of a machine, on the bus of one, or between machines.
    """

    name: Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[a-z0-9][a-z0-9.-]*$")]
    kind: Literal["device", "bus", "network"]
    one_way_bytes_per_s: Annotated[PositiveFloat, Field(le=1e14)]
    topology: Literal["switch", "mesh", "pairs", "bridge", "ring", "torus", "bus"]
    uncertain: str | None = None
    unverified: bool = False
    """It stands here from memory: no source of it was read."""
    source: str
