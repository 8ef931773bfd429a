"""Resolve a spec into the configuration of one server: threads, context, names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twinlens.errors import BadInput
from twinlens.executors.launch.model_folder import servable, stored_in
from twinlens.executors.launch.options import Settings
from twinlens.executors.launch.recipe import LOOPBACK, LaunchConfig, Recipe
from twinlens.executors.launch.switch import words_of
from twinlens.executors.quantise.plan import PLANS
from twinlens.spec.model.any_model import AnyModel
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import Images, InferenceWorkload
from twinlens.system.processes import usable_cores

_LEAST_CONTEXT, _USUAL_CONTEXT = 2048, 8192


def order_of(recipe: Recipe, spec: RunSpec, settings: Settings, *, folder: str, port: int) -> LaunchConfig:
    """Raises BadInput for a workload that no server can take, and for a missing GGUF file."""
    workload = spec.workload
    if not isinstance(workload, InferenceWorkload) or isinstance(workload.data, Images):
        raise BadInput(f"{recipe.kind} serves language models; take an inference workload of text", code="TL202")
    ref = servable(spec.model)
    if recipe.needs_gguf and not Path(settings.gguf).is_file():
        raise BadInput(
            f"{recipe.kind} reads GGUF files and Twinlens does not convert to them; name one in executor.options.gguf"
            + (f" ({settings.gguf!r} is no file)" if settings.gguf else ""),
            code="TL207",
        )
    if settings.quantiser and not recipe.quantised_here:
        raise BadInput(
            f"{recipe.kind} is given no folder that is quantised here; leave executor.options.quantiser out",
            code="TL207",
        )
    return LaunchConfig(
        spec=spec,
        python=settings.python,
        folder=folder,
        name={"alias": Path(ref.name).name, "folder": folder, "its own": ""}[recipe.called],
        port=port,
        threads=threads_of(spec.executor.threads, settings.cpus),
        context_tokens=context_of(ref, workload),
        args=(*words_of(recipe.switches, settings.switches), *settings.args),
        gguf=settings.gguf,
        stored=spec.point.precision if is_quantised_here(spec, settings) else stored_in(ref.folder, ref.config),
        cpus=settings.cpus,
        graph=settings.graph,
        switches=settings.switches,
        listen=LOOPBACK if settings.host == LOOPBACK else "0.0.0.0",
    )


def is_quantised_here(spec: RunSpec, settings: Settings) -> bool:
    """Whether its folder is made before the start: a quantiser is named, and the weights are wide as yet."""
    ref = spec.model
    return bool(settings.quantiser) and spec.point.precision in PLANS and not stored_in(ref.folder, ref.config)


def threads_of(asked: int, cpus: Sequence[int] = ()) -> int:
    """One per physical core that the server may use, unless asked otherwise."""
    return asked or usable_cores(len(cpus))


def context_of(ref: AnyModel, workload: InferenceWorkload) -> int:
    """Tokens a sequence may hold: twice the longest prompt and answer (words are not exactly tokens, and templates add
    some), and never above what the model has positions for. Where lengths are not known beforehand, 8,192."""
    longest = ref.context_tokens or _USUAL_CONTEXT
    if workload.sessions is not None or workload.arrival.kind == "trace":
        return min(longest, _USUAL_CONTEXT)
    needed = 2 * (workload.input_tokens.max + workload.output_tokens.max + 64)
    if workload.prefix is not None:
        needed += 2 * workload.prefix.tokens
    return min(longest, max(_LEAST_CONTEXT, needed))
