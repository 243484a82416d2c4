"""Check that a claimed action was carried out: a tool call in the row's metadata."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator, Field

from gradebook.rubrics.check_kit.character_classes import whitespace_class
from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.evidence import EXCERPT_CHARACTERS, cut_text, quote_words
from gradebook.rubrics.check_kit.json_text import NotJson, parse_json
from gradebook.rubrics.check_kit.matching import place_findings, same_verdicts
from gradebook.rubrics.check_kit.rows import RowFinding
from gradebook.rubrics.checks.keywords.keywords import Words

DEEPEST = 12  # nested groups: `re` compiles them by recursion
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
    return [token for place, word in enumerate(words) for token in ([_BETWEEN_WORDS] * (place > 0) + word)]


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
        (place for place, tokens in enumerate(zip(*endings, strict=False)) if len(set(tokens)) > 1),
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
    found = [value]
    for key in path.split("."):
        entries = [entry for level in found for entry in (level if isinstance(level, list) else [level])]
        found = [entry[key] for entry in entries if isinstance(entry, dict) and key in entry]
    for level in found:
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


def went_well(call: Any, successes: Sequence[str]) -> bool:
    """Whether neither the call nor its answer reports a failure."""
    if not isinstance(call, dict):
        return True
    answers = [answer for key in ANSWER_KEYS if isinstance(answer := _read_answer(call.get(key)), dict)]
    return not any(_says_failure(part, successes) for part in (call, *answers))


def _read_answer(answer: Any) -> Any:
    """Answer of a tool; an answer stored as JSON text is parsed."""
    try:
        return parse_json(answer) if isinstance(answer, str) and answer.lstrip().startswith("{") else answer
    except NotJson:
        return answer


def _says_failure(part: Mapping[str, Any], successes: Sequence[str]) -> bool:
    is_refused = any(str(part.get(key)).lower() in ("false", "0") for key in ("ok", "success"))
    has_error = any(part.get(key) not in (None, False, "", [], {}) for key in ("error", "errors"))
    is_error = any(part.get(key) is True for key in ("is_error", "isError"))
    statuses = [str(part[key]).casefold() for key in STATUS_KEYS if part.get(key) is not None]
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
    named = [(name, call) for call in calls if (name := name_of(call)) in settings.tools]
    done = next((name for name, call in named if went_well(call, settings.successes)), None)
    if done is not None:
        return RowFinding(True, f"{claimed}, {done} was called")
    if named:
        return RowFinding(False, f"{claimed}, the call of {named[0][0]} did not go well")
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
    place = 0
    while (claim := bare.search(text, place)) is not None:
        # Negations far from a claim are skipped: a hostile text may have a million of them.
        start = _start_of_words(text, place, claim.start(), reach) if claim.start() - place > FAR else place
        match = judged.search(text, start)
        if match is None or match["claim"]:
            return match and match["claim"]
        place = match.end()
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
    either = any_phrase(claims, case_sensitive)
    claim = rf"(?<!\w){either}(?!\w)" if whole_word else either
    flags = re.NOFLAG if case_sensitive else re.IGNORECASE
    bare = re.compile(f"(?P<claim>{claim})", flags)
    if not negations:
        return bare, bare
    negation = any_phrase(negations, case_sensitive=False)
    starts = rf"(?:(?<!\w)|(?<=\w)(?=n['’]))(?i:{negation})(?!\w|\s+(?i:{NO_NEGATION})\b)"
    between = rf"(?:{GAP}[\w'’-]++){{0,{MOST_WORDS_BETWEEN}}}?{GAP}"
    return bare, re.compile(f"{starts}{between}{claim}|(?P<claim>{claim})", flags)
