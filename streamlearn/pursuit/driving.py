"""Several models trained together: what all of them want goes into one read."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any


def drive(
    read: Callable[[int, list[tuple[int, Any]]], list[Any]], models: list[Generator]
) -> list[Any]:
    """Run generators that yield requests, in step, until each has returned; what they returned.

    ``read(number, [(model, request), ...])`` gives the answers of one round, in that order.  Which
    reads are made depends on answers only, so a resumed fit makes the same ones.
    """
    results: list[Any] = [None] * len(models)
    requests: dict[int, Any] = {}

    def advance(k: int, answer: Any) -> None:
        try:
            requests[k] = models[k].send(answer)
        except StopIteration as end:
            requests.pop(k, None)
            results[k] = end.value

    for k in range(len(models)):
        advance(k, None)
    number = 0
    while requests:
        asked = sorted(requests.items())
        number += 1
        for (k, _), answer in zip(asked, read(number, asked), strict=True):
            advance(k, answer)
    return results
