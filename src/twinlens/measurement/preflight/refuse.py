"""Refuse what cannot be run before anything is started, made or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twinlens.errors import BadInput
from twinlens.executors.refuse import refuse_not_installed, refuse_unsupported
from twinlens.executors.registry import capabilities, executor, launcher
from twinlens.measurement.preflight.idle_gpu import (
    refuse_lacking_precision,
    refuse_too_few_gpus,
    refuse_unusable_gpu,
    uses_gpu,
)
from twinlens.measurement.preflight.impossible import refuse_impossible
from twinlens.measurement.preflight.memory import refuse_what_cannot_fit, refuse_what_cannot_fit_together
from twinlens.measurement.preflight.saves import refuse_saves
from twinlens.measurement.refused import is_refusal
from twinlens.measurement.server.fault import refuse_stall_elsewhere
from twinlens.network.target import client_pool_of
from twinlens.schedule.split import refuse_unshared
from twinlens.spec.study import RunSpec, Study

Lacking = Mapping[str, BadInput]
"""The reason why a point cannot be had here, by its fingerprint (`RunSpec.point_fingerprint`)."""


def preflight(study: Study) -> Lacking:
    """The reason why a study cannot run, before anything begins: the same for `check` and for `measure`.

    Raises BadInput as `refuse_points`, and (TL211) where points that are up together do not fit together.
    """
    specs = study.point_runs()
    lacking = refuse_points(specs)
    if lacking and study.search is not None:  # a search has no run that could go on record as refused
        raise BadInput(sentences(lacking)[0], code="TL203")
    if study.protocol.pairing == "slices":
        refuse_what_cannot_fit_together([spec for spec in specs if spec.point_fingerprint() not in lacking])
    return lacking


def sentences(lacking: Lacking) -> tuple[str, ...]:
    """Each reason once."""
    return tuple(dict.fromkeys(map(str, lacking.values())))


def refuse_points(specs: Sequence[RunSpec]) -> Lacking:
    """The reason why some of the points cannot run.

    Raises BadInput for what ends a study, and where none of its points can be had. A precision that only some lack does
    not end it, nor a runtime that is not installed where the spec leaves such points out: those runs go on record as
    refused.
    """
    lacking: dict[str, BadInput] = {}
    for spec in specs:
        if error := _lacking(spec):
            lacking[spec.point_fingerprint()] = error
    if lacking and len(lacking) == len(specs):
        raise next(iter(lacking.values()))
    return lacking


def _lacking(spec: RunSpec) -> BadInput | None:
    """Raises BadInput for what ends a study: last of all that its runtime is not installed, else a wrong option of it
    would be named only after an installation."""
    if spec.protocol.not_installed == "refuse":
        if (error := _not_to_be_had(spec)) is None:
            refuse_not_installed(spec)
        return error
    try:
        refuse_not_installed(spec)
    except BadInput as error:
        return error
    return _not_to_be_had(spec)


def _not_to_be_had(spec: RunSpec) -> BadInput | None:
    """Raises BadInput for what is no matter of this machine."""
    try:
        refuse_what_cannot_run(spec)
    except BadInput as error:
        if not is_refusal(error):
            raise
        return error
    return None


def _of_this_machine(spec: RunSpec) -> RunSpec:
    """An exchange whose device is chosen here, with the processor where it will be that: gloo cannot do all of them."""
    if spec.lens != "collective" or spec.device.kind != "auto" or spec.executor.options.get("on"):
        return spec
    if uses_gpu(spec.device):
        return spec
    return spec.model_copy(update={"executor": spec.executor.model_copy(update={"device": "cpu"})})


def refuse_what_cannot_run(spec: RunSpec) -> None:
    """Raises BadInput for a run that does not fit this machine, or asks for what does not go together."""
    refuse_unsupported(spec)
    refuse_impossible(spec)
    refuse_unusable_gpu(spec)
    refuse_lacking_precision(spec)
    if (starter := launcher(spec.executor.kind)) is not None:
        starter.key(spec)  # its command line, which says what cannot be served, at which precision and on which GPU
    if (divide := executor(spec.executor.kind).degrees) is not None:
        refuse_too_few_gpus(spec, divide(_of_this_machine(spec)).ranks)
    refuse_what_cannot_fit(spec)
    refuse_saves(spec)
    refuse_stall_elsewhere(spec)
    if spec.protocol.pairing == "slices" and capabilities(spec.executor.kind).runs == "recorded":
        raise BadInput(
            'protocol.pairing = "slices": a recorded run is not measured again, so it cannot take turns',
            code="TL202",
        )
    if spec.lens != "inference":
        return
    pool = client_pool_of(spec.executor.options)
    if spec.protocol.guards and not pool.is_one:
        raise BadInput("guards sample every answer, which needs one client: clients = 1 and no --on", code="TL202")
    if spec.protocol.pairing == "slices" and not pool.is_one:
        raise BadInput(
            'protocol.pairing = "slices": one client plays every turn; leave out executor.options.clients and '
            "executor.options.on",
            code="TL202",
        )
    if isinstance(pool.clients, int) and pool.clients > 1:
        refuse_unshared(spec, pool.clients)
