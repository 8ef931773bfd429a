"""Servers that take one request at a time: mean waits at a steady rate of independent arrivals."""

from __future__ import annotations

import math


def pollaczek_khinchine(rate_per_s: float, service_s: float, cv2: float) -> float:
    """Mean seconds before service at one server: ρ/(1 − ρ) × (1 + cv²)/2 × service; infinite from ρ = 1.

    `cv2`: variance of the service time over its mean squared; 0 for M/D/1, 1 for M/M/1. Source: Kleinrock 1975, 5.6.
    """
    load = rate_per_s * service_s
    return math.inf if load >= 1 else load / (1 - load) * (1 + cv2) / 2 * service_s


def waiting_share(rate_per_s: float, service_s: float, servers: int) -> float:
    """Share of requests that find all servers busy (Erlang C); exponential service, one queue; 1 from full load.

    By Erlang B step by step, which stays finite for many servers. Source: Kleinrock 1975, 3.5.
    """
    offered = rate_per_s * service_s
    if offered >= servers:
        return 1.0
    blocked = 1.0
    for each in range(1, servers + 1):
        blocked = offered * blocked / (each + offered * blocked)
    return servers * blocked / (servers - offered * (1 - blocked))


def erlang_wait(rate_per_s: float, service_s: float, servers: int) -> float:
    """Mean seconds before service where several servers share one queue; infinite from full load."""
    spare = servers / service_s - rate_per_s
    return waiting_share(rate_per_s, service_s, servers) / spare if spare > 0 else math.inf
