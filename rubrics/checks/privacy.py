"""Check of personal data and secrets: their positions in a text, and a masked form for display.

Each kind has an RE2 pattern that matches every text with a find, and many others, and a search that reads a text in
linear time: its expressions are possessive or bounded.

Phone numbers are distinguished from dates and order numbers by their form and the words around them.
"""

import heapq
import ipaddress
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from types import MappingProxyType
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import AfterValidator, Field

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, RowFinding, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.regexes import find_likely, place_findings, same_verdicts

Span = tuple[int, int]

BLANK = "\u00a0\u202f "  # literal characters: RE2 and Python escape them differently
DASHES = "\u2010-\u2013-"
DASH = f"[{DASHES}]"
GAP = f"[{BLANK}.{DASHES}]"  # between two groups of digits
WIDE_GAP = f"[{BLANK}()./{DASHES}]{{0,3}}"

# A possible phone number: seven digits with little between them.
LIKELY = rf"(?:[0-9]{WIDE_GAP}){{6}}[0-9]"

INTERNATIONAL = rf"(?:\+|\(\+)[1-9](?:{WIDE_GAP}[0-9]){{8,14}}|00[1-9][0-9]{{0,2}}{GAP}[0-9](?:{WIDE_GAP}[0-9]){{6,11}}"
NATIONAL = "|".join(
    (
        rf"(?:1{GAP})?\([0-9]{{3}}\){GAP}?[0-9]{{3}}{GAP}[0-9]{{4}}",  # (212) 555-0123
        rf"(?:1{DASH})?[0-9]{{3}}{DASH}[0-9]{{3}}{DASH}[0-9]{{4}}",  # 212-555-0123
        r"(?:1\.)?[2-9][0-9]{2}\.[0-9]{3}\.[0-9]{4}",  # 212.555.0123
        rf"(?:1[{BLANK}])?[2-9][0-9]{{2}}[{BLANK}][2-9][0-9]{{2}}[{BLANK}{DASHES}][0-9]{{4}}",  # 212 555 0123
        rf"\([0-9]{{2}}\)[{BLANK}]?[0-9]{{4,5}}{DASH}[0-9]{{4}}",  # (11) 91234-5678
        rf"1[3-9][0-9]{GAP}[0-9]{{4}}{GAP}[0-9]{{4}}",  # 138 1234 5678
        # 020 7946 0123, 089/1234567, 01 23 45 67 89
        rf"\(?0[1-9][0-9]{{0,3}}\)?(?:{GAP}|[{BLANK}]?/[{BLANK}]?)?[0-9]{{2,8}}(?:{GAP}[0-9]{{2,8}}){{0,4}}",
    )
)
AFTER_A_CUE = rf"\+?\(?[0-9](?:{WIDE_GAP}[0-9]){{6,14}}"
NOT_IN_A_WORD = "(?<![0-9A-Za-z])(?<![0-9A-Za-z]_)"  # an underscore after a space begins italics
BEFORE = rf"{NOT_IN_A_WORD}(?<![/+=#$€£¥.,{DASHES}])"
AFTER = rf"(?!_?[0-9A-Za-z]|[.,:/]?[0-9]|{DASH}[0-9])"

WRITTEN = re.compile(rf"(?=[+(0-9]){BEFORE}(?:(?P<international>{INTERNATIONAL})|{NATIONAL}){AFTER}")
CUED = re.compile(
    r"(?i)(?:\b(?:phone|telephone|tel|cell|mobile|call|dial|fax|whatsapp|hotline|telefon|teléfono|téléphone)\b"
    r"|电话|電話|手机|手機|携帯|전화|☎|📞)(?:[\s:.#]|\b(?:us|me|him|her|them|at|on|number|no|is|line|support)\b){0,8}"
    rf"(?P<number>{AFTER_A_CUE}){AFTER}"
)
DATE = re.compile(
    r"(?:19|20)[0-9]{2}[ ./\u2010-\u2013-][0-9]{1,2}[ ./\u2010-\u2013-][0-9]{1,2}(?![0-9])"
    # four pairs or more are not a date: 01.99.00.12.34
    r"|[0-9]{1,2}[./\u2010-\u2013-][0-9]{1,2}[./\u2010-\u2013-](?:[0-9]{4}|[0-9]{2})(?![0-9]|[.][0-9]{2}[.][0-9])"
)
NUMBERED = (
    "order invoice ticket ref reference isbn issn doi case account acct tracking version serial part sku upc ean gtin"
)
NUMBERED += " item id booking policy customer member"


def _any_backwards(words: str) -> str:
    return "|".join(word[::-1] for word in words.split())


# Words before a number are matched on the reversed text: a forward search would begin at each character.
OTHER_CUE_BACKWARDS = re.compile(
    rf"(?i)(?:[\s:.#]|\b(?:{_any_backwards('number no nr id is code')})\b){{0,6}}"
    rf"(?:(?:{_any_backwards(NUMBERED)})\b|№)"
)
CUE_CHARACTERS = 40
TRUNK_DIGITS = range(9, 13)


def find_phones(text: str) -> Iterator[Span]:
    """Spans of the phone numbers in a text, in order. Of two with the same start, the one found by its form counts."""
    last_start = -1
    for start, stop in heapq.merge(_find_written(text), _find_cued(text), key=itemgetter(0)):
        if start != last_start:
            yield start, stop
        last_start = start


def _find_written(text: str) -> Iterator[Span]:
    return (match.span() for match in WRITTEN.finditer(text) if _is_phone(match))


def _find_cued(text: str) -> Iterator[Span]:
    for match in CUED.finditer(text):
        start, stop = match.span("number")
        if DATE.match(text, start) is None and not _is_numbered_thing(text, start):
            yield start, stop


def _is_phone(match: re.Match[str]) -> bool:
    if match["international"]:
        return True
    has_trunk = match[0].lstrip("(").startswith("0")
    if has_trunk and (sum(map(str.isdigit, match[0])) not in TRUNK_DIGITS or match[0].isdigit()):
        return False
    return DATE.match(match[0]) is None and not _is_numbered_thing(match.string, match.start())


def _is_numbered_thing(text: str, start: int) -> bool:
    """Whether the preceding words show that the number is that of an order, a ticket or a book."""
    return OTHER_CUE_BACKWARDS.match(text[max(0, start - CUE_CHARACTERS) : start][::-1]) is not None


CARD_DIGITS = range(13, 20)
# Issuers: 34, 37 American Express, 36, 38, 39 Diners, 35 JCB, 4 Visa, 2221-2720 and 51-55 Mastercard, 50, 56-69 the
# others. Numbers with another start, such as timestamps in milliseconds, are not cards.
CARD_STARTS = ("34", "35", "36", "37", "38", "39", "30", "4", "5", "6", "22", "23", "24", "25", "26", "27")
# ISO 7064: a letter counts as two digits, A as 10 and Z as 35.
LETTER_VALUES = str.maketrans({letter: str(value) for value, letter in enumerate(string.ascii_uppercase, start=10)})
DOUBLED = str.maketrans("0123456789", "0246813579")  # digit sum of twice each digit

# ISO 13616: length of each country's number, from SWIFT's registry.
COUNTRIES_BY_LENGTH: Mapping[int, str] = MappingProxyType(
    {
        15: "NO",
        16: "BE",
        18: "DK FI FK FO GL NL SD",
        19: "MK SI",
        20: "AT BA EE KZ LT LU MN XK",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA",
        23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST",
        26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU YE",
        31: "MT SC",
        32: "LC",
        33: "RU",
    }
)
IBAN_LENGTHS = {country: length for length, countries in COUNTRIES_BY_LENGTH.items() for country in countries.split()}


def is_card(digits: str) -> bool:
    """Whether ASCII digits have a card's length, an issuer's prefix and a valid check digit (Luhn, ISO/IEC 7812-1)."""
    if len(digits) not in CARD_DIGITS or not digits.startswith(CARD_STARTS):
        return False
    return (sum(map(int, digits[-2::-2].translate(DOUBLED))) + sum(map(int, digits[-1::-2]))) % 10 == 0


def is_iban(compact: str) -> bool:
    """Whether ASCII letters and digits have their country's length and valid check digits (ISO 7064 mod 97-10)."""
    upper = compact.upper()
    if len(upper) != IBAN_LENGTHS.get(upper[:2]) or not upper[2:4].isdigit():
        return False
    return int((upper[4:] + upper[:4]).translate(LETTER_VALUES)) % 97 == 1


PiiKindName = Literal["email", "phone", "card", "iban", "ip", "ssn", "api_key"]

# Latin, Greek and Cyrillic letters. With scripts without spaces, a name would include the sentence before it.
LETTERS = "A-Za-z0-9\u00c0-\u024f\u0370-\u052f"
# The lookbehind has the same characters, or a run of them would be read from each of its characters on.
EMAIL = re.compile(rf"(?<![{LETTERS}.%+_&~'-])[{LETTERS}.%+_&~'-]++@(?=([{LETTERS}.-]++))")
TOP_LEVEL = re.compile(rf"xn--[a-z0-9-]+|(?:(?![0-9_])[{LETTERS}]){{2,24}}", re.IGNORECASE)
EDGE_MARKS = "%+_&~.'-"
NO_MAILBOX = re.compile(r"git@|[^@]*@[1-9]x\.")  # a repository, and an image for high-resolution screens
CARD = re.compile(
    # no match after two groups of four: such a sequence is a table, not a card
    rf"(?<![0-9A-Za-z])(?<![0-9][.,])(?<![0-9]{{4}}{GAP}[0-9]{{4}}{GAP})(?=([0-9]{{13,19}}(?![0-9])"
    rf"|[0-9]{{4}}({GAP})[0-9]{{4}}\2[0-9]{{4}}\2[0-9]{{1,4}}(?:\2[0-9]{{1,3}})?(?![0-9])"
    rf"|[0-9]{{4}}({GAP})[0-9]{{6}}\3[0-9]{{4,5}}(?![0-9])))"
)
IBAN_START = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[0-9]{2}(?=[ \u00a0-]?[A-Za-z0-9])")
IBAN_GAP = re.compile(r"[ \u00a0-]")
IBANS = {length: re.compile(rf"(?:{IBAN_GAP.pattern}?[A-Za-z0-9]){{{length}}}") for length in COUNTRIES_BY_LENGTH}
IPV4 = re.compile(
    rf"{NOT_IN_A_WORD}(?<![.-])(?:(?:25[0-5]|2[0-4][0-9]|1?[0-9]{{1,2}})\.){{3}}(?:25[0-5]|2[0-4][0-9]|1?[0-9]{{1,2}})"
    r"(?!_?[0-9A-Za-z]|-|\.[0-9A-Za-z])"
)
LEADING_ZERO = re.compile(r"\b0[0-9]")
VERSION_CUE = re.compile(r"(?i)(?:\b(?:version|ver\.?|v|release|build|section|chapter|clause):?|§) ?\Z|[a-z]/\Z")
IPV6 = re.compile(
    rf"{NOT_IN_A_WORD}(?<![:.])[0-9A-Fa-f]{{0,4}}+:[0-9A-Fa-f:]++(?:(?<=:)[0-9.]{{7,15}})?(?!_?[0-9A-Za-z])"
)
LONG_GROUP = re.compile("[0-9A-Fa-f]{3}")
SSN = re.compile(
    rf"{NOT_IN_A_WORD}(?<![0-9][-.])(?!000|666|9)[0-9]{{3}}([{BLANK}{DASHES}])(?!00)[0-9]{{2}}\1(?!0000)[0-9]{{4}}"
    r"(?!_?[0-9A-Za-z]|[-.][0-9])"
)
BARE_SSN = re.compile(
    r"(?i)\b(?:ssn|social security(?: number| no\.?)?)\b(?:[\s:#]|\b(?:is|number)\b){0,5}"
    r"((?!000|666|9)[0-9]{3}(?!00)[0-9]{2}(?!0000)[0-9]{4})(?![0-9A-Za-z_])"
)
KEY_SHAPES = (
    r"[sr]k-(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_-]{20,}+",
    r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+",
    r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    r"gh[pousr]_[A-Za-z0-9]{30,}+",
    r"github_pat_[A-Za-z0-9_]{22,}+",
    r"glpat-[A-Za-z0-9_-]{20,}+",
    r"xox[a-z]-[A-Za-z0-9-]{10,}+",
    r"AIza[A-Za-z0-9_-]{30,}+",
    r"hf_[A-Za-z0-9]{30,}+",
    r"(?<!-)eyJ[A-Za-z0-9_-]{10,}+\.eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]*+",
)
API_KEY = re.compile(
    rf"(?<![A-Za-z0-9_])(?:{'|'.join(KEY_SHAPES)})(?![A-Za-z0-9])"
    r"|-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
)


@dataclass(frozen=True, slots=True)
class PiiKind:
    """likely: pattern in RE2's syntax that matches every text with a find. find: spans of the finds in a text, in
    order.
    """

    likely: str
    find: Callable[[str], Iterator[Span]]


def find_emails(text: str) -> Iterator[Span]:
    """Spans of e-mail addresses; marks at an edge belong to the sentence."""
    for match in EMAIL.finditer(text):
        name, domain = match[0][:-1].lstrip(EDGE_MARKS), match[1].rstrip(".-")
        labels = domain.split(".")
        if name and len(labels) > 1 and all(labels) and TOP_LEVEL.fullmatch(labels[-1]):
            start = match.end() - 1 - len(name)
            stop = match.end() + len(domain)
            if NO_MAILBOX.match(text, start, stop) is None:
                yield start, stop


def find_cards(text: str) -> Iterator[Span]:
    """Spans of numbers with a valid check digit, grouped as on cards or ungrouped."""
    for match in CARD.finditer(text):
        if is_card(match[1].replace(match[2] or match[3] or " ", "")):
            yield match.span(1)


def find_ibans(text: str) -> Iterator[Span]:
    """Spans of account numbers; grouped numbers only in capitals, as prose would sometimes match."""
    for start in (match.start() for match in IBAN_START.finditer(text)):
        length = IBAN_LENGTHS.get(text[start : start + 2].upper())
        match = IBANS[length].match(text, start) if length else None
        if match is None:
            continue
        number_text, after = match[0], text[match.end() : match.end() + 1]
        is_run_on = after.isalnum() and after.isascii()
        if (
            not is_run_on
            and (number_text.isalnum() or number_text.isupper())
            and is_iban(IBAN_GAP.sub("", number_text))
        ):
            yield match.span()


def find_ips(text: str) -> Iterator[Span]:
    """Spans of addresses, version 4 and 6; not after "version", "section" or a product's name and slash."""
    spans = [match.span() for match in IPV4.finditer(text) if _is_ipv4(match)]
    yield from sorted(spans + [match.span() for match in IPV6.finditer(text) if _is_ipv6(match[0])])


def _is_ipv4(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - 12) : match.start()]
    return LEADING_ZERO.search(match[0]) is None and VERSION_CUE.search(before) is None


def _is_ipv6(text: str) -> bool:
    if len(text) > 45 or LONG_GROUP.search(text) is None:  # "1::2" is more often a slice
        return False
    try:
        ipaddress.IPv6Address(text.rstrip(":") if text.endswith(":") and not text.endswith("::") else text)
    except ValueError:
        return False
    return True


def find_ssns(text: str) -> Iterator[Span]:
    """Spans of numbers in assigned ranges, in three groups, or ungrouped after "SSN"."""
    spans = [match.span() for match in SSN.finditer(text)]
    yield from sorted(spans + [match.span(1) for match in BARE_SSN.finditer(text)])


def find_api_keys(text: str) -> Iterator[Span]:
    """Spans of texts in the form of a service's key, a signed token, or a private key's header."""
    return (match.span() for match in API_KEY.finditer(text))


# In order: finds of one kind are hidden from the next, so an account number's digits are not a phone number.
KINDS: Mapping[PiiKindName, PiiKind] = MappingProxyType(
    {
        "api_key": PiiKind(
            r"\b(?:[sr]k[-_][A-Za-z0-9_-]{16}|AKIA|ASIA|gh[pousr]_|github_pat_|glpat-|xox|AIza|hf_|eyJ)|PRIVATE KEY",
            find_api_keys,
        ),
        "iban": PiiKind(r"[A-Za-z]{2}[0-9]{2}[ \x{a0}-]?[A-Za-z0-9]", find_ibans),
        "card": PiiKind(LIKELY, find_cards),
        "email": PiiKind("@", find_emails),
        "ip": PiiKind(
            r"(?:[0-9]{1,3}\.){3}[0-9]|[0-9A-Fa-f]{3}:[0-9A-Fa-f:]*:|::[0-9A-Fa-f:]*[0-9A-Fa-f]{3}", find_ips
        ),
        "ssn": PiiKind(LIKELY, find_ssns),
        "phone": PiiKind(LIKELY, find_phones),
    }
)


def mask(kind: PiiKindName, text: str) -> str:
    """Masked text of a find: a***@e***.org, DE***00; for a key, its first four characters."""
    if kind == "email":
        name, _, domain = text.rpartition("@")
        return f"{name[0]}***@{domain[0]}***.{domain.rpartition('.')[2]}"
    return f"{text[:4]}***" if kind == "api_key" else f"{text[:2]}***{text[-2:]}"


HIDDEN = "\x00"  # replaces each character of the finds of an earlier kind
MOST_SHOWN = 4


def _read_allowed(text: str) -> str:
    if not any(character.isalnum() for character in text):
        raise ValueError(f"found {text!r}, expected a text such as support@example.org or a domain such as example.org")
    return text


class PiiSettings(CheckSettings):
    """Kinds to look for, and exceptions."""

    kinds: Annotated[tuple[PiiKindName, ...], Field(min_length=1)] = tuple(KINDS)
    """forbidden kinds: email, phone, card, iban, ip, ssn, api_key"""
    allow: tuple[Annotated[str, AfterValidator(_read_allowed)], ...] = ()
    """exceptions: a whole address, number or key with any spacing, or a domain such as example.org, which covers every
    address there and at its subdomains"""


@register_check(
    "pii",
    PiiSettings,
    cost="rows",
    examples=(
        Example("Order 20250503-12 ships on 2025-05-03.", True),
        Example("Write to ada@example.org.", False),
        Example("Write to help@example.org.", True, {"allow": ["help@example.org"]}),
        Example("Call +1 212 555 0123.", False, {"kinds": ["phone"]}),
        Example("The card 4111 1111 1111 1111 was charged.", False, {"kinds": ["card"]}),
    ),
)
def pii(shard: pa.Table, settings: PiiSettings) -> CheckVerdicts:
    """The output contains no personal data and no secret of the requested kinds.

    The evidence gives the kind, the position (characters before it) and the edges of the find, never all of it. Digits
    are ASCII, and patterns are those of Latin script; names and street addresses are not searched.

    - `email`: an address with a dotted domain; Latin, Greek and Cyrillic letters.
    - `phone`: international with + (9 to 15 digits) or 00; the national forms of North America, of countries with
      a leading 0, of Brazil and of China, in groups; any 7 to 15 digits right after a word such as "call" or "tel".
      Dates are excluded, and numbers after a word such as "order", "ticket" or "ISBN". By form, so a guess.
    - `card`: 13 to 19 digits, ungrouped or grouped as on cards, with an issuer's prefix and a valid Luhn check digit;
      one in ten long numbers has that by chance.
    - `iban`: the country's length and valid check digits (mod 97).
    - `ip`: version 4 with octets of 0 to 255, version 6 with a group of three hexadecimal digits or more, so not "::1".
      Private and local addresses count; not after "version", "section" or a name and a slash ("Chrome/120.0.0.0").
    - `ssn`: of the United States, in three groups (or ungrouped after "SSN"), in assigned ranges.
    - `api_key`: keys of OpenAI and Anthropic (sk-), Stripe, AWS, GitHub, GitLab, Slack, Google and Hugging Face by
      their form, JSON web tokens, and the header of a private key.
    """
    texts = text_column(shard, "output")
    is_likely = find_likely(texts, "|".join(dict.fromkeys(KINDS[kind].likely for kind in settings.kinds)))
    suspects = texts.filter(is_likely)
    rows = zip(suspects.to_pylist(), _likely_kinds(suspects, settings), strict=True)
    findings = [_judge(text, kinds, settings) for text, kinds in rows]
    return place_findings(is_likely, findings, same_verdicts(len(texts), RowFinding(True)))


def _likely_kinds(texts: pa.Array, settings: PiiSettings) -> list[list[PiiKindName]]:
    """Kinds to search in each text: kinds with a likely match, up to the last requested kind."""
    names = list(KINDS)
    names = names[: 1 + max(names.index(kind) for kind in settings.kinds)]
    masks = {likely: find_likely(texts, likely).to_pylist() for likely in {KINDS[kind].likely for kind in names}}
    return [[kind for kind in names if masks[KINDS[kind].likely][row]] for row in range(len(texts))]


def _judge(text: str, kinds: Sequence[PiiKindName], settings: PiiSettings) -> RowFinding:
    finds = sorted(_first_finds(text, kinds, settings))
    if not finds:
        return RowFinding(True)
    evidence = "; ".join(
        f"{kind} at {start}: {mask(kind, text[start:stop])}" for start, stop, kind in finds[:MOST_SHOWN]
    )
    return RowFinding(False, evidence)


def _first_finds(
    text: str, kinds: Sequence[PiiKindName], settings: PiiSettings
) -> Iterator[tuple[int, int, PiiKindName]]:
    """First forbidden find of each kind, with its place."""
    allowed = {_compact(entry) for entry in settings.allow}
    domains = tuple(entry.lower() for entry in settings.allow)
    unsearched = text
    for kind in kinds:
        spans: Iterable[Span] = KINDS[kind].find(unsearched)
        if kind != kinds[-1]:  # all finds are blanked for the next kind; of the last kind the first one is enough
            spans = tuple(spans)
            unsearched = _blank(unsearched, spans)
        if kind in settings.kinds:
            forbidden = (
                (start, stop, kind)
                for start, stop in spans
                if _compact(text[start:stop]) not in allowed and not _is_at(text[start:stop], domains)
            )
            yield from islice(forbidden, 1)


def _compact(text: str) -> str:
    """E-mail address in lower case, or the letters and digits of a number or key, whatever its spacing."""
    lower = text.lower()
    return lower if "@" in lower else "".join(character for character in lower if character.isalnum())


def _is_at(text: str, domains: tuple[str, ...]) -> bool:
    """Whether an e-mail address is at one of the domains."""
    _, at, domain = text.lower().rpartition("@")
    return bool(at) and any(domain == allowed or domain.endswith(f".{allowed}") for allowed in domains)


def _blank(text: str, spans: Iterable[Span]) -> str:
    """Blank the spans of a text without moving other characters. spans: in order."""
    pieces, position = [], 0
    for start, stop in spans:
        pieces += [text[position:start], HIDDEN * (stop - max(start, position))]
        position = max(position, stop)
    return "".join([*pieces, text[position:]]) if pieces else text
