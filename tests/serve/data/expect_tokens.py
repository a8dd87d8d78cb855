#!/usr/bin/env python3
"""What Hugging Face's tokenizers make of texts: writes tokens.json, which the tests compare with.

    pip install tokenizers; python3 expect_tokens.py

The vocabulary is that of examples/generate/tokens.txt, so that its model can be served with it.
"""
import json
import pathlib

HERE = pathlib.Path(__file__).parent
LLAMA = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
WHOLE = BYTES | {"use_regex": False}


def split(regex=None, string=None, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": regex} if regex else {"String": string}, "behavior": behavior, "invert": invert}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def added(i, content, **how):
    return {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} | how


ADDED = [added(510, "<|end|>"), added(511, "<tool>", special=False), added(509, "<|end|><|", lstrip=True, rstrip=True)]
TEMPLATE = {"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
            {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|end|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<tool>", "type_id": 0}}],
             "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
             "special_tokens": {t: {"id": t, "ids": [i], "tokens": [t]} for t, i in (("<|end|>", 510), ("<tool>", 511))}}]}
KINDS = {
    "bytes": {"pre_tokenizer": BYTES},
    "prefix": {"pre_tokenizer": BYTES | {"add_prefix_space": True}},
    "llama": {"pre_tokenizer": sequence(split(LLAMA), WHOLE), "post_processor": TEMPLATE, "added_tokens": ADDED, "ignore_merges": True},
    "composed": {"pre_tokenizer": sequence(split(LLAMA.replace("{1,3}", "")), WHOLE), "normalizer": {"type": "NFC"}, "added_tokens": ADDED},
    "digits": {"pre_tokenizer": sequence({"type": "Digits", "individual_digits": True}, BYTES)},
    "numbers": {"pre_tokenizer": sequence({"type": "Digits", "individual_digits": False}, BYTES), "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]}},
    "removed": {"pre_tokenizer": sequence(split(r"\s+", behavior="Removed"), WHOLE)},
    "kept": {"pre_tokenizer": sequence(split(r"\p{L}+", behavior="Removed", invert=True), WHOLE)},
    "literal": {"pre_tokenizer": sequence(split(string="th."), WHOLE), "pairs": True},
}
TEXTS = ["It is a truth universally acknowledged, that", "I'll say: it's 12345 o'clock, DON'T wait!", "  two\n\n  lines \r\n\tand   blanks   ", "caf\u00e9 cafe\u0301 \u1100\u1161 \u6f22\u5b57 \U0001f600\U0001f469\u200d\U0001f467 \u0663\u0664 \u00bd", "",
         "a<|end|>  <tool> b <|end|><|  the end<|end|>", "the.th.the", "x" * 300 + "the the" * 40, "\u3000wide\u00a0blank\u2028line", "!!!???...---", "<|en d|>", "'S 'RE \u017fee 'll"]


def characters():
    """A visible character for each byte."""
    out, n = [], 256
    for b in range(256):
        seen = 32 < b < 127 or 160 < b != 173
        out.append(chr(b if seen else n))
        n += not seen
    return out


def tokenizer(kind: str) -> dict:
    how, words, merges = KINDS[kind], characters(), []
    for line in (HERE.parents[2] / "examples" / "generate" / "tokens.txt").read_text().splitlines():
        left, right = map(int, line.split())
        merges.append([words[left], words[right]] if how.get("pairs") else f"{words[left]} {words[right]}")
        words.append(words[left] + words[right])
    special = [t for t in how.get("added_tokens", [])]
    taken = {t["id"] for t in special}
    merges = merges[:len(merges) - len(taken)]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": sorted(special, key=lambda t: t["id"]), "normalizer": how.get("normalizer"), "pre_tokenizer": how["pre_tokenizer"],
            "post_processor": how.get("post_processor"), "decoder": BYTES, "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
            "fuse_unk": False, "byte_fallback": False, "ignore_merges": how.get("ignore_merges", False), "vocab": {w: i for i, w in enumerate(words) if i not in taken}, "merges": merges}}


def main():
    from tokenizers import Tokenizer
    out = {}
    for kind in KINDS:
        t = Tokenizer.from_str(json.dumps(tokenizer(kind)))
        out[kind] = [[text, t.encode(text).ids] for text in TEXTS]
    (HERE / "tokens.json").write_text(json.dumps(out) + "\n")
    print({k: sum(len(ids) for _, ids in v) for k, v in out.items()})


if __name__ == "__main__":
    main()
