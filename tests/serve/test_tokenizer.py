"""examples/serve with a tokenizer.json: its tokens are those of Hugging Face's library (data/expect_tokens.py)."""
import json
import pathlib
import sys

import pytest
import server as s

sys.path.insert(0, str(pathlib.Path(__file__).parent / "data"))
import expect_tokens as made  # noqa: E402

WANTED = json.loads((made.HERE / "tokens.json").read_text())


@pytest.mark.parametrize("kind", sorted(made.KINDS))
def test_tokens(artefact, tmp_path, kind):
    (tmp_path / "tokenizer.json").write_text(json.dumps(made.tokenizer(kind)))
    with s.Server(artefact, "--prompt", 5000, "--context", 6000, tokens=tmp_path / "tokenizer.json") as one:
        for text, ids in WANTED[kind]:
            status, answer = one.ask("POST", "/tokenize", {"prompt": text})
            assert answer["tokens"] == ids if ids else status == 400 and "the prompt is empty" in answer["error"]["message"], text


def test_a_folder(artefact, tmp_path):
    """The template, and what ends a text, are the folder's; special tokens are no text."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(made.tokenizer("llama")))
    ends = s.written(made.TEXTS[0], 12)[0]
    text = s.text_after(made.TEXTS[0], 12)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "<|end|>"}, "chat_template": "{{ messages[0].content }}"}))
    with s.Server(artefact, tokens=tmp_path) as one:
        ids = s.encoded(made.TEXTS[0].encode())
        assert one.complete(ids, 12)[1]["choices"][0]["text"] == text
        asked = {"messages": [{"role": "user", "content": made.TEXTS[0]}], "temperature": 0, "max_tokens": 12}
        assert one.ask("POST", "/v1/chat/completions", asked)[1]["choices"][0]["finish_reason"] == "length"
        assert one.ask("POST", "/tokenize", {"messages": asked["messages"]})[1]["tokens"] == WANTED["llama"][0][1][1:-1]      # nothing around it
    last = max(i for i in range(12) if ends.index(ends[i]) == i)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [5, ends[last]]}))
    (tmp_path / "chat_template.jinja").write_text("{{ eos_token }}a file")
    with s.Server(artefact, tokens=tmp_path) as one:
        choice = one.complete(ids, 12)[1]["choices"][0]
        assert choice["finish_reason"] == "stop" and text.startswith(choice["text"]) and choice["text"] != text
        assert one.ask("POST", "/tokenize", {"messages": asked["messages"]})[1]["prompt"] == "<|end|>a file"


def test_a_long_text_is_quick(artefact, tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(made.tokenizer("removed")))
    with s.Server(artefact, tokens=tmp_path / "tokenizer.json") as one:
        for text in ("a" * 900_000, " " * 900_000, "ab" * 400_000):
            status, answer = one.complete(text, 1)
            assert status == 400 and ("at most 512 are possible" in answer["error"]["message"] or "is empty" in answer["error"]["message"]), answer


def changed(kind="bytes", **how):
    t = made.tokenizer(kind)
    for path, value in how.items():
        at, *keys = path.split("__")
        if keys:
            t[at][keys[0]] = value
        else:
            t[at] = value
    return t


@pytest.mark.parametrize("tokenizer, says", [
    (changed(model__type="Unigram"), "a model of type Unigram is not supported: there is BPE"), (changed(model__byte_fallback=True), "byte_fallback"), (changed(model__vocab={}), "the model has no vocab"),
    (changed(model__merges=["a b", "zz zz"]), "merge 1 is not of two tokens"), (changed(pre_tokenizer={"type": "Metaspace"}), "a pre_tokenizer Metaspace is not supported: there are ByteLevel, Split"),
    (changed(pre_tokenizer=None), "a pre_tokenizer null is not supported"), (changed(pre_tokenizer=made.split("a")), "no pre_tokenizer is ByteLevel"),
    (changed(pre_tokenizer=made.split("(a")), 'the pattern "(a": missing closing parenthesis'), (changed(pre_tokenizer=made.split("a", behavior="MergedWithNext")), "a Split of behavior MergedWithNext"),
    (changed(normalizer={"type": "Lowercase"}), "a normalizer Lowercase is not supported: there is NFC"), (changed(post_processor={"type": "BertProcessing"}), "a post_processor BertProcessing is not supported"),
    (changed(added_tokens=[made.added(2, "x", single_word=True)]), "added token 0 is a single_word"), (changed(added_tokens=[made.added(1 << 22, "x")]), "token 4194304 is not among"),
    (changed(added_tokens=[made.added(600, "x")]), "has 601 tokens, the model scores 512"), ([], "model of type"), ("{", "line 1"),
])
def test_what_is_refused(artefact, tmp_path, tokenizer, says):
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer if isinstance(tokenizer, str) else json.dumps(tokenizer))
    said = s.refused(artefact, path)
    assert says in said and "tokenizer.json" in said, said
