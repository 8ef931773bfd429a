"""Watch a training loop of your own: two lines around it, and it is a run like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.executors.own_loop.step_size import size_of
from twinlens.measurement.own_loop.loop import OwnLoop
from twinlens.measurement.own_loop.recording import Watching


def watch(
    model: Any = None,
    optimizer: Any = None,
    *,
    name: str = "own-loop",
    out: str | Path = "runs",
    precision: str | None = None,
    steady_s: float = 30.0,
    telemetry_s: float = 1.0,
    profile: bool = True,
    ceilings: bool = False,
) -> OwnLoop:
    """The loop inside `with tl.watch(model, optimizer) as run:` becomes a run folder under `out`.

    A row is one step of `optimizer`, which may be wrapped by accelerate or DeepSpeed. Take batches through
    `for batch in run.data(loader):` and the wait for them is known too. Without a model: `with run.step(samples=8):`.
    `precision`: the one that you mean it to have, which is then checked; else what is found. `steady_s`: the shortest
    window that may be called steady. `profile`: see the kernels of the second forward and backward pass, which slows
    it. `ceilings`: measure this device's rates when the loop is over, for MFU and the roofline; it takes seconds.
    Raises BadInput for a model or optimizer that is none, a name that makes no folder, and a folder that cannot be
    written. Once the loop runs, an error of ours ends the watching with a warning, and never the loop.
    """
    return OwnLoop(model, optimizer, Watching(name, Path(out), precision, steady_s, telemetry_s, profile, ceilings))


# A callback for the Trainer of transformers, which those of trl take too: its run becomes a run folder.


def trainer_callback(
    *,
    name: str = "trainer",
    out: str | Path = "runs",
    precision: str | None = None,
    steady_s: float = 30.0,
    telemetry_s: float = 1.0,
    profile: bool = True,
    ceilings: bool = False,
) -> Any:
    """For `Trainer(…, callbacks=[tl.trainer_callback()])`: each `train()` becomes a run, as `tl.watch` makes it.

    The options are those of `tl.watch`. Data is what lies between two steps and is no logging, evaluation or saving.
    A Trainer tells no callback that `train()` raised: such a run is ended when the process ends, or the next one
    begins. Raises BadInput (TL217) where transformers is not installed.
    """
    try:
        from twinlens.executors.torch.own_loop.trainer_events import trainer_events
    except ImportError:
        raise BadInput("tl.trainer_callback needs transformers: pip install 'twinlens[torch]'", code="TL217") from None
    how = Watching(name, Path(out), precision, steady_s, telemetry_s, profile, ceilings)

    return trainer_events(lambda model, optimizer: OwnLoop(model, optimizer, how).__enter__())


# A callback for Lightning's Trainer: its fit becomes a run folder.


def lightning_callback(
    *,
    name: str = "lightning",
    out: str | Path = "runs",
    precision: str | None = None,
    steady_s: float = 30.0,
    telemetry_s: float = 1.0,
    profile: bool = True,
    ceilings: bool = False,
) -> Any:
    """For `Trainer(…, callbacks=[tl.lightning_callback()])`: each `fit` becomes a run, as `tl.watch` makes it.

    The options are those of `tl.watch`. Lightning's optimizer runs forward and backward inside its own step, so both
    are taken from its events and not from hooks on the model; they are known under automatic optimisation. Data is what
    lies between two batches and is no validation. Raises BadInput (TL217) where Lightning is not installed.
    """
    how = Watching(name, Path(out), precision, steady_s, telemetry_s, profile, ceilings, events=True)

    class Watch(_callback_class()):  # type: ignore[misc]
        """Tells the log of each phase as Lightning says it."""

        loop: OwnLoop | None = None
        since: Any = None

        def on_train_start(self, trainer: Any, module: Any) -> None:
            self.loop = OwnLoop(module, trainer.optimizers[0], how).__enter__()
            self._tell(self._mark)

        def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, *_: Any) -> None:
            self._tell(self._batch, batch)

        def on_before_backward(self, trainer: Any, module: Any, loss: Any) -> None:
            self._tell(self._forward_over, loss)

        def on_after_backward(self, trainer: Any, module: Any) -> None:
            self._tell(self._backward_over)

        def on_train_batch_end(self, *_: Any) -> None:
            self._tell(self._mark)

        def on_validation_start(self, *_: Any) -> None:
            self._tell(self._mark)

        def on_validation_batch_start(self, trainer: Any, module: Any, batch: Any, *_: Any) -> None:
            self._tell(lambda log: log.set_aside(*(size_of(batch) or (0, 0))))

        def on_validation_end(self, trainer: Any, module: Any) -> None:
            self._tell(self._validated, trainer.callback_metrics.get("val_loss"))

        def on_train_end(self, *_: Any) -> None:
            self._leave(None)

        def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
            self._leave(exception)

        def _tell(self, what: Any, *values: Any) -> None:
            if self.loop is not None:
                self.loop.guard(what)(self.loop.log, *values)

        def _mark(self, log: Any) -> None:
            self.since = log.moments.now()

        def _batch(self, log: Any, batch: Any) -> None:
            log.spent("data", self.since, log.moments.now())
            self.loop.pass_begins()  # type: ignore[union-attr]
            if (size := size_of(batch)) is not None:
                log.counted(*size)
            self._mark(log)

        def _forward_over(self, log: Any, loss: Any) -> None:
            now = log.moments.now()
            log.spent("forward", self.since, now)
            log.lost(loss.detach(), summed=True)  # Lightning has divided it by the batches of the step
            self.since = now

        def _backward_over(self, log: Any) -> None:
            log.spent("backward", self.since, log.moments.now())
            self.loop.pass_ended()  # type: ignore[union-attr]

        def _validated(self, log: Any, loss: Any) -> None:
            log.evaluated(self.since, log.moments.now(), 0, 0, None if loss is None else float(loss))
            self._mark(log)

        def _leave(self, error: BaseException | None) -> None:
            loop, self.loop = self.loop, None
            if loop is not None:
                loop.__exit__(None if error is None else type(error), error, None)

    return Watch()


def _callback_class() -> Any:
    for package in ("lightning.pytorch", "pytorch_lightning"):
        try:
            from importlib import import_module

            return import_module(package).Callback
        except ImportError:
            continue
    raise BadInput("tl.lightning_callback needs Lightning: pip install lightning", code="TL217")
