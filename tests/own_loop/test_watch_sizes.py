"""Samples and tokens of a real loop's steps: what is said of them, what shapes show, and what is padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the torch extra")
import torch
from stranger import BATCH, LENGTH, Tiny, loader, made

import twinlens as tl


class Masked(Tiny):
    """A language model that takes a mask, as those of transformers do, or a batch as a whole."""

    def forward(self, input_ids: Any, attention_mask: Any = None) -> torch.Tensor:
        return super().forward(input_ids["input_ids"] if isinstance(input_ids, dict) else input_ids)


def sizes(out: Path) -> tuple[list[int], list[int]]:
    rows = tl.read(out)[0].steps
    return rows.samples.tolist(), rows.tokens.tolist()


@pytest.mark.parametrize(
    ("said", "samples", "tokens"),
    [
        ({"samples": 8}, 8, BATCH * LENGTH),
        ({"tokens": 100}, BATCH, 100),
        ({"samples": 8, "tokens": 100}, 8, 100),
    ],
)
def test_what_is_said_of_a_batch_goes_first_and_the_rest_is_by_its_shapes(
    said: dict[str, int], samples: int, tokens: int, tmp_path: Path
) -> None:
    model, optimizer = made()
    with tl.watch(model, optimizer, out=tmp_path, profile=False) as run:
        for batch in run.data(loader(3), **said):
            model(batch[:, :-1]).square().mean().backward()
            optimizer.step()
    assert sizes(tmp_path) == ([samples] * 3, [tokens] * 3)


@pytest.mark.parametrize("way", ["by name", "by place", "whole"])
def test_padding_is_no_token_however_the_mask_is_given(way: str, tmp_path: Path) -> None:
    model = Masked()
    optimizer = torch.optim.AdamW(model.parameters())
    with tl.watch(model, optimizer, out=tmp_path, profile=False) as run:
        for batch in run.data(loader(3)):
            mask = torch.ones_like(batch)
            mask[:, 20:] = 0
            if way == "by name":
                logits = model(input_ids=batch, attention_mask=mask)
            elif way == "by place":
                logits = model(batch, mask)
            else:
                logits = model({"input_ids": batch, "attention_mask": mask})
            logits.square().mean().backward()
            optimizer.step()
    assert sizes(tmp_path) == ([BATCH] * 3, [BATCH * 20] * 3)


@pytest.mark.parametrize(("lengths", "filled"), [((32, 32), 0.5), ((32, 16), None), ((16, 32), None)])
def test_padding_is_told_where_steps_have_one_length_and_never_from_the_first_ones(
    lengths: tuple[int, int], filled: float | None, tmp_path: Path
) -> None:
    model = Masked()
    optimizer = torch.optim.AdamW(model.parameters())
    with tl.watch(model, optimizer, out=tmp_path, profile=False) as run:
        for step, batch in enumerate(run.data(loader(24))):
            cut = batch[:, : lengths[step > 0]]
            mask = torch.ones_like(cut)
            mask[:, 16:] = 0
            model(cut, mask).square().mean().backward()
            optimizer.step()
    (batching,) = (each for each in tl.diagnose(tmp_path)[0].counters if each.id == "batching")
    assert batching.value.value == filled
    assert filled is not None or batching.value.reason == "no row says how many tokens were computed with padding"
