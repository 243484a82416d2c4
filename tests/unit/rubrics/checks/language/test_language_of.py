import pyarrow as pa
import pytest

from gradebook.rubrics.checks.language import find_language, find_languages
from tests.support.law_over import law_over

TEXTS = {
    "en": "The sky is blue because the air scatters the light of the sun.",
    "de": "Der Himmel ist blau, weil die Luft das Licht der Sonne streut.",
    "ar": "السماء زرقاء لأن الهواء يشتت ضوء الشمس.",
    "zh": "天空是蓝色的,因为空气散射太阳的光。",
    "hi": "आसमान नीला है क्योंकि हवा सूरज की रोशनी को बिखेरती है।",
}


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_the_language_of_a_sentence_is_found(kind):
    assert find_languages(pa.array(TEXTS.values(), kind)).to_pylist() == list(TEXTS)


@law_over("text", ["", " \n", "123", "...", "\x00", "👍👍"])
def test_a_text_without_letters_has_no_language(text):
    assert find_languages(pa.array([text, None])).to_pylist() == [None, None]


def test_a_long_text_is_told_by_samples_from_its_whole_length():
    mostly_german = TEXTS["en"] + TEXTS["de"] * 20_000
    assert find_language(mostly_german) == "de"


def test_the_language_is_one_of_those_asked_for():
    assert find_language(TEXTS["de"], ("en", "nl")) in ("en", "nl")


@pytest.mark.parametrize(
    "text", ["Hello, World Cup!", "no problem at all", "1. PIXEL PRODIGY\n2. CODE CONSTRUCT\n3. DIGITAL DYNAMICS"]
)
def test_a_language_that_is_hardly_likelier_than_a_wanted_one_is_not_told(text):
    assert find_language(text) not in ("en", None)
    assert find_language(text, wanted=("de", "en")) is None


@pytest.mark.parametrize(("text", "code"), [("Guten Tag", "de"), ("Tack så mycket", "sv"), ("Obrigado amigo", "pt")])
def test_two_words_in_another_language_are_told_from_english(text, code):
    assert find_language(text, wanted=("en",)) == code


def test_a_table_and_rules_at_the_places_of_the_few_samples_do_not_hide_the_language():
    text = "=" * 100 + TEXTS["en"] * 10 + "1 | 2 | 3 | " * 30 + TEXTS["en"] * 10 + "-" * 100
    assert find_language(text, wanted=("en",)) == "en"


def test_an_unknown_language_cannot_be_asked_for():
    with pytest.raises(ValueError, match="Unknown language"):
        find_language("a", ("xx",))
