"""examples/serve as those who run it see it: metrics, a line for each request, a key."""
import re
import subprocess

import pytest
import server as s

PROMPT = "She was"


def test_metrics_count_what_was_done(artefact):
    with s.Server(artefact) as one:
        one.complete(PROMPT, 20)
        one.complete([PROMPT] * 3, 20)
        one.ask("POST", "/v1/completions", {})
        one.ask("GET", "/nowhere")
        with one.begin(PROMPT, 400, stream=True):
            one.until(lambda h: h["running"] == 1)
        one.until(lambda h: h["running"] == 0)
        m = one.metrics()
    assert m['tenon_requests_total{path="/v1/completions",status="200"}'] == 3 and m['tenon_requests_total{path="/v1/completions",status="400"}'] == 1
    assert m['tenon_requests_total{path="other",status="404"}'] == 1 and m["tenon_dropped_total"] == 1
    assert m["tenon_prompt_tokens_total"] == 5 * len(s.encoded(PROMPT.encode())) and 80 <= m["tenon_completion_tokens_total"] < 480
    assert m["tenon_request_seconds_count"] == m['tenon_request_seconds_bucket{le="+Inf"}'] == 3 and m["tenon_request_seconds_sum"] > 0
    assert m["tenon_first_token_seconds_count"] == 5 and m["tenon_sequences_running"] == m["tenon_sequences_waiting"] == 0


def test_a_line_for_each_request(artefact):
    with s.Server(artefact) as one:
        one.complete(PROMPT, 20)
        one.ask("POST", "/v1/completions", {"prompt": PROMPT, "n": 2})
        one.ask("GET", "/a%0ab")
        with one.begin(PROMPT, 400, stream=True):
            one.until(lambda h: h["running"] == 1)
        one.until(lambda h: h["running"] == 0)
        lines = [line for line in one.log() if "/health" not in line]
    when = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ 127\.0\.0\.1 "
    for line, says in zip(lines, (r"POST /v1/completions 200 \d+\.\d{3} cmpl-\d+ prompt=\d made=20$", r"POST /v1/completions 400 \d\.\d{3}: n can only be 1 here$",
                                  r"GET /a\?b 404 \d\.\d{3}: there is no /a", r"POST /v1/completions 200 .* dropped$"), strict=True):
        assert re.search(when + says, line), line
    with s.Server(artefact, "--log", 0) as one:
        one.complete(PROMPT, 2)
        assert one.log() == []


@pytest.mark.parametrize("in_file", [False, True])
def test_a_key(artefact, tmp_path, in_file):
    (tmp_path / "key").write_text("secret\n")
    with s.Server(artefact, "--api-key", f"@{tmp_path}/key" if in_file else "secret") as one:
        for headers, says in (({}, "wants a key"), ({"Authorization": "secret"}, "wants a key"), ({"Authorization": "Bearer secre"}, "is not this server's"),
                              ({"Authorization": "Bearer secret2"}, "is not this server's")):
            for method, path in (("POST", "/v1/completions"), ("GET", "/v1/models")):
                status, answer = one.ask(method, path, {"prompt": PROMPT}, **headers)
                assert status == 401 and says in answer["error"]["message"] and answer["error"]["code"] == "invalid_api_key"
        assert one.ask("POST", "/v1/completions", {"prompt": PROMPT}, Authorization="Bearer secret")[0] == 200
        assert one.health()["status"] == "ok" and one.metrics()["tenon_completion_tokens_total"] == 16


def test_a_key_that_cannot_be_read(artefact, tmp_path):
    done = subprocess.run([s.BUILD / "serve", artefact, s.TOKENS, "--api-key", f"@{tmp_path}/none"], capture_output=True, text=True, timeout=60)
    assert done.returncode and "--api-key: there is no key to read in " in done.stderr and "none" in done.stderr
