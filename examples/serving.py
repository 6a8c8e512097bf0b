"""A model behind HTTP with the standard library alone: rows as JSON in, probabilities out."""

import json
import tempfile
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np

import streamlearn as sl


def handler(model):
    """Answers {"rows": [[...], ...]} with {"probability": [[...], ...]}, or an error with 400."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            try:
                rows = np.array(json.loads(body)["rows"], dtype=float)
                status, answer = 200, {"probability": model.predict_proba(rows).tolist()}
            except (KeyError, TypeError, ValueError) as error:  # a SourceError is a ValueError
                status, answer = 400, {"error": str(error)}
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_):
            """Silent: a server of yours logs as yours do."""

    return Handler


def main(folder):
    rng = np.random.default_rng(0)
    X = rng.random((5000, 3))
    sl.save(sl.AdditiveClassifier().fit(X, np.sin(6 * X[:, 0]) > X[:, 1]), folder / "model.slm")

    server = HTTPServer(("127.0.0.1", 0), handler(sl.load(folder / "model.slm")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    body = json.dumps({"rows": [[0.2, 0.1, 0.5], [0.8, 0.9, 0.5]]}).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}", body) as answer:
        print(answer.read().decode())
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
