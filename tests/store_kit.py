"""An object store in a process of its own, and a bad line to it."""

import contextlib
import socket
import subprocess
import sys
import threading
import urllib.request

SERVER = """
import logging, sys
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()  # until the tests close it, or are no more
"""
BUCKET = "bucket"
KEYS = {"key": "testing", "secret": "testing"}


@contextlib.contextmanager
def serving():
    """The port of a moto server (S3 and IAM) with an empty bucket."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        port = int(server.stdout.readline())
        file_system(port).mkdir(BUCKET)
        yield port
    finally:
        server.stdin.close()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        server.stdout.close()


def options(port, *, read_timeout=60, **keys):
    """What s3fs is given; a listing is asked for anew every time."""
    return {
        **(keys or KEYS),
        "endpoint_url": f"http://127.0.0.1:{port}",
        "use_listings_cache": False,
        "config_kwargs": {
            "connect_timeout": 20,
            "read_timeout": read_timeout,
            "retries": {"max_attempts": 1},
        },
    }


def file_system(port):
    import s3fs

    return s3fs.S3FileSystem(**options(port))


def check_keys(port, on):
    """From now on the server looks at keys (moto's way of asking for it), or no longer."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/moto-api/reset-auth",
        data=b"0" if on else b"inf",
        headers={"Content-Type": "text/plain"},
    )
    urllib.request.urlopen(request).close()


class BadLine:
    """A TCP proxy: hands bytes on in pieces, waits between them, hangs up when told.

    Attributes
    ----------
    port : int
        Where it listens.
    pause_s : float
        Wait before each piece that comes back.
    drops : int
        So many of the next answers are cut off after `after` bytes; -1 = all of them.
    n_bytes : int
        What went either way so far.
    """

    def __init__(self, to, piece=1 << 16):
        self.to, self.piece = to, piece
        self.pause_s, self.drops, self.after, self.n_dropped = 0.0, 0, 100, 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.n_bytes = 0
        self._open = set()
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._end.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for end in list(self._open):
                hang_up(end)
        for thread in self._threads:
            thread.join(5)

    def _accept(self):
        while not self._end.is_set():
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                return
            with self._lock:
                self._open |= {near, far}
            for pump in (self._ask, self._answer):
                thread = threading.Thread(target=pump, args=(near, far), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _ask(self, near, far):
        self._pump(near, far, lambda content: content)

    def _answer(self, near, far):
        def spoil(content):
            self._end.wait(self.pause_s)
            with self._lock:
                if not self.drops or len(content) <= self.after:
                    return content
                self.drops -= self.drops > 0
                self.n_dropped += 1
            return None

        self._pump(far, near, spoil)

    def _pump(self, source, target, change):
        try:
            while content := source.recv(self.piece):
                changed = change(content)
                if changed is None:
                    target.sendall(content[: self.after])
                    break
                target.sendall(changed)
                with self._lock:
                    self.n_bytes += len(changed)
        except OSError:
            pass
        finally:
            with self._lock:
                for end in (source, target):
                    hang_up(end)
                    self._open.discard(end)


def hang_up(end):
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
