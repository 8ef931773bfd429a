"""A simulated server from words: its law and its rules as those of a simulation, and who it answers."""

from __future__ import annotations

from collections.abc import Callable

from twinlens.api.questions import SimulateServed
from twinlens.api.simulating.basis import basis_of
from twinlens.api.simulating.fleets import engines_of, routing_of
from twinlens.api.simulating.settings import settings_of
from twinlens.simulation.noise import Noise
from twinlens.simulation.server.entry import Settings, Told, serve_openai
from twinlens.spec.load import load


def serve(asked: SimulateServed, started: Callable[[str], None]) -> Told:
    """Serve until Ctrl-C. `started` is told the address. Raises BadInput (TL245, TL246, TL250), before any work."""
    said = settings_of(asked.set_)
    spec = load(asked.spec, said.spec).point_runs()[0]
    basis = basis_of(asked.like, asked.law, asked.device, spec, said, asked.devices)
    settings = Settings(
        spec.workload.model,
        asked.host,
        asked.port,
        asked.speed,
        asked.fail,
        asked.fail_seed,
        asked.answer_tokens,
        asked.tokenizer,
        engines_of(asked.replicas),
        routing_of(asked),
    )
    noise = None if basis.noise is None else Noise(basis.noise, asked.fail_seed)
    return serve_openai(basis.law, basis.rules, settings, noise=noise, started=started)
