"""The device mesh of a run: ranks by axis, and the part of the batch that each has. Needs torch."""

from __future__ import annotations

from typing import Any

from twinlens.executors.torch.parallel.options import ParallelOptions

DATA_AXES = ("replicate", "shard")


def mesh_of(options: ParallelOptions, device_type: str) -> Any:
    """torch's mesh with the axes of the options; ranks that split a layer are neighbours."""
    from torch.distributed.device_mesh import init_device_mesh

    axes = options.mesh
    return init_device_mesh(device_type, tuple(axes.values()), mesh_dim_names=tuple(axes))


def data_rank(mesh: Any) -> int:
    """This rank's place among those that see different data; ranks that split a layer share one."""
    place = 0
    for axis in DATA_AXES:
        if axis in (mesh.mesh_dim_names or ()):
            place = place * int(mesh[axis].size()) + int(mesh[axis].get_local_rank())
    return place
