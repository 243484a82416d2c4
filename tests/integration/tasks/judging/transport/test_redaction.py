"""The key of an endpoint stands in nothing that the endpoint says, however it is written."""

import json
from pathlib import Path

import pytest

from gradebook.tasks.judging.transport.redaction import KeyMask
from tests.support.asked import CANARY, ask, journaled
from tests.support.law_over import law_over
from tests.support.loopback_judge import LoopbackJudge

KEY = 'sk-a/b"c\\d-0123456789'
WAYS = {
    "as it is": KEY,
    "as JSON": json.dumps(KEY),
    "JSON in JSON": json.dumps(json.dumps(KEY)),
    "every letter escaped": "".join(f"\\u{ord(letter):04x}" for letter in KEY),
    "in capitals": "".join(f"\\u{ord(letter):04X}" for letter in KEY),
    "escaped in a text in a text": json.dumps("".join(f"\\u{ord(letter):04x}" for letter in KEY)),
    "a slash escaped": json.dumps(KEY).replace("/", "\\/"),
    "NULs between": "\x00".join(KEY),
    "NULs between, as JSON": json.dumps("\x00".join(KEY)),
    "NULs between, JSON in JSON": json.dumps(json.dumps("\x00\x00".join(KEY))),
    "NULs and letters escaped": "\\u0000".join(f"\\u{ord(letter):04x}" for letter in KEY),
}


@law_over("written", WAYS.values())
def test_a_key_is_struck_out_however_it_is_written(written: str):
    mask = KeyMask(KEY)
    assert mask.text(f"a {written} b").strip('ab "\\') == "[key]"
    assert mask.content(f"a {written} b".encode()).strip(b'ab "\\') == b"[key]"


@law_over("key", [KEY, "/slash-first-0123", "\\\\two-first-0123", "ends-with-two-\\\\", "sk-a\\/b\\\\c\\"])
@law_over("depth", [1, 2, 3])
def test_keys_of_any_letters_are_struck_out_of_texts_in_texts(key: str, depth: int):
    for written in (key, "".join(f"\\u{ord(letter):04x}" for letter in key)):
        text = written
        for _ in range(depth):
            text = json.dumps(text)
        assert KeyMask(key).text(f"a {text} b").strip('ab "\\') == "[key]"


@law_over("key", [KEY, "/slash-first-0123", "\\\\two-first-0123"])
@law_over("before", ["", "s", 'sk-a/b"c'])
def test_a_million_backslashes_are_read_to_their_end(key: str, before: str):
    text = before + "\\" * 1_000_000
    assert KeyMask(key).text(text) == text
    assert KeyMask(key).content(text.encode()) == text.encode()


@pytest.mark.parametrize("key", ["0a1b2c3d", "00ab12cd"])
@pytest.mark.parametrize("escape", ["\\u0000", "\\\\u0000"])
def test_escaped_nuls_are_read_once_where_a_key_begins_with_0(key: str, escape: str):
    nuls = escape * 150_000  # read anew from each escape, they would take minutes
    assert KeyMask(key).content(f"{nuls}{key}".encode()) == f"{nuls}[key]".encode()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-32-le"])
def test_a_key_in_a_body_of_wide_letters_is_struck_out(encoding: str):
    read = KeyMask(KEY).content(f"bad key {KEY}".encode(encoding)).decode("utf-8", "replace")
    assert KEY not in read.replace("\x00", "")


def test_a_text_is_cleaned_before_the_key_is_looked_for():
    assert KeyMask(KEY).text("\x00".join(f"bad {KEY}") + "\ud800") == "bad [key]?"


def test_what_is_left_of_json_is_json():
    text = json.dumps({"a\\": f"one\\{KEY}\n", "b": json.dumps([KEY])})
    assert json.loads(KeyMask(KEY).text(text))["b"] == '["[key]"]'


@pytest.mark.parametrize("text", ["sk-b/b", r"\u0073k", "another key"])
def test_other_texts_stay_as_they_are(text: str):
    assert KeyMask(KEY).text(text) == text


def test_a_short_key_is_left_in_the_words_where_it_stands():
    assert KeyMask("none").text("none of them") == "none of them"


def test_a_key_in_escapes_is_not_in_the_journal(judge: LoopbackJudge, tmp_path: Path):
    def echo(body: dict[str, object]) -> str:
        return json.dumps({"evidence": [], "rationale": CANARY, "level": "x"}).replace("-", "\\u002d")

    judge.writer = echo
    ask(judge, tmp_path)
    row = journaled(tmp_path).to_pylist()[0]
    assert "[key]" in row["reply"]
    assert "canary" not in str(row)


@pytest.mark.parametrize("fault", ["null error", "wide error"])
def test_a_key_with_nuls_in_an_error_is_in_no_reason(judge: LoopbackJudge, tmp_path: Path, fault: str):
    judge.faults = [fault] * 9
    reason = ask(judge, tmp_path)[0].reason or ""
    assert reason.startswith("endpoint_error: HTTP 418")
    assert "canary" not in reason


def test_a_key_with_nuls_in_a_reply_is_not_in_the_journal(judge: LoopbackJudge, tmp_path: Path):
    judge.writer = lambda _: json.dumps({"evidence": [], "rationale": "\x00".join(CANARY), "level": "x"})
    ask(judge, tmp_path)
    row = journaled(tmp_path).to_pylist()[0]
    assert "[key]" in row["reply"]
    assert "canary" not in str(row)
