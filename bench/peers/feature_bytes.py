"""What a model's features take when they are written out, as a multiple of the float32 table.

Measured on 200 rows: features whose penalty is 1/2 |w|^2, as CSR with 4-byte indices and float32
values, what a linear solver would be given.
"""

ROWS = 200


def prepare(**options):
    pass


def run(report, *, task, model, **options):
    import numpy as np

    import streamlearn
    from bench import data

    embeddings = {True: "FourierEmbedding", False: "SplineEmbedding"}
    cls = getattr(streamlearn, embeddings["basis" in model])
    names = cls().get_params()
    embedding = cls(**{key: value for key, value in model.items() if key in names})
    if model.get("penalty_order") == 0 and "output" in names:
        embedding.set_params(output="phi")  # the penalty is a multiple of |w|^2 as it is
    X, _ = data.load(task, "test")
    rows = X[np.random.default_rng(0).permutation(len(X))[:ROWS]]
    features = embedding.fit(X).transform(rows)
    size = 8 * features.nnz if hasattr(features, "nnz") else 4 * features.size
    report["ratio"] = size / (4 * rows.size)
