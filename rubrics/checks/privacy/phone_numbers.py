"""Phone numbers in prose, distinguished from dates and order numbers by their form and the words around them."""

import heapq
import re
from collections.abc import Iterator
from operator import itemgetter

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
    """Spans of the phone numbers in a text, in order; of two that start together, the one found by its form."""
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
    """Whether the preceding words show that it numbers something else: an order, a ticket, a book."""
    return OTHER_CUE_BACKWARDS.match(text[max(0, start - CUE_CHARACTERS) : start][::-1]) is not None
