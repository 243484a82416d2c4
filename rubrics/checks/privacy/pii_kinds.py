"""Kinds of personal data and secrets: their location in a text, and a masked form for display.

Each kind has an RE2 pattern that matches every text with a find, and many others, and a search that reads a text in
linear time: its expressions are possessive or bounded.
"""

import ipaddress
import re
import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from gradebook.rubrics.checks.privacy.phone_numbers import BLANK, DASHES, GAP, LIKELY, NOT_IN_A_WORD, Span, find_phones

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
    """Spans of account numbers; grouped ones in capitals only, as prose would match now and then."""
    for start in (match.start() for match in IBAN_START.finditer(text)):
        length = IBAN_LENGTHS.get(text[start : start + 2].upper())
        written = IBANS[length].match(text, start) if length else None
        if written is None:
            continue
        shown, after = written[0], text[written.end() : written.end() + 1]
        is_run_on = after.isalnum() and after.isascii()
        if not is_run_on and (shown.isalnum() or shown.isupper()) and is_iban(IBAN_GAP.sub("", shown)):
            yield written.span()


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


# In this order: finds of one kind are not searched by the next, so an account number's digits are not a phone number.
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


def mask(kind: PiiKindName, found: str) -> str:
    """Masked find: a***@e***.org, DE***00; for a key, its first four characters."""
    if kind == "email":
        name, _, domain = found.rpartition("@")
        return f"{name[0]}***@{domain[0]}***.{domain.rpartition('.')[2]}"
    return f"{found[:4]}***" if kind == "api_key" else f"{found[:2]}***{found[-2:]}"
