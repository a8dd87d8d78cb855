"""examples/serve: what it answers is what the model writes alone; and every way to ask it wrong."""
import json
import os
import re
import signal
import subprocess
import time

import numpy as np
import pytest
import server as s
from load import load, questions

PROMPT = "It is a truth universally acknowledged, that"
FIELDS = {"prompt": PROMPT, "max_tokens": 8}


@pytest.fixture(scope="module")
def server(artefact):
    with s.Server(artefact, "--name", "austen", "--body", 4000, "--receive-seconds", 1, "--context", 600, "--prompt", 64, "--unread", 8192) as one:
        yield one


# ---- what it answers ----------------------------------------------------------------------------------------


def test_the_text_is_what_onnx_runtime_says(server):
    status, answer = server.complete(PROMPT, 64, model="austen", stop=None, user="me", n=1)
    assert status == 200 and answer["object"] == "text_completion" and answer["model"] == "austen"
    assert answer["choices"] == [{"text": s.text_after(PROMPT, 64), "index": 0, "logprobs": None, "finish_reason": "length"}]
    prompt = len(s.encoded(PROMPT.encode()))
    assert answer["usage"] == {"prompt_tokens": prompt, "completion_tokens": 64, "total_tokens": prompt + 64}
    assert server.complete(s.encoded(PROMPT.encode()), 64)[1]["choices"] == answer["choices"]


def test_a_stream_says_the_same(server):
    with server.begin(PROMPT, 40, stream=True) as c:
        answer = s.all_of(c)
    assert b"200 OK" in answer and b"Content-Type: text/event-stream" in answer
    got = s.events(answer)
    assert got[-1] == "[DONE]" and s.text_of(got) == s.text_after(PROMPT, 40)
    assert [e["choices"][0]["finish_reason"] for e in got[:-1]] == [None] * (len(got) - 2) + ["length"]
    assert all("usage" not in e for e in got[:-1])


@pytest.mark.parametrize("stream", [False, True])
def test_it_ends_where_it_is_told(server, stream):
    text = s.text_after(PROMPT, 40)
    stop = text[20:26]
    if stream:
        with server.begin(PROMPT, 40, stream=True, stop=[stop, "never said"]) as c:
            got = s.events(s.all_of(c))
        said, reason = s.text_of(got), got[-2]["choices"][0]["finish_reason"]
    else:
        choice = server.complete(PROMPT, 40, stop=stop)[1]["choices"][0]
        said, reason = choice["text"], choice["finish_reason"]
    assert said == text[:text.index(stop)] and reason == "stop"


def test_several_prompts_in_one_request(server):
    prompts = [PROMPT, "She was", s.encoded(b"Elizabeth")]
    texts = [s.text_after(p, 20) for p in (PROMPT, "She was", "Elizabeth")]
    for asked, want in ((prompts[:2], texts[:2]), ([s.encoded(p.encode()) if isinstance(p, str) else p for p in prompts], texts)):
        status, answer = server.complete(asked, 20)
        assert status == 200 and [(c["index"], c["text"]) for c in answer["choices"]] == list(enumerate(want))
        assert answer["usage"]["completion_tokens"] == 20 * len(want)
    assert server.complete(["She was", "She was"], 4, model="austen")[1]["usage"]["prompt_tokens"] == 2 * len(s.encoded(b"She was"))
    with server.begin(prompts[:2], 20, stream=True, stream_options={"include_usage": True}) as c:
        got = s.events(s.all_of(c))
    assert got[-1] == "[DONE]" and got[-2]["choices"] == [] and got[-2]["usage"]["completion_tokens"] == 40
    assert all(e["usage"] is None for e in got[:-2])
    for i in range(2):
        mine = [c for e in got[:-2] for c in e["choices"] if c["index"] == i]
        assert "".join(c["text"] for c in mine) == texts[i] and mine[-1]["finish_reason"] == "length"


def test_as_many_prompts_as_can_wait(artefact):
    with s.Server(artefact, "--sequences", 2, "--queue", 1) as one:
        assert [c["text"] for c in one.complete(["She was"] * 3, 8)[1]["choices"]] == [s.text_after("She was", 8)] * 3
        status, answer = one.complete(["She was"] * 4, 8)
        assert status == 503 and "0 requests wait already, and the body has 4 prompts; at most 1 can wait" in answer["error"]["message"]


def test_logprobs_are_what_onnx_runtime_says(server):
    want = s.scores_after(PROMPT, 12)
    choice = server.complete(PROMPT, 12, logprobs=3)[1]["choices"][0]
    got = choice["logprobs"]
    assert "".join(got["tokens"]) == choice["text"] == s.text_after(PROMPT, 12)
    assert [choice["text"][at:].startswith(t) for t, at in zip(got["tokens"], got["text_offset"])] == [True] * 12
    for p, top, scores in zip(got["token_logprobs"], got["top_logprobs"], want):
        best = np.sort(scores)[::-1][:3]
        assert len(top) == 3 and p == max(top.values()) and np.abs(np.array(list(top.values())) - best).max() < 1e-3
    with server.begin(PROMPT, 12, stream=True, logprobs=0) as c:
        parts = [c["logprobs"] for e in s.events(s.all_of(c))[:-1] for c in e["choices"]]
    assert sum((p["tokens"] for p in parts), []) == got["tokens"] and sum((p["text_offset"] for p in parts), []) == got["text_offset"]
    assert all(top == {} for p in parts for top in p["top_logprobs"])


def test_chance_follows_its_seed(server):
    def say(**how):
        return server.complete(PROMPT, 30, **({"temperature": 1.0} | how))[1]["choices"][0]["text"]
    assert say(seed=1) == say(seed=1) != say(seed=2)
    assert say(seed=3, top_p=1e-9) == s.text_after(PROMPT, 30)       # of the likeliest alone


def test_many_at_once_say_what_each_says_alone(server):
    import random
    asked = questions(12, random.Random(7))
    asked = [(p, n) for p, n in asked if len(s.encoded(p.encode())) <= 64]
    open_ones = [(p, n, server.begin(p, n, stream=True)) for p, n in asked * 2]
    for prompt, n, c in open_ones:
        with c:
            assert s.text_of(s.events(s.all_of(c))) == s.text_after(prompt, n)


def test_what_there_is(server):
    status, models = server.ask("GET", "/v1/models")
    assert status == 200 and [m["id"] for m in models["data"]] == ["austen"] and models["data"][0]["max_model_len"] == 600
    assert server.health()["status"] == "ok"


# ---- what it refuses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields, status, says", [
    ({"prompt": None}, 400, "the prompt is to be a string"), ({"prompt": ""}, 400, "the prompt is empty"),
    ({"prompt": ["a", 1]}, 400, "whole numbers"), ({"prompt": ["a", ""]}, 400, "the prompt is empty"), ({"prompt": ["a"] * 129}, 400, "there are 129 prompts; at most 128"),
    ({"stream_options": {}}, 400, "stream is to be true"), ({"stream": True, "stream_options": 1}, 400, "stream_options is to be an object"),
    ({"stream": True, "stream_options": {"tempo": 1}}, 400, 'there is no field "tempo"'),
    ({"prompt": [1, 512]}, 400, "token 1 of the prompt is 512; the model has tokens 0 to 511"),
    ({"prompt": [-1]}, 400, "token 0 of the prompt is -1"), ({"prompt": [0] * 65}, 400, "the prompt has 65 tokens; at most 64 are possible"),
    ({"max_tokens": 0}, 400, "max_tokens is 0; 1 to 512 are possible"), ({"max_tokens": 513}, 400, "max_tokens is 513; 1 to 512"),
    ({"max_tokens": 1.5}, 400, "max_tokens is to be a whole number"), ({"max_tokens": 10 ** 17}, 400, "1 to 512 are possible"),
    ({"prompt": [0] * 64, "max_tokens": 512, "temperature": 2.5}, 400, "temperature is 2.5; 0 to 2 are possible"),
    ({"top_p": -1}, 400, "top_p is -1; 0 to 1"), ({"seed": "x"}, 400, "seed is to be a whole number"),
    ({"stop": ["a"] * 5}, 400, "stop has 5 strings; at most 4"), ({"stop": ""}, 400, "a stop string has 0 bytes; 1 to 64"), ({"stop": [1]}, 400, "stop is to be"),
    ({"stream": "yes"}, 400, "stream is to be true or false"), ({"n": 2}, 400, "n can only be 1 here"), ({"logprobs": 6}, 400, "logprobs is 6; 0 to 5 are possible"),
    ({"tempo": 1}, 400, 'there is no field "tempo"'), ({"ä" * 40: 1}, 400, "there is no field"), ({"model": "gpt"}, 404, 'there is no model "gpt" here, there is "austen"'),
])
def test_fields(server, fields, status, says):
    got, answer = server.ask("POST", "/v1/completions", FIELDS | fields)
    assert got == status and says in answer["error"]["message"], answer
    assert set(answer["error"]) == {"message", "type", "param", "code"}


def test_both_lengths_together(artefact):
    with s.Server(artefact, "--context", 50) as one:
        status, answer = one.complete([0] * 40, 11)
        assert status == 400 and "40 tokens of the prompt and max_tokens 11 are 51; at most 50 are possible" in answer["error"]["message"]
        assert one.complete([0] * 40, 10)[0] == 200


@pytest.mark.parametrize("body, says", [
    (b"", "no JSON"), (b"{", "line 1, column 1"), (b"[1]", "a JSON object"), (b'{"prompt": "a", "prompt": "b"}', "duplicate"), (b'{"prompt": "\xff"}', "no JSON"),
    (b'{"prompt": "\\u0000"}', "no JSON"), (b"[" * 3000, "no JSON"), (b'{"seed": 123456789012345678901234567890}', "no JSON"),
])
def test_bodies(server, body, says):
    status, answer = server.ask("POST", "/v1/completions", body)
    assert status == 400 and says in answer["error"]["message"], answer


def test_bodies_too_large(server):
    for size in (4001, 20000, 10 ** 9):
        with server.connect() as c:
            c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size + b" " * min(size, 20000))
            answer = c.recv(4096)
        assert b" 413 " in answer and b"the body has %d bytes; at most 4000 are possible" % size in answer, answer
    with server.connect() as c:                      # of no length that it tells
        c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1000\r\n" + b" " * 4096 + b"\r\n0\r\n\r\n")
        assert b"the body has 4096 bytes; at most 4000 are possible" in c.recv(4096)


def test_other_doors(server):
    status, answer = server.ask("GET", "/v2/" + "x" * 200)
    assert status == 404 and "there are POST /v1/completions, GET /v1/models, " in answer["error"]["message"]
    status, answer = server.ask("DELETE", "/health")
    assert status == 405 and "/health takes GET, not DELETE" in answer["error"]["message"]


@pytest.mark.parametrize("sent", [b"\0\1\2\3\r\n\r\n", b"GET\r\n\r\n", b"GET /health HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{",
                                  b"GET /" + b"x" * 100000 + b" HTTP/1.1\r\n\r\n", b"GET /health HTTP/1.1\r\n" + b"A: b\r\n" * 20000 + b"\r\n"])
def test_what_is_no_http_or_never_ends(server, sent):
    start = time.monotonic()
    with server.connect() as c:
        try:
            c.sendall(sent)
        except ConnectionError:
            pass
        answer = s.all_of(c)
    assert b" 200 " not in answer and time.monotonic() - start < 5
    assert server.complete(PROMPT, 4)[0] == 200


def test_a_request_that_trickles_in(server):
    start = time.monotonic()
    with server.connect() as c:
        try:
            for byte in s.post(FIELDS):
                c.sendall(bytes([byte]))
                time.sleep(0.1)
        except ConnectionError:
            pass
        assert s.all_of(c) == b""
    assert time.monotonic() - start < 5


# ---- who leaves, and who waits ------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_frees_its_place(artefact, stream):
    with s.Server(artefact, "--sequences", 1, "--context", 100000, "--tokens", 90000) as one:
        with one.begin(PROMPT, 90000, stream=stream):
            one.until(lambda h: h["running"] == 1)
        one.until(lambda h: h["running"] == 0 and h["dropped"] == 1, 2)
        assert one.complete(PROMPT, 8)[1]["choices"][0]["text"] == s.text_after(PROMPT, 8)


def test_a_slow_reader_is_dropped(server):
    before = server.health()["dropped"]
    with server.begin(PROMPT, 500, received=4096, stream=True) as c:
        assert b"[DONE]" not in s.read_slowly(c)
    server.until(lambda h: h["dropped"] == before + 1)


def test_a_full_queue(artefact):
    with s.Server(artefact, "--sequences", 1, "--queue", 1, "--context", 100000, "--tokens", 90000) as one:
        with one.begin(PROMPT, 90000):
            one.until(lambda h: h["running"] == 1)
            with one.begin(PROMPT, 8) as second:
                one.until(lambda h: h["queued"] == 1)
                status, answer = one.complete(PROMPT, 8)
                assert status == 503 and answer["error"] == {"message": "1 requests wait already; at most 1 can", "type": "overloaded_error", "param": None, "code": None}
                assert one.health()["queued"] == 1
                second.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    second.recv(1)
        one.until(lambda h: h["running"] + h["queued"] == 0)


def test_time_passes(artefact):
    # the stream is not read before its time is over, and must not be dropped for that
    with s.Server(artefact, "--sequences", 1, "--seconds", 0.5, "--context", 100000, "--tokens", 90000, "--unread", 1 << 26) as one:
        with one.begin(PROMPT, 90000, stream=True) as streamed:
            one.until(lambda h: h["running"] == 1)
            status, answer = one.complete(PROMPT, 90000)             # waits for the one place
            assert status == 504 and re.search("took longer than 0.5 s; [0-9]+ of at most 90000 tokens were made", answer["error"]["message"]), answer
            got = s.events(s.all_of(streamed))
        assert got[-1] == "[DONE]" and "took longer than 0.5 s; " in got[-2]["error"]["message"]
        assert one.complete(PROMPT, 8)[0] == 200


def test_it_stops_when_what_runs_has_ended(artefact):
    with s.Server(artefact, "--context", 5000, "--tokens", 4000) as one:
        with one.begin(PROMPT, 1500, stream=True) as c:
            assert c.recv(1)
            one.process.send_signal(signal.SIGTERM)
            assert s.all_of(c).rstrip().endswith(b"data: [DONE]\n\n\r\n0")
        assert one.process.wait(10) == 0
    with s.Server(artefact, "--grace-seconds", 0.2, "--context", 100000, "--tokens", 90000) as one:
        with one.begin(PROMPT, 90000):
            one.until(lambda h: h["running"] == 1)
            one.process.send_signal(signal.SIGTERM)
            assert one.process.wait(10) == 0


def test_it_does_not_begin(artefact, tmp_path):
    plain = tmp_path / "plain.so"
    subprocess.run([s.TENON, "compile", s.HERE / "austen.onnx", "--dim", "past=0", "-o", plain], check=True, capture_output=True)
    (tmp_path / "less.txt").write_text("".join(s.TOKENS.read_text().splitlines(True)[:100]))
    for words, says in (
            ((), "usage: tenon-serve"), ((artefact, s.TOKENS, "--queu", "5"), "there is no option --queu"), ((artefact, s.TOKENS, "--queue"), "--queue is not given"),
            ((artefact, s.TOKENS, "--port", "65536"), "--port is 65536; 0 to 65535 are possible"), ((artefact, s.TOKENS, "--chunk", "1.5"), "--chunk is 1.5; 1 to 4096"),
            ((artefact, s.TOKENS, "--address", "here"), "an IPv4 address is needed"), ((tmp_path / "none.so", s.TOKENS), "none.so"),
            ((plain, s.TOKENS), "keeps no cache between runs"), ((artefact, tmp_path / "less.txt"), "has 356 tokens, the model scores 512"),
            ((artefact, tmp_path / "none.txt"), "cannot open")):
        done = subprocess.run([s.BUILD / "tenon-serve", *words], capture_output=True, text=True, timeout=60)
        assert done.returncode not in (0, -6, -11) and says in done.stderr, (words, done)
    with s.Server(artefact) as one:
        done = subprocess.run([s.BUILD / "tenon-serve", artefact, s.TOKENS, "--port", str(one.port)], capture_output=True, text=True, timeout=60)
        assert done.returncode and f"cannot listen on 127.0.0.1, port {one.port}: Address already in use" in done.stderr
    help_ = subprocess.run([s.BUILD / "tenon-serve", "--help"], capture_output=True, text=True).stdout
    assert "--receive-seconds" in help_


def test_load(artefact):
    """64 clients, kills and slow readers among them; ten minutes at night."""
    with s.Server(artefact, "--unread", 8192) as one:
        done = load(one, 600 if os.environ.get("TENON_NIGHTLY") else 8, 64)
    print(json.dumps(done))
