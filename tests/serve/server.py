"""A server of examples/serve for tests: the process, requests to it, and what ONNX Runtime says the model writes."""
import contextlib
import functools
import http.client
import json
import os
import pathlib
import re
import select
import socket
import subprocess
import tempfile
import time

import numpy as np
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
TENON = os.environ.get("TENON", str(BUILD / "tenon"))
HERE = ROOT / "examples" / "generate"
TOKENS = HERE / "tokens.txt"


class Server:
    """serve ARTEFACT TOKENS OPTIONS…, until the block ends."""

    def __init__(self, artefact, *options, tokens=TOKENS):
        self.words = [BUILD / "tenon-serve", artefact, *([tokens] if tokens else []), "--port", "0", *map(str, options)]

    def __enter__(self):
        self.said = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.words, stdout=subprocess.PIPE, stderr=self.said, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(30)
        finally:
            self.process.kill()

    def log(self) -> list[str]:
        """The lines on standard error so far."""
        self.said.seek(0)
        return self.said.read().splitlines()

    def metrics(self) -> dict[str, float]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as c:
            c.request("GET", "/metrics")
            answer = c.getresponse()
            assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            lines = answer.read().decode().splitlines()
        named = {line.split()[2] for line in lines if line.startswith("# TYPE")}
        out = {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}
        assert all(re.sub(r"(_bucket|_sum|_count)?(\{.*)?$", "", name) in named for name in out)
        return out

    def connect(self, received=None) -> socket.socket:
        s = socket.socket()
        if received:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, received)
        s.settimeout(60)
        s.connect(("127.0.0.1", self.port))
        return s

    def ask(self, method: str, path: str, body=None, **headers):
        """The status and the JSON of an answer."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(c):
            c.request(method, path, json.dumps(body) if isinstance(body, dict) else body, headers)
            answer = c.getresponse()
            return answer.status, json.loads(answer.read())

    def complete(self, prompt, tokens: int = 16, **fields):
        return self.ask("POST", "/v1/completions", {"prompt": prompt, "max_tokens": tokens, "temperature": 0} | fields)

    def begin(self, prompt, tokens: int, received=None, **fields) -> socket.socket:
        """A connection over which a completion was asked for."""
        s = self.connect(received)
        s.sendall(post({"prompt": prompt, "max_tokens": tokens, "temperature": 0} | fields))
        return s

    def begin_chat(self, messages, tokens: int, **fields) -> socket.socket:
        c = self.connect()
        c.sendall(post({"messages": messages, "max_tokens": tokens, "temperature": 0} | fields, "/v1/chat/completions"))
        return c

    def health(self) -> dict:
        return self.ask("GET", "/health")[1]

    def until(self, holds, seconds: float = 10) -> dict:
        end = time.monotonic() + seconds
        while not holds(h := self.health()):
            assert time.monotonic() < end, h
            time.sleep(0.01)
        return h

    def memory(self) -> int:
        """Bytes of memory that the process has taken, touched or not: what is reserved is there from the beginning."""
        return int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")


def refused(*words) -> str:
    """What a server says that does not begin."""
    done = subprocess.run([BUILD / "tenon-serve", *map(str, words)], capture_output=True, text=True, timeout=60)
    assert done.returncode not in (0, -6, -11), done
    return done.stderr


def post(body, path: str = "/v1/completions") -> bytes:
    data = json.dumps(body).encode()
    return b"POST " + path.encode() + b" HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(data), data)


def all_of(s: socket.socket) -> bytes:
    """What comes until the end; what a reset leaves of it is lost."""
    out = b""
    with contextlib.suppress(ConnectionError):
        while piece := s.recv(1 << 16):
            out += piece
    return out


def read_slowly(s: socket.socket) -> bytes:
    """A few bytes now and then, until the other side has had enough."""
    ended, out = select.poll(), b""
    ended.register(s, select.POLLRDHUP)
    with contextlib.suppress(ConnectionError):
        while not ended.poll(50):
            s.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                out += s.recv(16)
    return out


def events(answer: bytes) -> list:
    """The events of an answer in chunks, without its head."""
    text, rest = b"", answer.partition(b"\r\n\r\n")[2]
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        text, rest = text + rest[:int(size, 16)], rest[int(size, 16) + 2:]
    data = [e.removeprefix("data: ") for e in text.decode().split("\n\n") if e]
    return [d if d == "[DONE]" else json.loads(d) for d in data]


def text_of(stream: list) -> str:
    return "".join(e["choices"][0]["text"] for e in stream if e != "[DONE]" and "choices" in e)


# ---- what the model writes ----------------------------------------------------------------------------------


@functools.cache
def pieces() -> list[bytes]:
    text = [bytes([i]) for i in range(256)]
    for line in TOKENS.read_text().splitlines():
        left, right = map(int, line.split())
        text.append(text[left] + text[right])
    return text


def encoded(text: bytes) -> list[int]:
    ids = list(text)
    for i, line in enumerate(TOKENS.read_text().splitlines()):
        pair = [int(w) for w in line.split()]
        out, k = [], 0
        while k < len(ids):
            both = ids[k:k + 2] == pair
            out.append(256 + i if both else ids[k])
            k += 1 + both
        ids = out
    return ids


@functools.cache
def runtime():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(HERE / "austen.onnx"), options, providers=["CPUExecutionProvider"])


@functools.cache
def written_scored(prompt: str, count: int) -> tuple[list[int], np.ndarray]:
    """The likeliest tokens, one after the other, alone; and the logarithms of all tokens' probabilities at each."""
    session, ids, said, scores = runtime(), np.array([encoded(prompt.encode())]), [], []
    names = [o.name for o in session.get_outputs()]
    cache = {i.name: np.zeros((1, i.shape[1], 0, i.shape[3]), np.float32) for i in session.get_inputs() if "past" in i.name}
    for _ in range(count):
        mask = np.ones((1, cache["past_key_values.0.key"].shape[2] + ids.shape[1]), np.int64)
        out = dict(zip(names, session.run(None, {"input_ids": ids, "attention_mask": mask} | cache)))
        cache = {n.replace("present", "past_key_values"): x for n, x in out.items() if n != "logits"}
        last = out["logits"][0, -1].astype(np.float64)
        scores.append(last - np.log(np.exp(last - last.max()).sum()) - last.max())
        said.append(int(last.argmax()))
        ids = np.array([[said[-1]]])
    return said, np.array(scores)


def written(prompt: str, count: int) -> tuple[list[int], float]:
    """The likeliest tokens; and by how much, at least, each was likelier than the next best."""
    said, scores = written_scored(prompt, count)
    best = np.sort(scores, axis=1)
    return said, float((best[:, -1] - best[:, -2]).min())


def scores_after(prompt: str, count: int) -> np.ndarray:
    return written_scored(prompt, count)[1]


def text_after(prompt: str, count: int) -> str:
    return b"".join(pieces()[t] for t in written(prompt, count)[0]).decode(errors="replace")
