"""How many predictions a processor makes in a second: a model on every device, precision and layout, as arrays."""

from __future__ import annotations

import time

from twinlens.planning.prediction.band import shipped
from twinlens.planning.prediction.place import Layout, rates_of
from twinlens.planning.prediction.serving import closed_loop
from twinlens.planning.prediction.work import stacked, stored, work_of
from twinlens.spec.device import list_devices, load_device
from twinlens.spec.model.reference import load_model
from twinlens.spec.model.shape import DecoderShape

PRECISIONS = ("bf16", "fp8", "int8", "nvfp4", "int4")


def main(model: str = "llama-3.1-405b", most: int = 64) -> None:
    shape = load_model(model).shape
    assert isinstance(shape, DecoderShape)
    tensors = [degree for degree in (1, 2, 4, 8, 16, 32, 64) if shape.heads % degree == 0]
    stages = [degree for degree in range(1, most + 1) if shape.layers % degree == 0]
    layouts = [Layout(tensor, pipeline=stage) for tensor in tensors for stage in stages if tensor * stage <= most]
    begin = time.process_time()
    rows = []
    for device in map(load_device, list_devices()):
        for precision in PRECISIONS:
            kept = stored(precision, shape)
            rates, work = rates_of(device, kept), work_of(shape, kept)
            rows += [(work, rates, layout) for layout in layouts]
    works, rates, places = (stacked(list(column)) for column in zip(*rows, strict=True))
    made = time.process_time()
    closed_loop(works, rates, places, shipped()["serving"].constants.at(()), 64.0, 1024.0, 512.0)
    done = time.process_time()
    print(f"{model}: {len(rows):,} candidates, {made - begin:.2f} s to set up, {done - made:.3f} s to predict")
    print(f"{len(rows) / (done - made):,.0f} predictions/s of processor time, {done - begin:.2f} s in all")


if __name__ == "__main__":
    main()
