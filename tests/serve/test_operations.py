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
    done = subprocess.run([s.BUILD / "tenon-serve", artefact, s.TOKENS, "--api-key", f"@{tmp_path}/none"], capture_output=True, text=True, timeout=60)
    assert done.returncode and "--api-key: there is no key to read in " in done.stderr and "none" in done.stderr


def packages(*parts) -> set[str]:
    rows = [line.split() for line in (s.ROOT / "tools/packages").read_text().splitlines() if line and line[0] != "#"]
    return {row[1] for row in rows if row[0] in parts}


def test_it_is_installed_with_its_unit(artefact, tmp_path):
    prefix = tmp_path / "a prefix"
    subprocess.run(["cmake", "--install", s.BUILD, "--prefix", prefix], check=True, capture_output=True)
    unit = (prefix / "lib/systemd/system/tenon-serve@.service").read_text()
    program, names = re.search(r'^ExecStart="(.*?)" (.*)$', unit, re.M).groups()
    assert program == str(prefix / "bin/tenon-serve") and "@" not in unit.split("[Unit]")[1]
    # as systemd takes them: each $NAME becomes its words
    settings = {"$MODEL": [artefact], "$TOKENS": [s.TOKENS], "$OPTIONS": ["--port", "0"]}
    words = [word for name in names.split() for word in settings[name]]
    one = s.Server(artefact)
    one.words = [program, *words]
    with one:
        assert one.complete(PROMPT, 8)[1]["choices"][0]["text"] == s.text_after(PROMPT, 8)


def test_the_image_has_what_the_server_needs():
    """The image is not built here: its packages and options are those that are."""
    text = (s.ROOT / "examples/serve/Dockerfile").read_text()
    _, build, run = text.split("\nFROM ")
    assert packages("build", "serve") <= set(build.split())
    needed = subprocess.run(["ldd", s.BUILD / "tenon-serve"], capture_output=True, text=True, check=True).stdout
    for name, package in (("microhttpd", "libmicrohttpd12"), ("jansson", "libjansson4"), ("pcre2-8", "libpcre2-8-0"), ("utf8proc", "libutf8proc2")):
        assert f"lib{name}.so" in needed and package in run
    said = subprocess.run([s.BUILD / "tenon-serve", "--help"], capture_output=True, text=True).stdout
    assert all(option in said for option in re.findall(r"tenon-serve /.* (--[a-z-]+)", text))


def test_eight_clients_share_steps(artefact):
    """Runs of the model, counted: eight at once take not many more than one, and each gets what it gets alone."""
    def steps(n):
        with s.Server(artefact, "--sequences", 8) as one:
            asked = [one.begin(PROMPT, 200, stream=True) for _ in range(n)]
            for c in asked:
                with c:
                    assert s.text_of(s.events(s.all_of(c))) == s.text_after(PROMPT, 200)
            return one.metrics()
    alone, together = steps(1), steps(8)
    assert alone["tenon_steps_total"] == 200 and alone["tenon_completion_tokens_total"] == 200
    assert together["tenon_completion_tokens_total"] == 1600 and together["tenon_steps_total"] <= 400, together
