"""Prefix cache: full blocks keep their content after their request, and are found again until others need them.

A block is known by what it holds and all before it, as in vLLM, where each block's hash has the hash of the one before:
here "block i of group g", or of one request behind what its group shares. The block that was free for longest goes
first; of one request the last block before the first, so that beginnings live longest.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from twinlens.simulation.state.blocks import ENDLESS, blocks_of, out_of_window, within
from twinlens.simulation.state.sequence import Sequence

Key = tuple[int, int]


@dataclass(slots=True)
class PrefixCache:
    """Blocks by number. `idle`: free ones that were used, the first to go first; `fresh`: how many never were."""

    total: int
    size: int
    window: int | None = None
    fresh: int = 0
    idle: OrderedDict[int, None] = field(default_factory=OrderedDict)
    users: dict[int, int] = field(default_factory=dict)
    where: dict[Key, int] = field(default_factory=dict)
    key_of: dict[int, Key] = field(default_factory=dict)
    evicted: int = 0

    def __post_init__(self) -> None:
        self.fresh = self.total

    @property
    def free(self) -> int:
        return self.fresh + len(self.idle)

    @property
    def used(self) -> int:
        return len(self.users)

    def find(self, sequence: Sequence) -> int:
        """Blocks of its beginning that are here; never all of it, since a last token has to be computed."""
        most, found = (sequence.goal - 1) // self.size, 0
        while found < most and self._key(sequence, found) in self.where:
            found += 1
        return found

    def take(self, sequence: Sequence, tokens: int, found: int = 0, *, whole: bool = False) -> bool:
        computed = sequence.computed + found * self.size
        gone = max(sequence.dropped, out_of_window(computed, self.window, self.size))
        hits = [self.where[self._key(sequence, each)] for each in range(gone, found)]
        free = self.free - sum(hit in self.idle for hit in hits)
        leaving = sequence.blocks[: gone - sequence.dropped]
        left = sum(self.users[block] == 1 for block in leaving)
        more = blocks_of(computed + tokens, self.size) - gone - (len(sequence.blocks) - len(leaving)) - len(hits)
        whole_blocks = blocks_of(within(sequence.goal, self.window, self.size), self.size) if whole else 0
        if whole_blocks - len(hits) > free or more > free + left:
            return False
        for hit in hits:
            self.idle.pop(hit, None)
            self.users[hit] = self.users.get(hit, 0) + 1
        for block in leaving:
            self._let_go(block)
        sequence.blocks, sequence.dropped = sequence.blocks[len(leaving) :], gone
        sequence.blocks += hits
        sequence.kept += found
        sequence.blocks += [self._new() for _ in range(more)]
        self._keep(sequence, computed + (1 if sequence.decoding else tokens))
        return True

    def release(self, sequence: Sequence) -> None:
        for block in reversed(sequence.blocks):
            self._let_go(block)
        sequence.blocks, sequence.dropped, sequence.kept = [], 0, 0

    def _keep(self, sequence: Sequence, tokens: int) -> None:
        """Full blocks of so many tokens can be found from now on."""
        for each in range(max(sequence.kept, sequence.dropped), tokens // self.size):
            key = self._key(sequence, each)
            if key not in self.where and (key[0] >= 0 or self.total < ENDLESS):
                block = sequence.blocks[each - sequence.dropped]
                self.where[key], self.key_of[block] = block, key
        sequence.kept = max(sequence.kept, tokens // self.size)

    def _let_go(self, block: int) -> None:
        self.users[block] -= 1
        if not self.users[block]:
            del self.users[block]
            self.idle[block] = None

    def _new(self) -> int:
        """A free block, never used or unused for longest, which is then no longer found."""
        if self.fresh:
            self.fresh -= 1
            block = self.total - self.fresh - 1
        else:
            block, _ = self.idle.popitem(last=False)
            if block in self.key_of:
                del self.where[self.key_of.pop(block)]
                self.evicted += 1
        self.users[block] = 1
        return block

    def _key(self, sequence: Sequence, block: int) -> Key:
        if sequence.group >= 0 and (block + 1) * self.size <= sequence.shared:
            return sequence.group, block
        return -1 - sequence.number, block
