"""Check of slots: values that a reply has to contain, by kind or from a list."""

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Annotated, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.character_classes import is_all_ascii
from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.evidence import evidence_where, join_texts
from gradebook.rubrics.check_kit.matching import find_likely
from gradebook.rubrics.checks.dialogue.tool_calls import Phrase, first_claim
from gradebook.rubrics.checks.keywords.keywords import ShortWords
from gradebook.rubrics.checks.privacy.phone_numbers import LIKELY, find_phones
from gradebook.rubrics.checks.privacy.pii_kinds import LETTERS

NO_CLAIM = "not_applicable: the output claims none of the actions"
SlotKind = Literal["date", "time", "weekday", "number", "percent", "money", "email", "phone", "url"]

MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
# "3 may 2025" is a date, "any of the 3 may apply" is not.
MONTH_AFTER_DAY = MONTH.replace("|may|", "|(?-i:May|MAY)|may [12][0-9]{3}|")
DAY = r"(?:0?[1-9]|[12][0-9]|3[01])"
TWELVE = r"(?:0?[1-9]|1[0-2])"
NTH_DAY = rf"{DAY}(?:st|nd|rd|th)?"
HOUR = r"(?:[01]?[0-9]|2[0-3])"
TYPESET_SPACES = "[\u00a0\u2009\u202f]"  # between a number and its unit: no-break, thin, narrow no-break
START = r"(?:\A|[^0-9A-Za-z_.,/-])"
END = r"(?:\z|[^0-9A-Za-z_])"
# Listed one by one, as RE2 takes long to compile the class of all digits or signs: Arabic, Devanagari, full-width.
DIGIT = "[0-9\u0660-\u0669\u06f0-\u06f9\u0966-\u096f\uff10-\uff19]"
SIGN = "[$€£¥₹₩₽₺₫₪฿₦₴₱₸₡₲₵₾¢\uff04\uffe5]"
CURRENCY_CODE = (
    r"(?:usd|eur|gbp|jpy|chf|aud|nzd|inr|cny|rmb|krw|brl|mxn|sek|nok|dkk|pln|czk|huf|zar|sgd|hkd|thb|aed|uah"
    r"|(?-i:CAD|RON|TRY|SAR|ILS|RUB))"  # "try 3 times" is not Turkish money
)
CURRENCY_NAME = r"(?:dollars?|euros?|pounds?|cents?|pence|yen|yuan|rupees?|francs?)"
SCALE = r"(?: ?(?:k|m|b|bn|mn|thousand|million|billion)\b)?"
COUNTRY = r"(?:(?:us|american|canadian|australian|hong kong|singapore|swiss|british|indian) )?"
WEEKDAY = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
RELATIVE_DATE = (
    rf"\b(?:today|tonight|tomorrow|yesterday|{WEEKDAY})\b|[今明昨后後]天|今日|明日|昨日|星期[一二三四五六日天]"
    r"|(?:\A|[^一两兩几幾每0-9])[周週][一二三四五六日天]"  # "一周三次" is three times a week
)

# In RE2's syntax, matched with folded case.
PATTERNS: Mapping[str, str] = MappingProxyType(
    {
        "date": (
            rf"{START}(?:[0-9]{{4}}([/.-]){TWELVE}[/.-]{DAY}|{DAY}[/.-]{DAY}[/.-][0-9]{{4}}|{DAY}/{DAY}/[0-9]{{2}}"
            rf"|{NTH_DAY}(?: of|\.)?[ -]{MONTH_AFTER_DAY}|{MONTH}[ -]{NTH_DAY})(?:\z|[^0-9A-Za-z_/]|T[0-9])"
            r"|[0-9]{1,2}[月월] ?[0-9]{1,2}[日号號일]"
        ),
        "time": (
            rf"{START}(?:{HOUR}:[0-5][0-9](?::[0-5][0-9])?(?: ?[ap]\.?m\.?)?|{TWELVE}(?:[.:][0-5][0-9])? ?[ap]\.?m\.?"
            rf"|{HOUR} ?h[0-5][0-9]|{HOUR}(?:[.:][0-5][0-9])? ?uhr|{TWELVE} o['’]clock){END}|à {HOUR} ?h{END}"
            rf"|T{HOUR}:[0-5][0-9]|\b(?:noon|midnight)\b|[0-9]{{1,2}} ?(?:[点點时時]|시(?:[^간]|\z))"
        ),
        "weekday": rf"\b{WEEKDAY}\b",
        "number": rf"(?:\A|[^0-9A-Za-z_]){DIGIT}",
        "percent": rf"{DIGIT} ?(?:[%٪\x{{ff05}}]|percent\b|per cent\b)",
        "money": (
            rf"(?:{SIGN}|\b{CURRENCY_CODE}) ?{DIGIT}"
            rf"|{DIGIT}{SCALE} ?(?:{SIGN}|[元円]|(?:{CURRENCY_CODE}|{COUNTRY}{CURRENCY_NAME})\b)"
        ),
        "email": rf"[{LETTERS}_%+-]@[{LETTERS}-]+(?:\.[{LETTERS}-]+)*\.[a-z\x{{400}}-\x{{44f}}-]{{2}}",
        "url": r"(?:\b|_)(?:https?://|www\.)[^\s<>]",
    }
)


class SlotSettings(CheckSettings):
    """Required slots; at least one of `all` and `names`."""

    all: Annotated[tuple[SlotKind, ...], Field(min_length=1)] | None = None
    """required kinds: date, time, weekday, number, percent, money, email, phone, url"""
    names: Annotated[Mapping[str, ShortWords], Field(min_length=1)] | None = None
    """further required slots, each with the texts of which one has to occur as whole words: {person: [Ada, Bob]}"""
    relative_dates: bool = False
    """whether "tomorrow" or a weekday counts as a date"""
    case_sensitive: bool = False
    """whether "Ada" and "ada" differ in `names`"""
    claims: Annotated[tuple[Phrase, ...], Field(min_length=1)] | None = None
    """words that claim a finished action, as in `claim_needs_tool`: only outputs with one are checked; the others are
    unscored, which with `required: false` in the criterion means that it does not apply to them"""

    @model_validator(mode="after")
    def _something_is_required(self) -> Self:
        if self.all is None and self.names is None:
            raise ValueError("found neither all nor names, expected at least one of them")
        if self.relative_dates and "date" not in (self.all or ()):
            raise ValueError("found relative_dates without date in all, expected both or neither")
        if self.case_sensitive and self.names is None:
            raise ValueError("found case_sensitive without names, expected both or neither")
        return self


@register_check(
    "slots",
    SlotSettings,
    examples=(
        Example(
            "A table for Ada on 3 May 2025 at 19:30.", True, {"all": ["date", "time"], "names": {"guest": ["Ada"]}}
        ),
        Example("A table for Ada on 3 May 2025.", False, {"all": ["date", "time"]}),
        Example("See you tomorrow.", True, {"all": ["date"], "relative_dates": True}),
        Example("A table for you.", False, {"names": {"guest": ["Ada", "Bob"]}}),
        Example("You're booked.", False, {"all": ["time"], "claims": ["you're booked"]}),
        Example("Which day suits you?", None, {"all": ["time"], "claims": ["you're booked"]}),
    ),
)
def slots(shard: pa.Table, settings: SlotSettings) -> CheckVerdicts:
    """Every required slot is filled in the output. The evidence names the missing ones.

    - `date`: 2025-05-03, 3 May 2025, May 3rd, 03/05/2025, 3/5/25, 3.5.2025, 5月3日; months in English; the calendar is
      not checked. With `relative_dates` also today, tomorrow, yesterday and weekdays, in English and Chinese.
    - `time`: 19:30, 7 pm, 7.30 p.m., 7 o'clock, 19h30, à 19h, 19.30 Uhr, noon, midnight, 19点.
    - `weekday`: in English and in full.
    - `number`: a digit that is not within a word; `percent`: a number with % or percent.
    - `money`: a number next to a currency sign or code, or before an English currency name: $5, EUR 5, 2 million
      dollars.
    - `email`, `url` (with http, https or www.), and `phone` as defined by the check `pii`.

    Slots are matched by shape only: "1.2.2025" is a date anywhere, and "5 pounds" of flour are money. Number words do
    not fill a slot. A no-break or thin space is a space. A text of `names` is a whole word in Latin, Greek and Cyrillic
    script, and matches anywhere in others.
    """
    texts = text_column(shard, "output")
    spaced = texts if is_all_ascii(texts) else pc.replace_substring_regex(texts, TYPESET_SPACES, " ")
    finds: dict[str, pa.BooleanArray] = {
        kind: _find_kind(spaced, kind, settings.relative_dates) for kind in settings.all or ()
    }
    named = {f"{slot} ({' or '.join(words)})": words for slot, words in (settings.names or {}).items()}
    for slot, words in named.items():
        finds[slot] = pc.match_substring_regex(texts, _any_word(words, settings.case_sensitive))
    is_passed = reduce(pc.and_, finds.values())
    evidence = _name_missing(is_passed, finds)
    if settings.claims is None:
        return CheckVerdicts(is_passed, evidence)
    is_claimed = pa.array([first_claim(text, settings.claims) is not None for text in texts.to_pylist()], pa.bool_())
    no_text = pa.scalar(None, pa.string())
    return CheckVerdicts(
        pc.if_else(is_claimed, is_passed, pa.scalar(None, pa.bool_())),
        pc.if_else(is_claimed, evidence, no_text),
        pc.if_else(is_claimed, no_text, NO_CLAIM),
    )


def _find_kind(texts: pa.Array, kind: SlotKind, relative_dates: bool) -> pa.BooleanArray:
    """Texts that contain the slot: (output,)."""
    if kind == "phone":
        is_likely = find_likely(texts, LIKELY)
        found = [any(find_phones(text)) for text in texts.filter(is_likely).to_pylist()]
        return pc.replace_with_mask(pa.repeat(False, len(texts)), is_likely, pa.array(found, pa.bool_()))
    pattern = f"{PATTERNS[kind]}|{RELATIVE_DATE}" if kind == "date" and relative_dates else PATTERNS[kind]
    return pc.match_substring_regex(texts, f"(?i){pattern}")


def _any_word(words: Sequence[str], case_sensitive: bool) -> str:
    """Pattern of any of the words, not directly next to a Latin, Greek or Cyrillic word character."""
    either = "|".join(re.escape(word) for word in words)
    pattern = rf"(?:\A|[^{LETTERS}_])(?:{either})(?:\z|[^{LETTERS}_])"
    return pattern if case_sensitive else f"(?i){pattern}"


def _name_missing(is_passed: pa.BooleanArray, finds: Mapping[str, pa.BooleanArray]) -> pa.StringArray:
    """List the missing slots of each failed output: (output,)."""
    is_missed = pc.invert(is_passed)
    names = [
        pc.if_else(is_found.filter(is_missed), pa.scalar(None, pa.string()), name) for name, is_found in finds.items()
    ]
    listed = pc.binary_join_element_wise(*names, ", ", null_handling="skip")
    return evidence_where(is_missed, join_texts("missing ", listed))
