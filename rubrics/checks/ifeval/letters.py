"""Instructions about the language and about capital letters."""

import difflib
import re
from functools import lru_cache
from importlib import import_module, resources
from importlib.util import find_spec
from itertools import filterfalse
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from gradebook.rubrics.check_kit.bounds import Count
from gradebook.rubrics.check_kit.check import CheckSettings, Example
from gradebook.rubrics.check_kit.rows import RowFinding
from gradebook.rubrics.checks.ifeval.instruction import (
    FOLLOWED,
    Relation,
    judge_relation,
    register_instruction,
)
from gradebook.rubrics.checks.language.language_of import TOO_LITTLE_TEXT, find_language

SEED = 0
MOST_CHARACTERS = 100_000  # langdetect itself reads 10,000, after it has removed addresses


def has_langdetect() -> bool:
    """Whether the package is installed; it is an extra."""
    return find_spec("langdetect") is not None


def detect_as_ifeval(text: str) -> str | None:
    """Likeliest language, ISO 639-1 or `zh-cn` and the like; None if langdetect finds nothing to go by."""
    detector = _factory().create()
    detector.append(text[:MOST_CHARACTERS])
    try:
        return str(detector.detect())
    except import_module("langdetect.lang_detect_exception").LangDetectException:
        return None


@lru_cache(maxsize=1)
def _factory() -> Any:
    """Detectors with langdetect's profiles in the order of their names, as their order decides rounding."""
    factory = import_module("langdetect.detector_factory").DetectorFactory()
    files = sorted(resources.files("langdetect").joinpath("profiles").iterdir(), key=lambda file: file.name)
    factory.load_json_profile([file.read_text(encoding="utf-8") for file in files if not file.name.startswith(".")])
    factory.set_seed(SEED)
    return factory


ENGLISH = "en"
LANGUAGES = {
    "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "de": "German", "en": "English", "es": "Spanish",
    "fa": "Persian", "fi": "Finnish", "fr": "French", "gu": "Gujarati", "he": "Hebrew", "hi": "Hindi",
    "it": "Italian", "ja": "Japanese", "kn": "Kannada", "ko": "Korean", "ml": "Malayalam", "mr": "Marathi",
    "ne": "Nepali", "pa": "Punjabi", "pl": "Polish", "pt": "Portuguese", "ru": "Russian", "sw": "Swahili",
    "ta": "Tamil", "te": "Telugu", "th": "Thai", "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese",
}  # fmt: skip
# Languages known to langdetect, which IFEval uses; fewer candidates make the result for short texts more certain.
DETECTED_LANGUAGES = (
    *LANGUAGES, "af", "ca", "cs", "cy", "da", "el", "et", "hr", "hu", "id", "lt", "lv", "mk", "nl", "no", "ro", "sk",
    "sl", "so", "sq", "sv", "tl", "tr", "zh",
)  # fmt: skip
# Characters at which NLTK's word_tokenize ends a word; its treatment of periods does not affect upper case.
WORD_EDGE = re.compile(
    r"[\s\u00ab\u00bb\u2018\u2019\u201c-\u201e`;@#$%&\u2012-\u2015?!*\[\](){}<>\"]|[:,](?![0-9])|\.\.+|--+|''+"
)
CONTRACTION = re.compile(r"(?:'[SMD]|'LL|'RE|'VE|N'T)\Z")
TWO_WORDS = frozenset(("CANNOT", "GIMME", "GONNA", "GOTTA", "LEMME", "WANNA"))


def _known_language(code: str) -> str:
    if code in LANGUAGES:
        return code
    codes = {name.lower(): known for known, name in LANGUAGES.items()}
    near = difflib.get_close_matches(code.lower(), [*codes, *LANGUAGES], n=1, cutoff=0.5)
    expected = codes.get(near[0], near[0]) if near else f"one of {', '.join(LANGUAGES)}"
    raise ValueError(f"found the language {code!r}, expected {expected}")


Detector = Literal["py3langid", "langdetect"]


def _installed(detector: Detector) -> Detector:
    if detector == "langdetect" and not has_langdetect():
        raise ValueError("found no package langdetect, expected it: pip install '.[ifeval]' in gradebook's clone")
    return detector


class EnglishSettings(CheckSettings):
    """Settings of `change_case:english_capital` and `change_case:english_lowercase`."""

    detector: Annotated[Detector, AfterValidator(_installed)] = "py3langid"
    """what detects the language: `langdetect` gives IFEval's own verdicts"""


class ResponseLanguageSettings(EnglishSettings):
    """Settings of `language:response_language`."""

    language: Annotated[str, AfterValidator(_known_language)]
    """language as an ISO 639-1 code, one of IFEval's thirty, such as `de`"""


class CapitalWordSettings(CheckSettings):
    """Settings of `change_case:capital_word_frequency`."""

    capital_frequency: Count
    """bound on the number of words in capital letters"""
    capital_relation: Relation
    """whether the number has to be `less than` the bound or `at least` the bound"""


@register_instruction(
    "language:response_language",
    ResponseLanguageSettings,
    Example("Der Himmel ist blau, weil die Luft das Licht streut.", True, {"language": "de"}),
    Example("The sky is blue because the air scatters the light.", False, {"language": "de"}),
    Example("1, 2, 3", None, {"language": "de"}),
)
def response_language(text: str, settings: ResponseLanguageSettings) -> RowFinding:
    """The output is in the language.

    The language is the likeliest one for samples from the whole text, by the model of py3langid, among those known to
    langdetect, which IFEval uses: a word or a name in another language makes no difference, and a language in a foreign
    script is not recognised. If the language cannot be detected, as in a text of digits, or another one is only
    slightly less likely, as in a word or two, the output stays unscored.

    `detector: langdetect` gives IFEval's own verdicts, with a fixed seed: every output is scored, one in which nothing
    can be detected as followed. Needs the package langdetect: `pip install '.[ifeval]'` in gradebook's clone.
    """
    return _judge_language(text, settings.language, settings.detector)


def _judge_language(text: str, wanted: str, detector: Detector) -> RowFinding:
    if detector == "langdetect":
        found = detect_as_ifeval(text)
        return (
            FOLLOWED if found in (wanted, None) else RowFinding(False, f"found the language {found}, expected {wanted}")
        )
    found = find_language(text, DETECTED_LANGUAGES, (wanted,))
    if found is None:
        return RowFinding(None, reason=TOO_LITTLE_TEXT)
    return FOLLOWED if found == wanted else RowFinding(False, f"found the language {found}, expected {wanted}")


@register_instruction(
    "change_case:english_capital",
    EnglishSettings,
    Example("THE SKY IS BLUE BECAUSE OF THE AIR.", True),
    Example("THE SKY IS BLUE because OF THE AIR.", False),
    Example("A", None),
)
def english_capital(text: str, settings: EnglishSettings) -> RowFinding:
    """The output is in English, and all of its letters with a case, at least one, are capitals.

    The language is detected as in `language:response_language`, and only if the letters are right.
    """
    return _judge_english(text, text.isupper(), "capital", settings.detector)


@register_instruction(
    "change_case:english_lowercase",
    EnglishSettings,
    Example("the sky is blue because of the air.", True),
    Example("The sky is blue because of the air.", False),
    Example("a", None),
)
def english_lowercase(text: str, settings: EnglishSettings) -> RowFinding:
    """The output is in English, and all of its letters with a case, at least one, are small.

    The language is detected as in `language:response_language`, and only if the letters are right.
    """
    return _judge_english(text, text.islower(), "lower-case", settings.detector)


def _judge_english(text: str, is_right_case: bool, case: str, detector: Detector) -> RowFinding:
    if not is_right_case:
        return RowFinding(False, f"not all letters are {case}, or there are none")
    return _judge_language(text, ENGLISH, detector)


@register_instruction(
    "change_case:capital_word_frequency",
    CapitalWordSettings,
    Example("NASA and the U.S. agree: GO!", True, {"capital_frequency": 3, "capital_relation": "at least"}),
    Example("NASA and the U.S. agree: GO!", False, {"capital_frequency": 3, "capital_relation": "less than"}),
)
def capital_word_frequency(text: str, settings: CapitalWordSettings) -> RowFinding:
    """The output has less than `capital_frequency` words in capital letters, or at least that many.

    A word has at least one letter with a case, and no small one: "I", "A", "COVID-19" and "3D" count. Words end as in
    NLTK's `word_tokenize`: at whitespace and most marks, not at a hyphen or a slash; "DON'T", "IT'S" and "CANNOT" are
    two words each.
    """
    count = _count_capital_words(text)
    unit, units = "word in capital letters", "words in capital letters"
    return judge_relation(count, settings.capital_relation, settings.capital_frequency, unit, units)


def _count_capital_words(text: str) -> int:
    likely = " ".join(filterfalse(str.islower, text.split()))
    return sum(_count_capitals(word) for word in WORD_EDGE.split(likely) if word.isupper() or "'" in word)


def _count_capitals(word: str) -> int:
    """Number of words in capital letters between two edges: 0, 1 or 2."""
    bare = word.rstrip(".")
    upper = bare.upper()
    if bare == upper and upper in TWO_WORDS:
        return 2
    ending = CONTRACTION.search(upper)
    if ending is None or not ending.start():
        return bare.isupper()
    return bare[: ending.start()].isupper() + bare[ending.start() :].isupper()
