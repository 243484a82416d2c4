"""Check of personal data and secrets."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Annotated

import pyarrow as pa
from pydantic import AfterValidator, Field

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.matching import find_likely, place_findings, same_verdicts
from gradebook.rubrics.check_kit.rows import RowFinding
from gradebook.rubrics.checks.privacy.phone_numbers import Span
from gradebook.rubrics.checks.privacy.pii_kinds import KINDS, PiiKindName, mask

BLANK = "\x00"  # replaces each character of the finds of an earlier kind
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
    """Kinds to look for in each text: those with a likely match, up to the last requested one."""
    names = list(KINDS)
    names = names[: 1 + max(names.index(kind) for kind in settings.kinds)]
    masks = {likely: find_likely(texts, likely).to_pylist() for likely in {KINDS[kind].likely for kind in names}}
    return [[kind for kind in names if masks[KINDS[kind].likely][row]] for row in range(len(texts))]


def _judge(text: str, kinds: Sequence[PiiKindName], settings: PiiSettings) -> RowFinding:
    found = sorted(_first_finds(text, kinds, settings))
    if not found:
        return RowFinding(True)
    shown = "; ".join(f"{kind} at {start}: {mask(kind, text[start:stop])}" for start, stop, kind in found[:MOST_SHOWN])
    return RowFinding(False, shown)


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
            faults = (
                (start, stop, kind)
                for start, stop in spans
                if _compact(text[start:stop]) not in allowed and not _is_at(text[start:stop], domains)
            )
            yield from islice(faults, 1)


def _compact(text: str) -> str:
    """E-mail address in lower case, or the letters and digits of a number or key, whatever its spacing."""
    lower = text.lower()
    return lower if "@" in lower else "".join(character for character in lower if character.isalnum())


def _is_at(found: str, domains: tuple[str, ...]) -> bool:
    """Whether an e-mail address is at one of the domains."""
    _, at, domain = found.lower().rpartition("@")
    return bool(at) and any(domain == allowed or domain.endswith(f".{allowed}") for allowed in domains)


def _blank(text: str, spans: Iterable[Span]) -> str:
    """Blank the spans of a text without moving other characters. spans: in order."""
    pieces, place = [], 0
    for start, stop in spans:
        pieces += [text[place:start], BLANK * (stop - max(start, place))]
        place = max(place, stop)
    return "".join([*pieces, text[place:]]) if pieces else text
