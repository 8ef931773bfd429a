"""What each check's answer should be, as pure functions of plain data: the same for a device and for a dry run.

Bounds are wide on purpose: they are to catch a clock of the wrong board, a cache, a processor's time in the place of a
GPU's, and not to grade a card.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["as expected", "not as expected", "not seen"]
Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """One expectation and what was seen of it."""

    expected: str
    seen: str
    verdict: Verdict


def line(expected: str, seen: Any, fits: bool | None) -> Line:
    """`fits` None: it could not be seen."""
    return Line(expected, str(seen), "not seen" if fits is None else "as expected" if fits else "not as expected")


def within(expected: str, value: float | None, low: float, high: float) -> Line:
    """A number that should lie in a range, both ends included."""
    text = f"{expected}: {low:g} to {high:g}"
    return line(text, "absent" if value is None else f"{value:.4g}", None if value is None else low <= value <= high)


def machine(a: Answer) -> Iterator[Line]:
    yield line("torch can use the GPU", a["why_not"] or a["name"], a["why_not"] is None)
    yield line("`auto` is the GPU", a["auto"], str(a["auto"]).startswith("cuda"))
    known = a["nvml_uuids"] or None
    yield line("torch's board is among NVML's, by UUID", a["uuid"], None if known is None else a["uuid"] in known)
    yield line("MIG is off (on: power and memory of a slice are another matter)", a["mig"], a["mig"] in ("off", "no"))
    yield line("probe's device facts name the board", a["product"], a["product"] == a["name"])


def profiler(a: Answer) -> Iterator[Line]:
    yield within("operators' time over that of the kernels (each once)", a["operator_s"] / a["device_s"], 0.98, 1.02)
    yield within("that over the time between two events", a["device_s"] / a["event_s"], 0.7, 1.1)
    yield line("products are seen as bf16", a["formats"], a["formats"].get("bf16", 0.0) > 0.99)
    runtime = [name for name in a["selected"] if name.startswith(("cuda", "aten"))]
    yield line("kernels, not calls, are selected", a["selected"], not runtime)


def gpm(a: Answer) -> Iterator[Line]:
    if a["why_not"] is not None:
        old = tuple(a["capability"]) < (9, 0)
        yield line("a board before Hopper has no GPM, and a later one has", a["why_not"], old)
        return
    product, copy = a["product"], a["copy"]
    yield within("tensor pipes are busy beside a product", product.get("tensor_active"), 0.5, 1.0)
    yield within("and of half precision", product.get("hmma_active"), 0.5, 1.0)
    yield within("DRAM is less busy there than beside a copy", product.get("dram_active"), 0.0, 0.5)
    yield within("DRAM is busy beside a copy", copy.get("dram_active"), 0.6, 1.0)
    yield within("tensor pipes are idle beside a copy", copy.get("tensor_active"), 0.0, 0.02)
    yield within("the product's rate while they are read, over without", a["rate_ratio"], 0.99, 1.01)
    yield within("seconds a reading takes", a["read_s"], 0.0, 0.02)


def counters(a: Answer) -> Iterator[Line]:
    told, products = a["reading"].get("counters", {}), a["products"]
    yield line("NVML shows the board", a["why_not"] or a["reading"]["device"], a["why_not"] is None)
    for name in ("ecc_corrected", "ecc_uncorrected", "xid", "pcie_replays", "pcie_width", "pcie_generation"):
        yield line(f"{name} is read", told.get(name, a["reading"].get("missing", {}).get(name)), name in told)
    yield line("products in fp32 and bf16 have digests", products, bool(products) and len(products[0]) == 2)
    yield line("two processes give the same bits", products, len(products) == 2 and products[0] == products[1])


def tf32(a: Answer) -> Iterator[Line]:
    for one in a["products"]:
        what = f"{one['flag']} at {one['shape']}"
        if one["flag"] == "fp32":
            yield line(f"{what}: fp32 by arithmetic", one["arithmetic"], one["arithmetic"] == "fp32")
        elif "gemv" in one["shape"]:
            yield line(
                f"{what}: either, and it is known which", one["arithmetic"], one["arithmetic"] in ("fp32", "tf32")
            )
        elif min(one["sizes"]) >= 2048:
            yield line(f"{what}: tf32 by arithmetic", one["arithmetic"], one["arithmetic"] == "tf32")
        share = one["tf32_by_name"]
        agrees = None if share is None else (share > 0.5) == (one["arithmetic"] == "tf32")
        yield line(f"{what}: kernels' names say the same", f"{share} of {one['kernels']}", agrees)


def vision(a: Answer) -> Iterator[Line]:
    for precision, one in a["runs"].items():
        wanted = "tf32" if precision == "tf32" else "ieee"
        yield line(f"{precision}: convolutions are set to {wanted}", one["cudnn.conv"], one["cudnn.conv"] == wanted)
        yield line(f"{precision}: compute is what was declared", one["evidence"], one["verdict"] == "agrees")
    tf = a["runs"].get("tf32", {})
    yield line(
        "the tf32 run differs from its fp32 reference", tf.get("kl"), None if not tf else (tf.get("kl") or 0) > 0
    )


def sustained(a: Answer) -> Iterator[Line]:
    rates = a["flop_per_s"]
    last = sum(rates[5:]) / len(rates[5:])
    yield within("rate of seconds 6-10 over that of the first", last / rates[0], 0.5, 1.05)
    yield within("our sustained ceiling over that", a["ceiling"] / last, 0.93, 1.07)
    yield within("our burst over our sustained ceiling", a["burst"] / a["ceiling"], 0.95, 2.0)
    yield within("sustained over the datasheet", _over(a["ceiling"], a.get("datasheet")), 0.4, 1.05)
    yield line("the clock was read each second", a["mhz"], None if not a["mhz"] else len(set(a["mhz"])) >= 1)


def probe(a: Answer) -> Iterator[Line]:
    for one in a["probes"]:
        size = one["fp32_size"]
        yield line("the fp32 rate is not from 256 squared", size, None if size is None else size >= 4096)
    first, second = a["probes"]
    for name in ("fp32", "bf16", "read"):
        yield within(f"{name}: second probe over first", _over(second[name], first[name]), 0.85, 1.18)
    yield within("reading over the datasheet", _over(first["read"], a.get("datasheet_bytes_per_s")), 0.5, 1.05)


def memory(a: Answer) -> Iterator[Line]:
    yield line("too large an allocation is known as out of memory", a["type"], a["is_out_of_memory"])
    yield within("peak after forgetting over what was then allocated", a["peak"] / a["allocated"], 0.99, 1.01)
    yield line("a run that cannot fit is one sentence", a["sentence"], "it does not fit" in a["sentence"])


def _run(a: Answer) -> Iterator[Line]:
    yield line("the run finished", a["state"], a["state"] == "finished")
    for check in a["checks"]:
        if check["class"] in ("compute", "weights", "activations"):
            seen = f"{check['observed']}: {check['evidence']}"
            fits = None if check["verdict"] == "unknown" else check["verdict"] == "agrees"
            yield line(f"{check['class']} is {check['declared']}", seen, fits)
    peak, allocated = a["metrics"].get("peak_bytes"), (a["device_memory"] or {}).get("allocated_peak_bytes")
    yield line("peak memory is the allocator's", peak, None if peak is None else peak == allocated)
    board = a.get("board_bytes")
    yield line(
        "and not above what the board had in use", board, None if not board or not peak else peak <= 1.02 * board
    )


def training(a: Answer) -> Iterator[Line]:
    yield from _run(a)
    found = a["metrics"]
    yield within("data_share (batches are drawn ahead)", found.get("data_share"), 0.0, 0.03)
    yield within("unattributed_share (one wait a step)", found.get("unattributed_share"), 0.0, 0.05)
    yield within("MFU", found.get("mfu"), 0.2, 1.0)
    yield within("HFU over MFU (no recomputation but the scores)", _over(found.get("hfu"), found.get("mfu")), 1.0, 1.15)
    yield within("FLOP coverage", found.get("flop_coverage"), 1.0, 1.0)
    yield within("mean power, W", found.get("mean_power_w"), 100, 1.1 * (a.get("tdp_w") or 1000))
    yield within("sampled power over the energy counter", a.get("power_over_counter"), 0.95, 1.05)


def decode(a: Answer) -> Iterator[Line]:
    yield from _run(a)
    graphs = a["facts"].get("serving.graphs")
    yield line("CUDA graphs were captured", graphs, graphs == "CUDA graphs captured")
    breaks = a["facts"].get("kernels.graph_breaks")
    yield line("no graph breaks", breaks, None if breaks is None else breaks["count"] == 0)
    yield within("MBU", a["metrics"].get("mbu"), 0.3, 1.0)
    yield within("share of mat-vec rate", a["metrics"].get("matvec_share"), 0.5, 1.05)
    yield within("first answer over the median (nothing compiles in a row)", a.get("first_over_median"), 0.5, 1.5)


def fp8_inference(a: Answer) -> Iterator[Line]:
    for one in a["runs"]:
        yield from (Line(f"{one['what']}: {said.expected}", said.seen, said.verdict) for said in _run(one))
    tpot = {one["what"]: one["metrics"].get("tpot_s_p50") for one in a["runs"]}
    yield within(
        "batch 1, compiled: bf16's TPOT over fp8's", _over(tpot.get("bf16 batch 1"), tpot.get("fp8 batch 1")), 1.05, 2.1
    )


def fp8_training(a: Answer) -> Iterator[Line]:
    for one in a["runs"]:
        yield from (Line(f"{one['what']}: {said.expected}", said.seen, said.verdict) for said in _run(one))
    rates = {one["what"]: one["metrics"].get("training_tokens_per_s") for one in a["runs"]}
    yield within("compiled fp8 over bf16", _over(rates.get("fp8 compiled"), rates.get("bf16 compiled")), 0.9, 1.8)


def int8_weight(a: Answer) -> Iterator[Line]:
    yield line("int8-weight is refused on a GPU with a way out", a["sentence"], "no fast kernel" in a["sentence"])


def second_gpu(a: Answer) -> Iterator[Line]:
    if a["count"] < 2:
        yield line("the ceilings of cuda:1 are those of cuda:0", f"{a['count']} GPU", None)
        return
    for name in ("read", "bf16"):
        yield within(f"{name} of cuda:1 over cuda:0", a["second"][name] / a["first"][name], 0.85, 1.18)
    yield line("no context was opened on cuda:0", a["bytes_on_first"], a["bytes_on_first"] == 0)


def tests(a: Answer) -> Iterator[Line]:
    if a["code"] is not None:
        yield line("`pytest -m gpu` passes", a["last_line"], a["code"] == 0)
    for name in a["failed"]:
        yield line("a test passes", name, False)
    yield line("tests that passed", a["passed"], a["passed"] > 0)
    unmeant = [text for text in a["skipped"] if not any(word in text for word in MEANT)]
    yield line("none was skipped but for a second GPU, or what `make` does not install", unmeant, not unmeant)


MEANT = ("torchao", "second GPU", "two GPUs", "not installed", "could not import", "needs an engine")
"""Words of a reason to skip a test of a GPU that are no fault of it."""


def server(a: Answer) -> Iterator[Line]:
    yield from _on(a, 1)


def replicas(a: Answer) -> Iterator[Line]:
    one, two = a["one"], a["two"]
    for what, run, count in (("one replica", one, 1), ("two replicas", two, 2)):
        yield from (Line(f"{what}: {said.expected}", said.seen, said.verdict) for said in _on(run, count))
    told = (two.get("replicas") or {}).get("replicas", [])
    gpus = [each["gpus"] for each in told]
    yield line("each replica was given a board of its own", gpus, len(gpus) == 2 and len(set(gpus)) == 2)
    yield line("both were asked", [each["requests"] for each in told], all(each["requests"] for each in told))
    rate = [run["metrics"].get("output_tokens_per_s") for run in (one, two)]
    yield within("output tokens/s of two over one", _over(rate[1], rate[0]), 0.8, 2.3)


def exchanges(a: Answer) -> Iterator[Line]:
    yield line("NCCL", a["backend"], a["backend"] == "nccl")
    yield line("a rank for each board", a["ranks"], a["ranks"] == a["boards_here"])
    sizes = [row["size_bytes"] for row in a["rows"]]
    yield line("exchanges of a gigabyte were timed", max(sizes, default=0), max(sizes, default=0) >= 2**30)
    best = max((row["bus_bytes_per_s"] for row in a["rows"] if row["kind"] == "all-reduce"), default=None)
    low, high = _of_link(a["link"])
    yield within(f"bus bandwidth of all-reduces over {a['link']}, bytes/s", best, low, high)
    yield line("no link is slow", a["findings"], "slow-link" not in a["findings"])


def collectives(a: Answer) -> Iterator[Line]:
    low, high = _of_link(a["link"])
    for one in a["runs"]:
        yield line(f"{one['what']} bytes: the run finished", one["state"], one["state"] == "finished")
        large = int(one["what"]) >= 2**30
        known = one["metrics"].get("bus_bytes_per_s")
        yield within(f"{one['what']} bytes: bus bandwidth", known, low if large else 1e8, high)


def parallel(a: Answer) -> Iterator[Line]:
    for one in a["runs"]:
        yield from (Line(f"{one['what']}: {said.expected}", said.seen, said.verdict)
                    for said in _on(one, a["boards_here"]))  # fmt: skip
        facts, what = one["facts"], one["what"]
        yield line(f"{what}: the record counts every board", facts["accelerator.count"],
                   facts["accelerator.count"] == a["boards_here"])  # fmt: skip
        power = one["metrics"].get("mean_power_w")
        yield within(f"{what}: mean power of all boards, W", power, 60.0 * a["boards_here"], 1300.0 * a["boards_here"])
        if (mfu := one["metrics"].get("mfu")) is not None:
            yield within(f"{what}: MFU", mfu, 0.01, 1.0)


def more(a: Answer) -> Iterator[Line]:
    """Runs that finish on one board; one that is refused, as for what is not installed, was not seen."""
    for one in a["runs"]:
        refused = one["state"].startswith("refused")
        yield line(f"{one['what']}: the run finished", one["state"], None if refused else one["state"] == "finished")
        for check in one["checks"]:
            if check["class"] in ("compute", "weights") and check["verdict"] != "unknown":
                declared, seen = check["declared"], f"{check['observed']}: {check['evidence']}"
                yield line(f"{one['what']}: {check['class']} is {declared}", seen, check["verdict"] == "agrees")
        used = one["facts"].get("accelerator.uuid")
        yield line(f"{one['what']}: it is charged with 1 board", used, None if used is None else len(set(used)) == 1)


def adapters(a: Answer) -> Iterator[Line]:
    yield from more(a)
    peaks = {one["what"]: one["metrics"].get("peak_bytes") for one in a["runs"]}
    yield within("peak memory of QLoRA over LoRA's", _over(peaks.get("qlora"), peaks.get("lora")), 0.2, 1.0)


def saves(a: Answer) -> Iterator[Line]:
    yield from more(a)
    blocked = {one["what"]: one["metrics"].get("save_blocked_s") for one in a["runs"]}
    yield within("time that an async save blocks over a sync one's", _over(blocked.get("async"), blocked.get("sync")),
                 0.0, 1.0)  # fmt: skip


def watched(a: Answer) -> Iterator[Line]:
    yield from _on(a, 2)


def _on(run: Answer, boards: int) -> Iterator[Line]:
    """A run that finished, on so many boards."""
    yield line("the run finished", run["state"], run["state"] == "finished")
    used = run["facts"].get("accelerator.uuid")
    yield line(f"it is charged with {boards} boards", used, None if used is None else len(set(used)) == boards)


def _of_link(link: str) -> tuple[float, float]:
    """Bytes/s that an all-reduce of a gigabyte may reach: over NVLink of any generation, or over PCIe."""
    return (6e10, 1e12) if "NVLink" in link else (1e9, 7e10)


def _over(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


JUDGES: dict[str, Callable[[Answer], Iterator[Line]]] = {
    "machine": machine,
    "profiler": profiler,
    "gpm": gpm,
    "counters": counters,
    "tf32": tf32,
    "sustained": sustained,
    "probe": probe,
    "memory": memory,
    "training": training,
    "decode": decode,
    "fp8-inference": fp8_inference,
    "fp8-training": fp8_training,
    "int8-weight": int8_weight,
    "second-gpu": second_gpu,
    "vision": vision,
    "tests": tests,
    "server": server,
    "replicas": replicas,
    "exchanges": exchanges,
    "collectives": collectives,
    "parallel": parallel,
    "deepspeed": parallel,
    "watched": watched,
    "adapters": adapters,
    "saves": saves,
    "vllm": more,
    "tensorrt": more,
}
