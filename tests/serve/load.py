#!/usr/bin/env python3
"""Many clients at once, some of whom are killed, read slowly, or ask for nonsense.

    load.py [--seconds S] [--clients N]

Nothing is lost: who asks rightly gets what one sequence alone gives. Nothing grows: the server's memory after the second half is what it was
after the first.
"""
import argparse
import collections
import json
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import server as s

CLEAR = 1e-3                     # scores closer than this may change places with the order of a sum
GROWTH = 1 << 20                 # bytes: what the allocator of the C library moves by


def questions(count: int, rng: random.Random) -> list[tuple[str, int]]:
    """Prompts from the book, and how many tokens to make, where the likeliest token is clear at every step."""
    text, out = (s.HERE / "pride.txt").read_text(), []
    while len(out) < count:
        at, prompt = rng.randrange(len(text) - 400), rng.choice([8, 20, 60, 200])
        asked = text[at:at + prompt], rng.choice([4, 16, 40])
        if s.written(*asked)[1] > CLEAR:
            out.append(asked)
    return out


class Clients:
    def __init__(self, server: s.Server, asked: list[tuple[str, int]], end: float):
        self.server, self.asked, self.end = server, asked, end
        self.done, self.wrong, self.lock = collections.Counter(), [], threading.Lock()

    def whole(self, rng):
        prompt, n = rng.choice(self.asked)
        status, answer = self.server.complete(prompt, n)
        assert status == 200, answer
        assert answer["choices"][0]["text"] == s.text_after(prompt, n), (prompt, n, answer)
        assert answer["usage"]["completion_tokens"] == n, answer

    def stream(self, rng):
        prompt, n = rng.choice(self.asked)
        with self.server.begin(prompt, n, stream=True) as c:
            got = s.events(s.all_of(c))
        assert got[-1] == "[DONE]" and s.text_of(got) == s.text_after(prompt, n), (prompt, n, got)

    def killed(self, rng):
        prompt, _ = rng.choice(self.asked)
        with self.server.begin(prompt, 300, stream=rng.random() < 0.5) as c:
            if rng.random() < 0.5:               # a reset and not an end
                c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            time.sleep(rng.random() * 0.1)

    def slow(self, rng):
        prompt, _ = rng.choice(self.asked)
        with self.server.begin(prompt, 500, received=4096, stream=True) as c:
            assert b"[DONE]" not in s.read_slowly(c)

    def nonsense(self, rng):
        with self.server.connect() as c:
            c.sendall(rng.choice([b"\0" * 100, b"POST /v1/completions HTTP/1.1\r\nContent-Le", b"GET / HTTP/9.9\r\n\r\n", s.post({"prompt": [9999]}), s.post([])]))
            c.shutdown(socket.SHUT_WR)
            s.all_of(c)

    def one(self, seed: int):
        rng = random.Random(seed)
        kinds = [self.whole] * 4 + [self.stream] * 4 + [self.killed, self.slow, self.nonsense]
        while time.monotonic() < self.end:
            kind = rng.choice(kinds)
            try:
                kind(rng)
                with self.lock:
                    self.done[kind.__name__] += 1
            except Exception as e:               # noqa: BLE001: whatever goes wrong is told at the end
                with self.lock:
                    self.wrong.append(f"{kind.__name__}: {e!r}")

    def run(self, count: int, seed: int):
        threads = [threading.Thread(target=self.one, args=(seed + i,)) for i in range(count)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()


def load(server: s.Server, seconds: float, clients: int, seed: int = 1813) -> dict:
    """What was done; raises AssertionError where anything was lost, or grew."""
    asked, done, memory = questions(40, random.Random(seed)), collections.Counter(), []
    for half in range(2):
        c = Clients(server, asked, time.monotonic() + seconds / 2)
        c.run(clients, seed + clients * half)
        assert not c.wrong, (len(c.wrong), c.wrong[:3])
        done += c.done
        server.until(lambda h: h["running"] == h["queued"] == 0)
        memory.append(server.memory())
    assert memory[1] - memory[0] <= GROWTH, memory
    health = server.health()
    assert health["served"] >= done["whole"] + done["stream"], (health, done)
    return dict(done) | {"megabytes": [m / 1e6 for m in memory], "health": health}


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--seconds", type=float, default=20)
    p.add_argument("--clients", type=int, default=64)
    o = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        so = pathlib.Path(folder) / "austen.so"
        subprocess.run([s.TENON, "compile", s.HERE / "austen.onnx", "--state", "past_key_values.*=present.*", "-o", so], check=True)
        with s.Server(so, "--unread", 8192) as server:
            print(json.dumps(load(server, o.seconds, o.clients), indent=2))


if __name__ == "__main__":
    main()
