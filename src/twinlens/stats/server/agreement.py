"""The server's own figures as columns, and whether they agree with the client's.

Compared from the first reading to the last, which lie before and after the load, so that edges hardly matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.request import Requests
from twinlens.record.samples import COUNTERS, GAUGES
from twinlens.units import RATIO, SECONDS, digits, show

# A server may count a token that ends an answer and is not sent.
MOST_COUNT_CHANGE = 0.01
# The client's time to first token holds the network and the HTTP front as well: a tenth is what they may take.
MOST_TIME_SHARE = 0.1
# Neither clock is read at the very moment: a server's figure above the client's by less is no contradiction.
LEAST_TIME_S = 0.001


@dataclass(frozen=True, slots=True)
class ServerAgreement:
    """`notes`: a finding for each figure on which the two differ by more than is to be expected."""

    metrics: dict[str, Estimate]
    notes: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    """The client's side between two readings: which rows lie inside, and which ones only in part or unclear."""

    inside: np.ndarray
    unclear: np.ndarray
    answered: np.ndarray


def agreement(rows: ServerRows, requests: Requests, items: int = 1) -> ServerAgreement:
    """The server's figures over the client's: 1 where they agree.

    `items`: texts or documents of one request, which some servers count as requests of their own.
    """
    compared = {
        "server_tokens_agreement": _tokens(rows, requests),
        "server_requests_agreement": _requests(rows, requests, items),
        "server_ttft_agreement": _first_tokens(rows, requests),
    }
    return ServerAgreement(
        {name: estimate for name, (estimate, _) in compared.items()},
        tuple(note for _, note in compared.values() if note),
    )


def _seen(rows: ServerRows, requests: Requests, name: str) -> _Seen:
    """Between the first and the last reading that have this counter."""
    known = rows.time_ns[~np.isnan(rows.columns[name])]
    begin_ns, end_ns = int(known[0]), int(known[-1])
    whole = (requests.sent_ns >= begin_ns) & (requests.end_ns <= end_ns)
    apart = (requests.end_ns <= begin_ns) | (requests.sent_ns >= end_ns)
    answered = np.isin(requests.outcome, ("ok", "cut_off"))
    # What became of a request that failed only the server knows: it may have answered to nobody.
    return _Seen(whole, (~whole & ~apart) | (whole & ~answered), whole & answered)


def _tokens(rows: ServerRows, requests: Requests) -> tuple[Estimate, Finding | None]:
    why = rows.why_not("generation_tokens")
    if why is not None:
        return Estimate.absent(RATIO, why), None
    counted = _seen(rows, requests, "generation_tokens")
    server = float(rows.steps("generation_tokens")[0].sum())
    client = float(requests.output_tokens[counted.inside].sum())
    asked = np.fmax(requests.output_tokens, np.nan_to_num(requests.asked_tokens))
    unclear = float(asked[counted.unclear].sum())
    return _compared("server_tokens_agreement", "generated tokens", server, client, unclear)


def _requests(rows: ServerRows, requests: Requests, items: int) -> tuple[Estimate, Finding | None]:
    why = rows.why_not("finished")
    if why is not None:
        return Estimate.absent(RATIO, why), None
    counted = _seen(rows, requests, "finished")
    server, client = float(rows.steps("finished")[0].sum()), float(counted.answered.sum())
    unclear, what = float(counted.unclear.sum()), "finished requests"
    if abs(server - items * client) < abs(server - client):
        client, unclear, what = items * client, items * unclear, f"finished texts, {items} to a request,"
    return _compared("server_requests_agreement", what, server, client, unclear)


def _compared(id: str, what: str, server: float, client: float, unclear: float) -> tuple[Estimate, Finding | None]:
    """Two counts of the same thing. `unclear`: how much of it cannot be told, as it lies on an edge or failed."""
    if client <= 0:
        return Estimate.absent(RATIO, f"the client counts no {what}"), None
    allowed = MOST_COUNT_CHANGE + unclear / client
    sides = f"{server:,.0f} {what} at the server, {client:,.0f} at the client"
    method = f"{sides}, over the whole run; up to {digits(100 * allowed, 2)} % is to be expected"
    estimate = Estimate(server / client, RATIO, method, "measured", n=round(client))
    if abs(server - client) <= allowed * client:
        return estimate, None
    numbers = {"server": server, "client": client, "allowed_share": allowed}
    return estimate, Finding("counts-disagree", "notes", id, numbers)


def _first_tokens(rows: ServerRows, requests: Requests) -> tuple[Estimate, Finding | None]:
    why = rows.why_not("ttft_sum_s", "ttft_count")
    if why is not None:
        return Estimate.absent(RATIO, why), None
    sums, counts = rows.steps("ttft_sum_s", "ttft_count")
    first_s = (requests.first_chunk_ns() - requests.sent_ns)[_seen(rows, requests, "ttft_count").inside] / 1e9
    first_s = first_s[~np.isnan(first_s)]
    if counts.sum() <= 0 or not first_s.size:
        return Estimate.absent(RATIO, "no first token was seen on both sides"), None
    server_s, client_s = float(sums.sum() / counts.sum()), float(first_s.mean())
    trip_s = float(np.median(rows.round_trip_ns)) / 1e9
    between_s, most_s = client_s - server_s, MOST_TIME_SHARE * client_s + trip_s
    means = f"mean TTFT {show(server_s, SECONDS)} at the server, {show(client_s, SECONDS)} from send at the client"
    method = f"{means}; up to {show(most_s, SECONDS)} between them is to be expected (a tenth, and one round trip)"
    estimate = Estimate(server_s / client_s, RATIO, method, "measured", n=int(counts.sum()))
    if -(LEAST_TIME_S + MOST_COUNT_CHANGE * client_s) <= between_s <= most_s:
        return estimate, None
    numbers = {"server_s": server_s, "client_s": client_s, "most_s": most_s}
    return estimate, Finding("first-tokens-disagree", "notes", "server_ttft_agreement", numbers)


# The readings of a server's metrics page as columns: where it was started again, and differences of its counters.

# A sum of many floats may come out lower by rounding when its parts are added in another order.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ServerRows:
    """Readings that succeeded, in time order. `columns`: name → values [n], NaN where the server says nothing.

    `restarts_ns`: for each time a counter fell, the reading after it.
    """

    time_ns: np.ndarray
    round_trip_ns: np.ndarray
    columns: dict[str, np.ndarray]
    restarts_ns: np.ndarray

    def __len__(self) -> int:
        return len(self.time_ns)

    @classmethod
    def from_table(cls, table: pa.Table) -> Self:
        """From a table with SERVER_SCHEMA; rows with an error are left out."""
        good = table.column("error").is_null().to_numpy() if table.num_rows else np.zeros(0, bool)
        order = np.argsort(table.column("time_ns").to_numpy()[good], kind="stable")

        def column(name: str) -> np.ndarray:
            values = np.asarray(table.column(name).cast(pa.float64()).to_numpy(), dtype=float)
            return np.asarray(values[good][order])

        names = [name for name in (*GAUGES, *COUNTERS) if name in table.column_names]
        columns = {name: column(name) for name in names}
        time_ns = table.column("time_ns").to_numpy()[good][order]
        round_trip_ns = table.column("round_trip_ns").to_numpy()[good][order]
        return cls(time_ns, round_trip_ns, columns, _restarts(time_ns, columns))

    def within(self, begin_ns: int, end_ns: int) -> Self:
        """The readings between two moments of the run, both included."""
        inside = (self.time_ns >= begin_ns) & (self.time_ns <= end_ns)
        columns = {name: values[inside] for name, values in self.columns.items()}
        time_ns = self.time_ns[inside]
        first = time_ns[0] if len(time_ns) else end_ns
        restarts_ns = self.restarts_ns[(self.restarts_ns > first) & (self.restarts_ns <= end_ns)]
        return type(self)(time_ns, self.round_trip_ns[inside], columns, restarts_ns)

    def known(self, name: str) -> np.ndarray:
        """The values that are there. Shape: (at most n,)."""
        values = self.columns.get(name, np.empty(0))
        return np.asarray(values[~np.isnan(values)])

    def steps(self, *names: str) -> tuple[np.ndarray, ...]:
        """Differences of counters from one reading that has all of them to the next. Shape: (k,) each."""
        columns = [self.columns.get(name, np.full(len(self), np.nan)) for name in names]
        both = ~np.isnan(np.array(columns)).any(axis=0)
        return tuple(np.diff(values[both]) for values in columns)

    def why_not(self, *names: str) -> str | None:
        """Why differences of these counters cannot be had; None where they can."""
        if len(self.restarts_ns):
            moments = ", ".join(f"{moment / 1e9:.1f} s" for moment in self.restarts_ns[:3])
            return f"the server was started again in mid-run (seen at {moments}): its counters started from zero"
        if any(not self.known(name).size for name in names):
            return "the server does not say it"
        if not self.steps(*names)[0].size:
            return "there are fewer than two readings to subtract"
        return None


def _restarts(time_ns: np.ndarray, columns: dict[str, np.ndarray]) -> np.ndarray:
    restarts: set[int] = set()
    for name in COUNTERS:
        values = columns.get(name, np.empty(0))
        known = ~np.isnan(values)
        numbers = values[known]
        fell = np.diff(numbers) < -_ROUNDING * np.abs(numbers[:-1])
        restarts |= set(time_ns[known][1:][fell].tolist())
    return np.array(sorted(restarts), dtype=np.int64)
