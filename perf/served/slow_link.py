# SPDX-License-Identifier: Apache-2.0
"""A link between a server and an object store, on 127.0.0.1, that takes its time."""

import socket
import threading
import time

CHUNK = 64 * 1024


class SlowLink:
    """Passes connections on to `port`. What comes back is delayed by `latency` seconds, once after
    each thing that was sent, and all connections together pass on `rate` bytes a second (0: as many
    as come)."""

    def __init__(self, port, latency=0.0, rate=0.0):
        self.to, self.latency, self.rate = port, latency, rate
        self.free_at = 0.0  # when the link has passed on what it was given
        self.lock = threading.Lock()
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(('127.0.0.1', self.to))
            asked = threading.Event()
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.up, args=(client, server, asked), daemon=True).start()
            threading.Thread(target=self.down, args=(server, client, asked), daemon=True).start()

    def wait_for_link(self, count):
        if not self.rate:
            return
        with self.lock:
            now = time.monotonic()
            self.free_at = max(self.free_at, now) + count / self.rate
            wait = self.free_at - now
        time.sleep(wait)

    def up(self, client, server, asked):
        self.copy(client, server, lambda: asked.set())

    def down(self, server, client, asked):
        def late():
            if asked.is_set():
                asked.clear()
                time.sleep(self.latency)
        self.copy(server, client, late)

    def copy(self, source, sink, before):
        try:
            while piece := source.recv(CHUNK):
                before()
                self.wait_for_link(len(piece))
                sink.sendall(piece)
        except OSError:
            pass
        for one in (source, sink):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()
