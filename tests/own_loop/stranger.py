"""Parts of a training script that somebody else wrote: a small language model and its data."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, LENGTH, BATCH = 64, 32, 4


class Tiny(nn.Module):
    """A language model that gives logits; the loss is the loop's."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.inner = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(self.embed(tokens)))


def loader(batches: int, wait_s: float = 0.0) -> Iterator[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    for _ in range(batches):
        time.sleep(wait_s)
        yield torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), generator=generator)


def made() -> tuple[Tiny, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = Tiny()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def loss_of(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    logits = model(tokens[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def step(model: nn.Module, optimizer: torch.optim.Optimizer, tokens: torch.Tensor) -> torch.Tensor:
    loss = loss_of(model, tokens)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss
