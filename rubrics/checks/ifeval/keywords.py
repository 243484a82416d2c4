"""Instructions about keywords, letters, capitals and the language.

Keywords are patterns, as in IFEval, in RE2's syntax.
"""

import difflib
import re
from functools import lru_cache
from importlib import import_module, resources
from importlib.util import find_spec
from itertools import filterfalse
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from gradebook.rubrics.check_kit.check import CheckSettings, Example, RowFinding
from gradebook.rubrics.check_kit.columns import quote_words
from gradebook.rubrics.check_kit.measures import Count
from gradebook.rubrics.checks.ifeval.instruction import (
    FOLLOWED,
    Keyword,
    Relation,
    StrippedKeyword,
    count_keyword,
    find_keywords,
    find_words,
    judge_relation,
    register_column_instruction,
    register_instruction,
)
from gradebook.rubrics.checks.language import TOO_LITTLE_TEXT, find_language


def _one_character(letter: str) -> str:
    if len(letter) != 1 or len(letter.lower()) != 1 or letter.isspace():
        raise ValueError(f"found {letter!r}, expected one character that is not whitespace")
    return letter


class ExistenceSettings(CheckSettings):
    """Settings of `keywords:existence`."""

    keywords: Annotated[tuple[Keyword, ...], Field(min_length=1)]
    """required keywords: patterns in RE2's syntax, in any case"""


class FrequencySettings(CheckSettings):
    """Settings of `keywords:frequency`."""

    keyword: StrippedKeyword
    """keyword to count: a pattern in RE2's syntax, in any case"""
    frequency: Count
    """bound on the number of occurrences"""
    relation: Relation
    """whether the number of occurrences has to be `less than` the bound or `at least` the bound"""


class ForbiddenWordsSettings(CheckSettings):
    """Settings of `keywords:forbidden_words`."""

    forbidden_words: Annotated[tuple[Keyword, ...], Field(min_length=1)]
    """forbidden words: patterns in RE2's syntax, in any case"""


class LetterFrequencySettings(CheckSettings):
    """Settings of `keywords:letter_frequency`."""

    letter: Annotated[str, AfterValidator(_one_character)]
    """character to count, in either case; it need not be a letter: `#` and `!` are allowed"""
    let_frequency: Count
    """bound on the number of occurrences"""
    let_relation: Relation
    """whether the number of occurrences has to be `less than` the bound or `at least` the bound"""


@register_column_instruction(
    "keywords:existence",
    ExistenceSettings,
    Example("The Dog barked all day.", True, {"keywords": ["dog", "day"]}),
    Example("The dog barked.", False, {"keywords": ["dog", "day"]}),
)
def existence(texts: list[str], settings: ExistenceSettings) -> list[RowFinding]:
    """Every keyword occurs, in any case.

    A keyword also matches inside longer words: "day" is in "yesterday". It is a pattern, as in IFEval, so "e.g." finds
    "eggs"; settings with a pattern that RE2 refuses, such as "C++", are refused (write `C\\\\+\\\\+`).
    """
    finds = find_keywords(texts, settings.keywords)
    return [_all_found(settings.keywords, row) for row in zip(*finds, strict=True)]


def _all_found(keywords: tuple[str, ...], finds: tuple[bool, ...]) -> RowFinding:
    if all(finds):
        return FOLLOWED
    missing = [keyword for keyword, is_found in zip(keywords, finds, strict=True) if not is_found]
    return RowFinding(False, f"missing {quote_words(missing)}")


@register_column_instruction(
    "keywords:frequency",
    FrequencySettings,
    Example("War and warfare.", True, {"keyword": "war", "frequency": 2, "relation": "at least"}),
    Example("War and warfare.", False, {"keyword": "war", "frequency": 2, "relation": "less than"}),
)
def frequency(texts: list[str], settings: FrequencySettings) -> list[RowFinding]:
    """The keyword occurs, in any case, less than `frequency` times, or at least that often.

    It also counts inside longer words, without overlaps: "ana" is once in "banana". It is a pattern in RE2's syntax, as
    in `keywords:existence`, without whitespace at its ends; a pattern that matches the empty text is refused.
    """
    counts = count_keyword(texts, settings.keyword)
    unit, units = f"time {settings.keyword!r}", f"times {settings.keyword!r}"
    return [judge_relation(count, settings.relation, settings.frequency, unit, units) for count in counts]


@register_column_instruction(
    "keywords:forbidden_words",
    ForbiddenWordsSettings,
    Example("She rides through a canyon.", True, {"forbidden_words": ["can", "ride"]}),
    Example("She can ride.", False, {"forbidden_words": ["can", "rode"]}),
)
def forbidden_words(texts: list[str], settings: ForbiddenWordsSettings) -> list[RowFinding]:
    """None of the words occurs, in any case, as a word of its own.

    The characters before and after it may not be a letter, a number or an underscore: "can" is in "can't", not in
    "canyon". In a script without spaces, words are not separated. The words are patterns, as in `keywords:existence`. A
    word that ends with a mark, such as "wow!", is found before a space too, where IFEval's `\\b` requires a letter.
    """
    finds = find_words(texts, settings.forbidden_words)
    return [_none_found(settings.forbidden_words, row) for row in zip(*finds, strict=True)]


def _none_found(words: tuple[str, ...], finds: tuple[bool, ...]) -> RowFinding:
    if not any(finds):
        return FOLLOWED
    present = [word for word, is_found in zip(words, finds, strict=True) if is_found]
    return RowFinding(False, f"found {quote_words(present)}")


@register_instruction(
    "keywords:letter_frequency",
    LetterFrequencySettings,
    Example("A banana", True, {"letter": "a", "let_frequency": 4, "let_relation": "at least"}),
    Example("#one #two", False, {"letter": "#", "let_frequency": 2, "let_relation": "less than"}),
)
def letter_frequency(text: str, settings: LetterFrequencySettings) -> RowFinding:
    """The letter occurs, in either case, less than `let_frequency` times, or at least that often.

    "é" is not "e", nor is "e" with a combining accent the same as "é".
    """
    letter = settings.letter.lower()
    unit, units = f"time {letter!r}", f"times {letter!r}"
    return judge_relation(text.lower().count(letter), settings.let_relation, settings.let_frequency, unit, units)


SEED = 0
MOST_CHARACTERS = 100_000  # langdetect reads 10,000 characters, after it has removed addresses


def has_langdetect() -> bool:
    """Whether the package is installed; it is an extra."""
    return find_spec("langdetect") is not None


def detect_as_ifeval(text: str) -> str | None:
    """Likeliest language, as ISO 639-1 or `zh-cn`; None if langdetect finds no features in the text."""
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
    codes = {name.lower(): known_code for known_code, name in LANGUAGES.items()}
    near = difflib.get_close_matches(code.lower(), [*codes, *LANGUAGES], n=1, cutoff=0.5)
    expected = codes.get(near[0], near[0]) if near else f"one of {', '.join(LANGUAGES)}"
    raise ValueError(f"found the language {code!r}, expected {expected}")


Detector = Literal["py3langid", "langdetect"]


def _require_installed(detector: Detector) -> Detector:
    if detector == "langdetect" and not has_langdetect():
        raise ValueError("found no package langdetect, expected it: pip install '.[ifeval]' in gradebook's clone")
    return detector


class EnglishSettings(CheckSettings):
    """Settings of `change_case:english_capital` and `change_case:english_lowercase`."""

    detector: Annotated[Detector, AfterValidator(_require_installed)] = "py3langid"
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
        detected = detect_as_ifeval(text)
        return (
            FOLLOWED
            if detected in (wanted, None)
            else RowFinding(False, f"found the language {detected}, expected {wanted}")
        )
    detected = find_language(text, DETECTED_LANGUAGES, (wanted,))
    if detected is None:
        return RowFinding(None, reason=TOO_LITTLE_TEXT)
    return FOLLOWED if detected == wanted else RowFinding(False, f"found the language {detected}, expected {wanted}")


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
