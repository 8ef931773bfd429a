"""Hooks of torch on one model and one optimizer, put there for a while: where forward, backward and optimizer begin and
end. Needs torch.

Only the outermost module is hooked: gradient checkpointing calls the inner ones again in the backward pass.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from twinlens.executors.own_loop.step_log import StepLog
from twinlens.executors.own_loop.step_size import size_of

Guard = Callable[[Callable[..., None]], Callable[..., None]]
"""Wraps what a hook does, so that an error of ours never becomes one of the loop."""

_TRUSTED, _UNANSWERED = 3, 8


class OptimizerHooks:
    """Tell the log when the optimizer begins and ends. `then` is called after it, before the step ends."""

    def __init__(self, optimizer: torch.optim.Optimizer, log: StepLog, guard: Guard, then: Callable[[], None]) -> None:
        def before(*_: Any) -> None:
            log.optimizing()

        def after(*_: Any) -> None:
            log.optimized()
            then()
            log.ended()

        self._handles = [
            optimizer.register_step_pre_hook(guard(before)),
            optimizer.register_step_post_hook(guard(after)),
        ]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()


class ModelHooks:
    """Tell the log when the model's forward pass and the backward pass begin and end.

    The backward pass is `Tensor.backward`, wrapped meanwhile; where that is not called (an engine, a compiled step), it
    begins when a gradient reaches the model's output and ends with the graph. `on_pass` is called before each forward
    pass, `on_backward` after each backward pass. A hook on the output costs most of all, so there is none after
    `_TRUSTED` calls of `Tensor.backward`, unless `_UNANSWERED` forward passes were followed by no such call.
    """

    def __init__(
        self,
        model: nn.Module,
        log: StepLog,
        guard: Guard,
        on_pass: Callable[[], None] = lambda: None,
        on_backward: Callable[[], None] = lambda: None,
    ) -> None:
        self._log, self._guard = log, guard
        self._on_pass, self._on_backward = on_pass, on_backward
        self._began: Any = None
        self._sums, self._in_backward, self._in_graph = False, False, False
        self._called = self._forwards = 0
        self._mask_at = place_of_mask(core_of(model))
        self._reached = guard(self._gradient_reached)
        before, after = _Unsaved(_uncompiled(guard(self._before))), _Unsaved(_uncompiled(guard(self._after)))
        self._stamped = guard(self._passed_back)
        self._handles = [
            model.register_forward_pre_hook(before, with_kwargs=True),
            model.register_forward_hook(after),
        ]
        self._wrap_backward()

    def remove(self) -> None:
        """Take everything away again, and put `Tensor.backward` back."""
        for handle in self._handles:
            handle.remove()
        if torch.Tensor.backward is self._ours:
            torch.Tensor.backward = self._theirs
        self._log = None  # type: ignore[assignment]  # whoever wrapped ours meanwhile still calls it

    def _before(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        size = (size_of(kwargs) if kwargs else None) or size_of(args)
        if not torch.is_grad_enabled():
            self._log.set_aside(*(size or (0, 0)))
            return
        self._on_pass()
        self._sums = kwargs.get("num_items_in_batch") is not None  # transformers divides by all items of the step
        if size is not None:
            self._log.counted(*size, unpadded(mask_in(args, kwargs, self._mask_at), size))
        self._began = self._log.moments.now()

    def _after(self, model: nn.Module, args: Any, output: Any) -> None:
        if self._began is None:
            return
        began, self._began = self._began, None
        self._log.spent("forward", began, self._log.moments.now())
        loss = _loss_in(output)
        if loss is not None:
            self._log.lost(loss.detach(), summed=self._sums)
        self._forwards += 1
        if self._called < _TRUSTED or self._forwards > _UNANSWERED:
            for tensor in _graded(output):
                tensor.register_hook(self._reached)

    def _gradient_reached(self, gradient: torch.Tensor) -> None:
        if self._in_backward or self._in_graph or self._log is None:
            return
        self._in_graph, self._called, began = True, 0, self._log.moments.now()

        def ended() -> None:
            self._in_graph = False
            if self._log is not None:
                self._log.spent("backward", began, self._log.moments.now())

        # No profiler may be ended in there: the engine puts the thread's state back when the callback returns.
        torch.autograd.Variable._execution_engine.queue_callback(self._guard(ended))

    def _wrap_backward(self) -> None:
        self._theirs = theirs = torch.Tensor.backward

        @functools.wraps(theirs)
        def backward(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if self._log is None or self._in_backward:
                return theirs(tensor, *args, **kwargs)
            began, self._in_backward = self._log.moments.now(), True
            try:
                result = theirs(tensor, *args, **kwargs)
            finally:
                self._in_backward = False
            self._stamped(began)
            return result

        self._ours = backward
        torch.Tensor.backward = backward

    def _passed_back(self, began: Any) -> None:
        self._log.spent("backward", began, self._log.moments.now())
        self._called, self._forwards = self._called + 1, 0
        self._on_backward()


class _Unsaved:
    """A hook that stays out of copies and files of the model: there it is a call of the standard library that does
    nothing, so that whoever loads the file needs no Twinlens."""

    def __init__(self, hook: Callable[..., None]) -> None:
        self._hook = hook

    def __call__(self, *args: Any) -> None:
        self._hook(*args)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return getattr, (contextlib.nullcontext(), "__exit__")


def innermost(optimizer: Any) -> torch.optim.Optimizer | None:
    """The optimizer of torch inside one of accelerate's, DeepSpeed's or the like; None where there is none."""
    seen = 0
    while not isinstance(optimizer, torch.optim.Optimizer) or hasattr(optimizer, "accelerator_state"):
        optimizer, seen = getattr(optimizer, "optimizer", None), seen + 1
        if optimizer is None or seen > 5:
            return None
    return optimizer


def _uncompiled(hook: Callable[..., None]) -> Callable[..., None]:
    """torch.compile leaves it as it is: a clock that is compiled into a graph stands still."""
    disabled: Callable[..., None] = torch.compiler.disable(hook)
    return disabled


def core_of(model: nn.Module) -> nn.Module:
    """The model inside DDP's wrapper and torch.compile's."""
    for name in ("module", "_orig_mod", "module"):
        inner = getattr(model, name, None)
        model = inner if isinstance(inner, nn.Module) else model
    return model


def _loss_in(output: Any) -> torch.Tensor | None:
    """The loss that a model gives itself: `output.loss`, or an output that is one number."""
    loss = output if isinstance(output, torch.Tensor) else getattr(output, "loss", None)
    if loss is None and isinstance(output, dict):
        loss = output.get("loss")
    return loss if isinstance(loss, torch.Tensor) and loss.ndim == 0 else None


def _graded(output: Any) -> list[torch.Tensor]:
    """Tensors of the output that a gradient can reach: itself, or those on its first level."""
    if isinstance(output, torch.Tensor):
        parts: list[Any] = [output]
    elif isinstance(output, dict):
        parts = list(output.values())
    elif isinstance(output, list | tuple):
        parts = list(output)
    else:
        parts = list(vars(output).values()) if hasattr(output, "__dict__") else []
    return [part for part in parts if isinstance(part, torch.Tensor) and part.requires_grad]


def place_of_mask(model: nn.Module) -> int | None:
    """Where among the arguments of `forward` the attention mask stands; None where none is called so."""
    try:
        names = list(inspect.signature(model.forward).parameters)
    except (TypeError, ValueError):
        return None
    return names.index("attention_mask") if "attention_mask" in names else None


def mask_in(args: Any, kwargs: Any, place: int | None) -> Any:
    """The attention mask of one call: by its name, by its place, or in a batch that is given whole."""
    if (mask := kwargs.get("attention_mask")) is not None:
        return mask
    if place is not None and place < len(args):
        return args[place]
    return args[0].get("attention_mask") if args and isinstance(args[0], Mapping) else None


def unpadded(mask: Any, size: tuple[int, int]) -> Any:
    """Tokens that are no padding, as a tensor that nobody waits for; None without a mask of that size."""
    if not isinstance(mask, torch.Tensor) or mask.ndim != 2 or mask.numel() != size[1]:
        return None
    return (mask != 0).sum()
