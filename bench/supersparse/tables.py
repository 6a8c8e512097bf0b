"""The tables of the super-sparse paper (Biggio 2015), and what it leaves out: compression at scale.

python -m bench supersparse-tables [--only faces|regression|compress|scale] [--rows N]

``--only "compress: covtype"`` runs one table of a part.
``--rows``: of the generated regression sets and of the scale run, 10 M each if not said.
"""

from . import compress, faces, regression, scale

PARTS = {
    "faces": faces,
    "regression": regression,
    "compress": compress,
    "scale": scale,
}


def run(session):
    for name, part in PARTS.items():
        if name.startswith(session.options.only.partition(":")[0]):
            part.run(session)
