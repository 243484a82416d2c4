"""Checks of task-oriented dialogue: required slots, and claims that need a tool call.

slots             values that a reply has to contain, by kind or from a list
claim_needs_tool  a claimed action was carried out: a tool call in the row's metadata
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator, Field, model_validator

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, RowFinding, register_check
from gradebook.rubrics.check_kit.columns import (
    EXCERPT_CHARACTERS,
    cut_text,
    evidence_where,
    join_texts,
    quote_words,
    text_column,
)
from gradebook.rubrics.check_kit.json_text import NotJson, parse_json
from gradebook.rubrics.check_kit.regexes import (
    find_likely,
    is_all_ascii,
    place_findings,
    same_verdicts,
    whitespace_class,
)
from gradebook.rubrics.checks.keywords import ShortWords, Words
from gradebook.rubrics.checks.privacy import LETTERS, LIKELY, find_phones

DEEPEST = 12  # levels of nested groups, which `re` compiles by recursion
_BETWEEN_WORDS = r"\s+"
MARKS = "'’"
APOSTROPHES = f"[{MARKS}]"

Tokens = tuple[str, ...]


def any_phrase(phrases: Sequence[str], case_sensitive: bool) -> str:
    """Pattern that finds any of the phrases, the longest first.

    `re` tries the branches of an alternative one by one. So a common start of several phrases is written once, and a
    lookahead at the first character rejects most places of a text.
    """
    tokens = {tuple(_tokens(phrase if case_sensitive else _lower(phrase))) for phrase in phrases}
    firsts = "".join(sorted({MARKS if phrase[0] == APOSTROPHES else phrase[0] for phrase in tokens}))
    return f"(?=[{firsts}]){_branch(sorted(tokens, key=lambda phrase: (-len(phrase), phrase)), DEEPEST)}"


def phrase_pattern(phrase: str, whitespace: str) -> str:
    """Pattern, in RE2's syntax, that finds a phrase with any apostrophes, and with whitespace between its words.

    whitespace: character class without brackets; RE2's own is ASCII only.
    """
    return "".join(f"[{whitespace}]+" if token == _BETWEEN_WORDS else token for token in _tokens(phrase))


def _tokens(phrase: str) -> list[str]:
    """Pattern for each character of a phrase and for each gap between its words."""
    words = [[APOSTROPHES if sign in MARKS else re.escape(sign) for sign in word] for word in phrase.split()]
    return [token for index, word in enumerate(words) for token in ([_BETWEEN_WORDS] * (index > 0) + word)]


def _lower(phrase: str) -> str:
    """Lower-case phrase, except for letters whose lower case is two characters: `re` does not match those."""
    return "".join(low if len(low := sign.lower()) == 1 else sign for sign in phrase)


def _branch(endings: Sequence[Tokens], depth: int) -> str:
    """Pattern for any of these endings, ordered from longest to shortest."""
    if len(endings) == 1 or depth == 0:
        return f"(?:{'|'.join(''.join(ending) for ending in endings)})"
    by_first: dict[str, list[Tokens]] = {}
    for ending in endings:
        by_first.setdefault(ending[0] if ending else "", []).append(ending)
    branches = [_continue(alike, depth) for first, alike in by_first.items() if first]
    return f"(?:{'|'.join([*branches, ''] if '' in by_first else branches)})"


def _continue(endings: Sequence[Tokens], depth: int) -> str:
    """Common start of the endings, followed by a pattern for the rest."""
    shared = next(
        (index for index, tokens in enumerate(zip(*endings, strict=False)) if len(set(tokens)) > 1),
        min(map(len, endings)),
    )
    if len(endings) == 1:
        return "".join(endings[0])
    return "".join(endings[0][:shared]) + _branch([ending[shared:] for ending in endings], depth - 1)


SUCCESSES = (
    "ok",
    "true",
    "success",
    "succeeded",
    "successful",
    "completed",
    "complete",
    "done",
    "finished",
    "created",
    "confirmed",
)
NAME_KEYS = ("name", "tool", "tool_name", "function")
ANSWER_KEYS = ("result", "response", "output", "content")
STATUS_KEYS = ("status", "status_code")
HTTP_SUCCESS = re.compile("2[0-9]{2}(?: [a-z ]*)?")


def calls_at(value: Any, path: str) -> Iterator[Any]:
    """Yield the calls at the path. Each key is looked up in every entry of a list; a single call counts as a list of
    one.
    """
    values = [value]
    for key in path.split("."):
        entries = [entry for level in values for entry in (level if isinstance(level, list) else [level])]
        values = [entry[key] for entry in entries if isinstance(entry, dict) and key in entry]
    for level in values:
        yield from level if isinstance(level, list) else [level]


def name_of(call: Any) -> str | None:
    """Name of the called tool."""
    if not isinstance(call, dict):
        return call if isinstance(call, str) else None
    for key in NAME_KEYS:
        value = call.get(key)
        if isinstance(value, dict):
            value = value.get("name")
        if isinstance(value, str):
            return value
    return None


def is_successful(call: Any, successes: Sequence[str]) -> bool:
    """Whether neither the call nor its answer reports a failure."""
    if not isinstance(call, dict):
        return True
    answers = [answer for key in ANSWER_KEYS if isinstance(answer := _read_answer(call.get(key)), dict)]
    return not any(_reports_failure(part, successes) for part in (call, *answers))


def _read_answer(answer: Any) -> Any:
    """Answer of a tool; an answer stored as JSON text is parsed."""
    try:
        return parse_json(answer) if isinstance(answer, str) and answer.lstrip().startswith("{") else answer
    except NotJson:
        return answer


def _reports_failure(report: Mapping[str, Any], successes: Sequence[str]) -> bool:
    is_refused = any(str(report.get(key)).lower() in ("false", "0") for key in ("ok", "success"))
    has_error = any(report.get(key) not in (None, False, "", [], {}) for key in ("error", "errors"))
    is_error = any(report.get(key) is True for key in ("is_error", "isError"))
    statuses = [str(report[key]).casefold() for key in STATUS_KEYS if report.get(key) is not None]
    good = {success.casefold() for success in successes}
    has_bad_status = any(status not in good and not HTTP_SUCCESS.fullmatch(status) for status in statuses)
    return is_refused or has_error or is_error or has_bad_status


NEGATIONS = (
    "not",
    "never",
    "no",
    "cannot",
    "n't",
    "without",
    "unable to",
    "failed to",
    "could not",
    "neither",
    "nor",
    "nothing",
    "yet to be",
    "to be",
)
MOST_WORDS_BETWEEN = 3
FAR = 500  # characters: nearly always more than the words between a negation and its claim
GAP = r"[^\S\r\n]++"  # a negation does not reach across a line end: "Smoking: no" does not negate the next line
NO_NEGATION = r"only|doubts?|problems?|worry|worries"  # "no problem it is booked" is a claim


def _read_path(path: str) -> str:
    if not all(path.split(".")):
        raise ValueError(f"found the path {path!r}, expected keys with a dot between, such as trace.tool_calls")
    return path


def _read_phrase(phrase: str) -> str:
    if not phrase.strip():
        raise ValueError(f"found {phrase!r}, expected a word or a phrase")
    return phrase


Phrase = Annotated[str, AfterValidator(_read_phrase), Field(max_length=500)]  # a longer one would stall the search


class ToolClaimSettings(CheckSettings):
    """Phrases that claim an action, and tool calls that prove it."""

    claims: Annotated[tuple[Phrase, ...], Field(min_length=1)]
    """words and phrases that claim an action: booked, "your refund is on its way\""""
    tools: Words
    """names of the tools of which one must have been called"""
    where: Annotated[str, AfterValidator(_read_path)] = "tool_calls"
    """path of the list of calls in the metadata: keys separated by dots, each looked up in every entry of a list"""
    negations: tuple[Phrase, ...] = NEGATIONS
    """words that negate a claim when they precede it on the same line, with at most three words and no punctuation
    between; "n't" ends a word; an empty list for none"""
    successes: tuple[Phrase, ...] = SUCCESSES
    """values of a call's `status` that mean success, in any case; 200 to 299 do too"""
    case_sensitive: bool = False
    """whether "Booked" and "booked" differ"""
    whole_word: bool = True
    """a claim inside a longer word does not count: "booked" is not in "overbooked\""""


CALLED = {"tool_calls": [{"function": {"name": "book_table"}}]}
FAILED = {"tool_calls": [{"name": "book_table", "status": "error"}]}


@register_check(
    "claim_needs_tool",
    ToolClaimSettings,
    columns=("output", "metadata"),
    cost="rows",
    examples=(
        Example("Your table is booked.", True, {"claims": ["booked"], "tools": ["book_table"]}, {"metadata": CALLED}),
        Example("Your table is booked.", False, {"claims": ["booked"], "tools": ["book_table"]}, {"metadata": FAILED}),
        Example("Your table is booked.", False, {"claims": ["booked"], "tools": ["book_table"]}),
        Example("It is not yet booked.", True, {"claims": ["booked"], "tools": ["book_table"]}),
    ),
)
def claim_needs_tool(shard: pa.Table, settings: ToolClaimSettings) -> CheckVerdicts:
    """An output that claims an action has a successful call of one of the tools in its metadata.

    An output without a claim passes. An output with a claim and without metadata fails, as nothing proves the action.

    The calls are a list at `where`: objects with the tool's `name` (or `tool`, `tool_name`, `function`), also in
    OpenAI's form ({"function": {"name": ...}}), or bare names. A call is successful unless it or its `result`,
    `response`, `output` or `content` (an object, or its JSON text) reports a failure: a non-empty `error` or `errors`,
    `is_error` or `isError`, a false `ok` or `success`, or a `status` or `status_code` that is neither in `successes`
    nor 200 to 299. Prose such as "Sorry, we are full" is not read.

    Claims match literally, with any whitespace and any shape of apostrophes. Negations are recognised by words only:
    "not booked" and "has not yet been booked" are not claims; "not only booked", "no problem, it is booked" and "shall
    I get it booked?" are.
    """
    texts, metadata = (text_column(shard, name) for name in ("output", "metadata"))
    fold = "" if settings.case_sensitive else "(?i)"
    either = "|".join(phrase_pattern(claim, whitespace_class(texts)) for claim in settings.claims)
    # Used for a single row too: Python folds case slightly further, and a verdict must not depend on the other rows.
    is_likely = pc.match_substring_regex(texts, fold + either)
    rows = zip(texts.filter(is_likely).to_pylist(), metadata.filter(is_likely).to_pylist(), strict=True)
    findings = [_judge(text, calls, settings) for text, calls in rows]
    return place_findings(is_likely, findings, same_verdicts(len(texts), RowFinding(True, "no claim")))


def _judge(text: str, metadata: str | None, settings: ToolClaimSettings) -> RowFinding:
    claim = first_claim(text, settings.claims, settings.negations, settings.case_sensitive, settings.whole_word)
    if claim is None:
        return RowFinding(True, "no claim")
    claimed = f"claims '{cut_text(claim, EXCERPT_CHARACTERS)}'"
    if metadata is None:
        return RowFinding(False, f"{claimed}, no metadata")
    try:
        calls = list(calls_at(parse_json(metadata), settings.where))
    except NotJson as error:
        return RowFinding(False, f"{claimed}, the metadata can't be read: {error}")
    tool_calls = [(name, call) for call in calls if (name := name_of(call)) in settings.tools]
    succeeded = next((name for name, call in tool_calls if is_successful(call, settings.successes)), None)
    if succeeded is not None:
        return RowFinding(True, f"{claimed}, {succeeded} was called")
    if tool_calls:
        return RowFinding(False, f"{claimed}, the call of {tool_calls[0][0]} did not go well")
    return RowFinding(False, f"{claimed}, no call of {quote_words(settings.tools)} in metadata")


def first_claim(
    text: str,
    claims: tuple[str, ...],
    negations: tuple[str, ...] = NEGATIONS,
    case_sensitive: bool = False,
    whole_word: bool = True,
) -> str | None:
    """First claim without a negation before it, as defined by `claim_needs_tool`; None if there is none."""
    bare, judged = _compile_claims(claims, negations, case_sensitive, whole_word)
    reach = MOST_WORDS_BETWEEN + 1 + max((len(negation.split()) for negation in negations), default=0)
    position = 0
    while (claim := bare.search(text, position)) is not None:
        # Negations far from a claim are skipped: a hostile text may have a million of them.
        start = _start_of_words(text, position, claim.start(), reach) if claim.start() - position > FAR else position
        match = judged.search(text, start)
        if match is None or match["claim"]:
            return match and match["claim"]
        position = match.end()
    return None


def _start_of_words(text: str, first: int, end: int, word_count: int) -> int:
    """Start of the last `word_count` words before `end`; `first` if they are very long."""
    for size in (FAR, 10 * FAR):
        around = text[max(first, end - size) : end].rsplit(maxsplit=word_count)
        if len(around) > word_count:
            return max(first, end - size) + len(around[0])
    return first


@lru_cache(maxsize=256)
def _compile_claims(
    claims: tuple[str, ...], negations: tuple[str, ...], case_sensitive: bool, whole_word: bool
) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Pattern of a claim, and pattern of a negated claim or else a claim."""
    any_claim = any_phrase(claims, case_sensitive)
    claim = rf"(?<!\w){any_claim}(?!\w)" if whole_word else any_claim
    flags = re.NOFLAG if case_sensitive else re.IGNORECASE
    bare = re.compile(f"(?P<claim>{claim})", flags)
    if not negations:
        return bare, bare
    negation = any_phrase(negations, case_sensitive=False)
    starts = rf"(?:(?<!\w)|(?<=\w)(?=n['’]))(?i:{negation})(?!\w|\s+(?i:{NO_NEGATION})\b)"
    between = rf"(?:{GAP}[\w'’-]++){{0,{MOST_WORDS_BETWEEN}}}?{GAP}"
    return bare, re.compile(f"{starts}{between}{claim}|(?P<claim>{claim})", flags)


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
    found_by_slot: dict[str, pa.BooleanArray] = {
        kind: _find_kind(spaced, kind, settings.relative_dates) for kind in settings.all or ()
    }
    words_by_label = {f"{slot} ({' or '.join(words)})": words for slot, words in (settings.names or {}).items()}
    for slot, words in words_by_label.items():
        found_by_slot[slot] = pc.match_substring_regex(texts, _any_word(words, settings.case_sensitive))
    is_passed = reduce(pc.and_, found_by_slot.values())
    evidence = _name_missing(is_passed, found_by_slot)
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
        has_phone = [any(find_phones(text)) for text in texts.filter(is_likely).to_pylist()]
        return pc.replace_with_mask(pa.repeat(False, len(texts)), is_likely, pa.array(has_phone, pa.bool_()))
    pattern = f"{PATTERNS[kind]}|{RELATIVE_DATE}" if kind == "date" and relative_dates else PATTERNS[kind]
    return pc.match_substring_regex(texts, f"(?i){pattern}")


def _any_word(words: Sequence[str], case_sensitive: bool) -> str:
    """Pattern of any of the words, not directly next to a Latin, Greek or Cyrillic word character."""
    any_word = "|".join(re.escape(word) for word in words)
    pattern = rf"(?:\A|[^{LETTERS}_])(?:{any_word})(?:\z|[^{LETTERS}_])"
    return pattern if case_sensitive else f"(?i){pattern}"


def _name_missing(is_passed: pa.BooleanArray, found_by_slot: Mapping[str, pa.BooleanArray]) -> pa.StringArray:
    """List the missing slots of each failed output: (output,)."""
    is_missed = pc.invert(is_passed)
    names = [
        pc.if_else(is_found.filter(is_missed), pa.scalar(None, pa.string()), name)
        for name, is_found in found_by_slot.items()
    ]
    names_text = pc.binary_join_element_wise(*names, ", ", null_handling="skip")
    return evidence_where(is_missed, join_texts("missing ", names_text))
