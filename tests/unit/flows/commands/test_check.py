import io
import wave

import pytest

from gradebook.rubrics.checks.registry import check_names


def test_every_check_is_listed_under_its_family(gradebook):
    listed = gradebook("rubric", "checks", "list", "--json").json["checks"]
    assert sorted(check["name"] for check in listed) == list(check_names())
    assert {"family", "summary", "settings", "examples", "cost", "columns"} <= listed[0].keys()


def test_words_narrow_the_list(gradebook):
    names = [check["name"] for check in gradebook("rubric", "checks", "list", "paragraph", "--json").json["checks"]]
    assert "count_paragraphs" in names
    assert "json_valid" not in names


def test_the_list_is_readable_without_json(gradebook):
    listed = gradebook("rubric", "checks", "list").out
    assert "length_words" in listed
    assert "within the bounds" in listed


def test_a_check_is_shown_with_its_settings_and_examples(gradebook):
    shown = gradebook("rubric", "checks", "show", "contains").out
    assert "case_sensitive" in shown
    assert "money back" in shown
    assert gradebook("rubric", "checks", "show", "contains", "--json").json["settings"][0]["name"] == "any"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["length_words", "--set", "max=3", "--text", "one two"], 0, "pass\n"),
        (["length_words", "one two", "--set", "max=3"], 0, "pass\n"),
        (["length_words", "--set", "max=1", "--text", "one two"], 1, "fail: 2 words, at most 1 allowed\n"),
        (["matches_reference", "--text", "one"], 1, "unscored: no reference\n"),
        (["matches_reference", "--text", "one", "--reference", "one"], 0, "pass\n"),
        (["contains", "--settings", '{"any": ["a"]}', "--text", "abc"], 0, "pass: found 'a'\n"),
        (["starts_with", "--set", "any=[b]", "--text", "*b*"], 1, "fail: starts with '*b*'\n"),
        (
            ["starts_with", "--set", "any=[b]", "--text", "*b*", "--mode", "loose"],
            0,
            "pass: loose: passes without asterisks\n",
        ),
    ],
)
def test_a_check_is_tried_over_a_text(gradebook, words, code, told):
    finished = gradebook("rubric", "checks", "try", *words)
    assert (finished.code, finished.out) == (code, told)


def test_a_tried_check_is_also_json(gradebook):
    assert gradebook("rubric", "checks", "try", "length_words", "--set", "max=1", "--text", "a b", "--json").json == {
        "check": "length_words",
        "settings": {"max": 1},
        "mode": "strict",
        "is_passed": False,
        "level_id": None,
        "evidence": "2 words, at most 1 allowed",
        "reason": None,
    }


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["show", "lenght_words"], "found the check 'lenght_words', expected length_words"),
        (["try", "lenght_words", "a", "--file", "b"], "found the check 'lenght_words', expected length_words"),
        (
            ["try", "length_words", "--text", "a", "--set", "mx=1"],
            "found the unknown key 'mx', expected one of levels, max, min",
        ),
        (
            ["try", "contains", "a", "--set", "any=refund"],
            "settings.any: found 'refund', expected a list, such as any=[refund]\n",
        ),
        (["try", "length_words", "a"], "found neither min, max nor levels, expected min or max, or levels"),
        (["try", "length_words", "--text", "a", "--set", "max"], "--set: found 'max', expected KEY=VALUE"),
        (["try", "length_words", "--text", "a", "--set", "max=[1"], "expected a value in YAML"),
        (
            ["try", "length_words", "--text", "a", "--settings", "[1]"],
            "--settings: found '[1]', expected a JSON object",
        ),
        (["try", "length_words", "--text", "a", "--metadata", "{"], "--metadata: found '{', expected a JSON object"),
        (["try", "length_words", "--text", "a", "--set", "max=1", "--mode", "lose"], "expected strict or loose"),
        (["try", "length_words", "--text", "a\udcff", "--set", "max=1"], "expected text in UTF-8"),
        (["try", "length_words"], "found no output to check, expected one: an argument, --text, --file or a pipe"),
        (["try", "length_words", "a", "--file", "b"], "found several outputs, expected one"),
        (["try", "length_words", "--file", "b", "--set", "max=1"], "--file: can't read b: No such file or directory"),
    ],
)
def test_invalid_input_is_reported(gradebook, monkeypatch, words, told):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    finished = gradebook("rubric", "checks", *words)
    assert (finished.code, finished.out) == (2, "")
    assert told in finished.err


def test_a_file_that_is_not_text_is_reported(gradebook, tmp_path):
    (tmp_path / "reply.bin").write_bytes(b"a\xff")
    finished = gradebook("rubric", "checks", "try", "json_valid", "--file", "reply.bin")
    assert finished.code == 2
    assert "found a byte that is not UTF-8 at 1" in finished.err


def test_a_file_s_name_is_no_text_unless_it_is_said_to_be_one(gradebook, tmp_path):
    (tmp_path / "reply.txt").write_text("Yes.", encoding="utf-8")
    words = ("rubric", "checks", "try", "contains", "--set", "any=[reply]")
    named = gradebook(*words, "reply.txt")
    assert (named.code, "found the name of a file, reply.txt, expected --file to" in named.err) == (2, True)
    assert [gradebook(*words, option, "reply.txt").code for option in ("--text", "--file")] == [0, 1]


def test_a_sound_file_is_tried_from_the_current_folder(gradebook, tmp_path):
    with wave.open(str(tmp_path / "a.wav"), "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(16_000))  # 8,000 samples of 2 bytes: a second
    finished = gradebook(
        "rubric", "checks", "try", "audio_duration", "--set", "min=1", "--set", "max=1", "--text", "file:a.wav"
    )
    assert (finished.code, finished.out) == (0, "pass: duration in seconds 1\n")


def test_a_pipe_is_checked(gradebook, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO('{"id": 1}'))
    finished = gradebook("rubric", "checks", "try", "json_valid")
    assert (finished.code, finished.out) == (0, "pass\n")
