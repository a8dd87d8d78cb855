"""examples/serve: chats. What templates make is what Jinja makes of them (data/expect.py)."""
import json
import pathlib

import numpy as np
import pytest
import server as s

MADE = json.loads((pathlib.Path(__file__).parent / "data" / "templates.json").read_text())
SIMPLE = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system here') }}{% endif %}{{ m.content }}{% endfor %}"
ASKED = [{"role": "user", "content": "It is a truth universally acknowledged, that"}]


@pytest.fixture(scope="module")
def server(artefact, tmp_path_factory):
    template = tmp_path_factory.mktemp("chat") / "chat.jinja"
    template.write_text(SIMPLE)
    with s.Server(artefact, "--chat-template", template, "--name", "austen", "--context", 200, "--tokens", 100) as one:
        yield one


def chat(server, messages=ASKED, **fields):
    return server.ask("POST", "/v1/chat/completions", {"messages": messages, "temperature": 0} | fields)


@pytest.mark.parametrize("template", sorted({m["template"] for m in MADE}))
def test_templates_are_jinja(artefact, tmp_path, template):
    config = tmp_path / "tokenizer_config.json"
    config.write_text(json.dumps({"chat_template": template, "bos_token": "<s>", "eos_token": {"content": "</s>"}}))
    with s.Server(artefact, "--chat-template", config) as one:
        for made in MADE:
            if made["template"] == template:
                status, answer = one.ask("POST", "/tokenize", {"messages": made["messages"]})
                assert status == 200 and answer["prompt"] == made["prompt"]
                assert answer["tokens"] == s.encoded(made["prompt"].encode()) and answer["count"] == len(answer["tokens"])


@pytest.mark.parametrize("template, says", [
    ("a\n{% if x %}", 'line 2 of the template: "endif" is wanted, the template ends'), ("{% for x in y %}{% endif %}", '"endfor" is wanted, "endif" comes'), ("{{ x", '"}}" is wanted'),
    ("{% macro f() %}", 'a block "macro" is not among those that this server knows'), ("{{ x | sort }}", 'there is no filter "sort"'), ("{{ x.pop() }}", 'there is no function or method "pop"'),
    ("{{ 'a }}", "a string does not end"), ("{# a", "a comment does not end"), ("{{ " + "(" * 200, "nested deeper than 100"), ("{% endfor %}", '"endfor" ends no block'), ("{{ 1 + }}", "a name is wanted"),
])
def test_templates_that_are_refused(artefact, tmp_path, template, says):
    (tmp_path / "chat.jinja").write_text(template)
    one = s.refused(artefact, s.TOKENS, "--chat-template", tmp_path / "chat.jinja")
    assert "chat.jinja: line " in one and says in one, one


def test_files_that_are_refused(artefact, tmp_path):
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "b.json").write_text("{")
    for name, says in (("a.json", "has no chat_template"), ("b.json", "line 1"), ("c.jinja", "cannot read the template"), ("c.json", "unable to open")):
        assert says in s.refused(artefact, s.TOKENS, "--chat-template", tmp_path / name)


@pytest.mark.parametrize("template, says", [
    ("{{ x.y.z }}", "is undefined and has nothing inside"), ("{% for i in range(10000000) %}{% endfor %}", "more than 1048576 steps"),
    ("{{ 1 / 0 }}", "a division by 0"), ("{{ 'a' + 1 }}", "numbers are wanted"), ("{{ [].upper() }}", 'lists have no method "upper"'), ("{% set a.b = 1 %}", "a is no namespace"),
])
def test_templates_that_fail(artefact, tmp_path, template, says):
    (tmp_path / "chat.jinja").write_text(template)
    with s.Server(artefact, "--chat-template", tmp_path / "chat.jinja") as one:
        status, answer = chat(one)
        assert status == 400 and says in answer["error"]["message"], answer
        assert one.health()["status"] == "ok"


def test_a_chat(server):
    prompt = ASKED[0]["content"]
    status, answer = chat(server, max_tokens=20, model="austen")
    assert status == 200 and answer["object"] == "chat.completion" and answer["id"].startswith("chatcmpl-")
    assert answer["choices"] == [{"index": 0, "message": {"role": "assistant", "content": s.text_after(prompt, 20)}, "logprobs": None, "finish_reason": "length"}]
    assert chat(server, [{"role": "user", "content": [{"type": "text", "text": prompt[:9]}, {"type": "text", "text": prompt[9:]}]}], max_completion_tokens=20)[1]["choices"] == answer["choices"]
    assert chat(server)[1]["usage"]["completion_tokens"] == 100          # all that there is room for


def test_a_stream(server):
    prompt = ASKED[0]["content"]
    with server.begin_chat(ASKED, 20, stream=True, stream_options={"include_usage": True}) as c:
        got = s.events(s.all_of(c))
    deltas = [e["choices"][0] for e in got[:-2]]
    assert deltas[0]["delta"]["role"] == "assistant" and all("role" not in d["delta"] for d in deltas[1:])
    assert "".join(d["delta"]["content"] for d in deltas) == s.text_after(prompt, 20) and deltas[-1]["finish_reason"] == "length"
    assert got[0]["object"] == "chat.completion.chunk" and got[-2]["usage"]["completion_tokens"] == 20


def test_logprobs(server):
    want = s.scores_after(ASKED[0]["content"], 8)
    content = chat(server, max_tokens=8, logprobs=True, top_logprobs=12)[1]["choices"][0]["logprobs"]["content"]
    assert len(content) == 8
    for token, scores in zip(content, want):
        assert bytes(token["bytes"]).decode() == token["token"] == token["top_logprobs"][0]["token"] and len(token["top_logprobs"]) == 12
        assert np.abs([t["logprob"] for t in token["top_logprobs"]] - np.sort(scores)[::-1][:12]).max() < 1e-3


@pytest.mark.parametrize("fields, says", [
    ({"messages": []}, "messages are to be a list"), ({"messages": "x"}, "messages are to be a list"), ({"messages": [{"content": "x"}]}, "message 0: role is to be a string"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "message 0: content is to be a string, or parts of type text"), ({"messages": [{"role": "user"}]}, "message 0: content"),
    ({"messages": [{"role": "system", "content": "x"}]}, "the model's template refuses these messages: line 1 of the template: no system here"),
    ({"messages": [{"role": "user", "content": ""}]}, "the prompt is empty"), ({"top_logprobs": 2}, "top_logprobs want logprobs to be true"), ({"logprobs": True, "top_logprobs": 21}, "top_logprobs is 21; 0 to 20"),
    ({"tools": [{}]}, "tools can only be [] here"), ({"prompt": "x"}, 'there is no field "prompt"'),
])
def test_what_is_refused(server, fields, says):
    status, answer = chat(server, **fields)
    assert status == 400 and says in answer["error"]["message"], answer


def test_no_template(artefact):
    with s.Server(artefact) as one:
        status, answer = chat(one)
        assert status == 404 and "this model has no template of chats" in answer["error"]["message"]
        assert one.ask("POST", "/tokenize", {"prompt": "She was"})[1]["tokens"] == s.encoded(b"She was")
