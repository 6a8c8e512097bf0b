"""Scoring reads of sparse rows by ShareBoost, and reads with nothing computed, from a store."""

TURNS = 12
"""A read takes a fifth of a second, and single ones differ by half."""


def prepare(**options):
    import streamlearn

    streamlearn.warm("shareboost")


def run(report, *, data, classes, budget, **options):
    import streamlearn
    from bench.peers.shareboost import read_costs
    from bench.shareboost.sparse import target

    with streamlearn.config_context(memory_budget=budget):
        report["costs"] = [
            read_costs(streamlearn.open_dataset(data, target=target(n)), n, TURNS) for n in classes
        ]
