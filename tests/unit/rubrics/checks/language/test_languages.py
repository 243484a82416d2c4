import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks import language
from gradebook.rubrics.checks.registry import find_check
from gradebook.rubrics.checks.style.phrases import read_phrases
from tests.support.law_over import law_over


def judge(name: str, output: str, **settings: object) -> tuple[bool | None, str | None, str | None]:
    check = find_check(name)
    found = check.function(pa.table({"output": [output]}), read_settings(check, settings))
    return found.is_passed[0].as_py(), found.evidence[0].as_py(), found.reasons[0].as_py()


@law_over(
    ("output", "code"),
    [
        ("The parcel has not arrived yet, so please write to us again tomorrow.", "en"),
        ("Das Paket ist noch nicht angekommen, bitte schreiben Sie uns morgen.", "de"),
        ("Le colis n'est pas encore arrivé, merci de nous écrire demain.", "fr"),
        ("El paquete todavía no ha llegado, escríbanos mañana por favor.", "es"),
        ("Посылка ещё не пришла, напишите нам завтра, пожалуйста.", "ru"),
        ("包裹还没有到，请明天再给我们写信。", "zh"),  # noqa: RUF001
        ("荷物はまだ届いていません。明日またご連絡ください。", "ja"),
        ("พัสดุยังมาไม่ถึง กรุณาเขียนถึงเราพรุ่งนี้", "th"),
        ("החבילה עדיין לא הגיעה, אנא כתבו לנו מחר.", "he"),
    ],
)
def test_the_language_is_told_and_named(output, code):
    assert judge("language", output, any=["en", code]) == (True, f"found {code}", None)
    other = "da" if code != "da" else "en"
    assert judge("language", output, any=[other]) == (False, f"found {code}, expected {other}", None)


@law_over("output", ["", "  \r\n", "12345 67890 !!!", "😀" * 20, "Hello you", "\x00" * 20])
def test_too_few_letters_leave_the_language_untold(output):
    assert judge("language", output, any=["en"]) == (None, None, "too few letters: expected at least 10")


def test_min_letters_counts_letters_alone_wherever_they_stand():
    output = " " * 1000 + "The cat is here."  # 12 letters
    assert judge("language", output, any=["en"], min_letters=12)[0] is not None
    assert judge("language", output, any=["en"], min_letters=13)[0] is None


@law_over(
    ("found", "expected"), [("jp", "ja"), ("en-US", "en"), ("EN", "en"), ("eng", "en"), ("nb", "no"), ("cn", "zh")]
)
def test_an_unknown_code_offers_the_nearest(found, expected):
    with pytest.raises(ValidationError, match=f"found the language '{found}', expected {expected}"):
        read_settings(find_check("language"), {"any": [found]})


def test_the_codes_are_those_that_the_model_knows():
    known = {"no" if code == "nn" else code for code in language._model(()).codes}  # Norwegian, as one language
    assert set(read_phrases("languages")) == known


@law_over(
    ("output", "scripts", "is_passed", "evidence"),
    [
        ("Hello", ["Latin"], True, None),
        ("Hello", ["Greek"], False, "0 of 5 letters (0.000) in Greek, at least 0.9 required: found 'Hello'"),
        ("naïve “quotes” — 1 😀", ["Latin"], True, None),
        ("Привет, мир", ["Cyrillic"], True, None),
        # 9 letters of 10
        ("приветмир x", ["Cyrillic"], True, None),
        ("カタカナー", ["Katakana"], True, None),
        ("漢字かな", ["Han"], False, "2 of 4 letters (0.500) in Han, at least 0.9 required: found 'かな'"),
        ("ภาษาไทย", ["Thai"], True, None),
        ("שלום", ["Hebrew", "Arabic"], True, None),
        ("e\u0301", ["Latin"], True, None),
        ("𐐷", ["Deseret"], True, None),
        ("", ["Latin"], None, None),
        ("1 + 1\x00", ["Latin"], None, None),
        ("µ 😀 —", ["Latin"], None, None),
    ],
)
def test_the_share_of_letters_in_a_script_decides(output, scripts, is_passed, evidence):
    reason = "no letters" if is_passed is None else None
    assert judge("script", output, any=scripts) == (is_passed, evidence, reason)


@given(st.text(alphabet="aZé1 жЯγ中ーµ\u0301", max_size=20), st.sampled_from([0.0, 0.5, 1.0]))
def test_a_script_is_counted_as_the_names_of_letters_say(output, min_rate):
    letters = [unicodedata.name(letter) for letter in output if letter.isalpha() and letter not in "ーµ"]
    latin = sum(name.startswith("LATIN") for name in letters)
    expected = latin / len(letters) >= min_rate if letters else None
    assert judge("script", output, any=["Latin"], min_rate=min_rate)[0] is expected


@pytest.mark.parametrize(
    ("found", "expected"), [("latin", "Latin"), ("Cyrilic", "Cyrillic"), ("Chinese_Han_x", "a script of Unicode")]
)
def test_an_unknown_script_offers_the_nearest(found, expected):
    with pytest.raises(ValidationError, match=f"found the script '{found}', expected {expected}"):
        read_settings(find_check("script"), {"any": [found]})


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("language", {}),
        ("language", {"any": []}),
        ("language", {"any": ["en"], "min_letters": 0}),
        ("script", {"any": []}),
        ("script", {"any": ["Latin"], "min_rate": 1.5}),
    ],
)
def test_settings_that_mean_nothing_are_refused(name, settings):
    with pytest.raises(ValidationError):
        read_settings(find_check(name), settings)


@pytest.mark.parametrize(
    ("text", "is_passed"), [("a" * 10**6, True), (" " * 10**6, None), ("中" * 333_333, False), ("\x00" * 10**6, None)]
)
def test_a_hostile_text_gets_a_verdict(text, is_passed):
    assert judge("script", text, any=["Latin"])[0] is is_passed
    assert judge("language", text, any=["zu"])[0] is not True
