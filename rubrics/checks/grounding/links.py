"""Check of links: their number and their domains."""

import re
import string
from collections.abc import Sequence
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator, Field

from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, RowFinding, register_check
from gradebook.rubrics.check_kit.columns import EXCERPT_CHARACTERS, cut_text, text_column
from gradebook.rubrics.check_kit.measures import BoundsSettings, judge_counts
from gradebook.rubrics.check_kit.regexes import all_matches, is_all_ascii, place_findings, whitespace_class

# Characters other than whitespace that end a link: brackets and quotes, and the punctuation of other scripts.
ASCII_ENDS = r"""<>"()\[\]{}|^`"""
WIDE_ENDS = (
    r"«»\x{2018}-\x{201f}\x{2026}\x{3001}\x{3002}\x{3008}-\x{3011}"
    r"\x{ff01}\x{ff08}\x{ff09}\x{ff0c}\x{ff1a}\x{ff1b}\x{ff1f}"
)
WEB = {"http", "https"}
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
DOMAIN = re.compile(r"[^\s/:@?#.*]+(?:\.[^\s/:@?#.*]+)*")
HOST_START = re.compile(r"(?:[a-z][a-z0-9+.-]*:(?://)?)?", re.IGNORECASE)
HOST_END = re.compile(r"[/\\?#]")
LATE_MARKS = string.punctuation  # as in "Go to https://example.org!" and "**https://example.org**"


def _read_scheme(scheme: str) -> str:
    if not SCHEME.fullmatch(scheme.lower()):
        raise ValueError(f"found the scheme {scheme!r}, expected one such as https, without ://")
    return scheme.lower()


def _read_domain(domain: str) -> str:
    if not DOMAIN.fullmatch(domain):
        raise ValueError(f"found {domain!r}, expected a domain such as example.org")
    return domain.lower()


Schemes = Annotated[tuple[Annotated[str, AfterValidator(_read_scheme)], ...], Field(min_length=1)]
Domains = Annotated[tuple[Annotated[str, AfterValidator(_read_domain)], ...], Field(min_length=1)]


class UrlSettings(BoundsSettings):
    """Bounds on the number of links, and allowed domains; with `any`, the bounds are optional."""

    schemes: Schemes = ("http", "https")
    """schemes of the links to count, without the colon; with http or https, a bare "www." counts too"""
    any: Domains | None = None
    """allowed domains, each with its subdomains; default: all"""

    def refuse_no_bounds(self) -> None:
        """Raise `ValueError` unless the settings have bounds, levels or allowed domains."""
        if self.any is None or (self.has_bounds and self.levels is not None):
            super().refuse_no_bounds()


@register_check(
    "count_urls",
    UrlSettings,
    examples=(
        Example("See https://docs.example.org/refunds.", True, {"min": 1, "any": ["example.org"]}),
        Example("See https://example.org.evil.test/refunds.", False, {"any": ["example.org"]}),
        Example("See https://example.org and www.example.org.", False, {"max": 1}),
    ),
)
def count_urls(shard: pa.Table, settings: UrlSettings) -> CheckVerdicts:
    """The number of web addresses lies within the bounds, and each leads to an allowed domain.

    Only addresses count, anywhere in the text; `count_links` also counts Markdown links to files and headings, and
    ignores images and code.

    A link is an address with its scheme (`https://...`, or `mailto:...` if `schemes` includes it), also in Markdown and
    HTML, or a bare one that starts with "www."; a repeated address counts again. It ends at whitespace, a bracket, a
    quote, a comma, a semicolon or East Asian punctuation. "example.org" allows its subdomains, but not
    "notexample.org". Text before an @ is not the host. An address without scheme and "www.", such as "evil.test/a" or
    "//evil.test", is not found. The evidence is the first link that is not allowed, else the count.
    """
    texts = text_column(shard, "output")
    end_characters = ASCII_ENDS + whitespace_class(texts) + ("" if is_all_ascii(texts) else WIDE_ENDS)
    pattern = _url_pattern(settings.schemes, end_characters)
    counts = pc.count_substring_regex(texts, pattern).cast(pa.int64())
    count_verdicts = judge_counts(counts, settings, "link", "links")
    if settings.any is None:
        return count_verdicts
    has_url = pc.greater(counts, 0)
    strays = [_first_stray(urls, settings.any) for urls in all_matches(texts.filter(has_url), pattern)]
    is_stray = pc.replace_with_mask(
        pa.repeat(False, len(texts)), has_url, pa.array([bool(url) for url in strays], pa.bool_())
    )
    return place_findings(is_stray, [RowFinding(False, url) for url in strays if url], count_verdicts)


def _url_pattern(schemes: Sequence[str], ends: str) -> str:
    starts = [f"{re.escape(scheme)}://" for scheme in schemes] + [r"www\."] * bool(WEB & set(schemes))
    with_host = (
        rf"(?:{'|'.join(starts)})(?:\[[0-9a-f:.]+\])?(?:[^{ends}/\\?#]*@)?"  # "https://a.org,@b.org" leads to b.org
    )
    # "mailto:", "tel:" and "javascript:" have no slashes; "http:" alone is no link
    bare = [f"{re.escape(scheme)}:" for scheme in schemes if scheme not in WEB]
    return rf"(?i)(?:\b|_)((?:{'|'.join([with_host, *bare])})[^{ends}',;]+)"


def _first_stray(urls: Sequence[str], domains: Sequence[str]) -> str | None:
    """Evidence for the first link to another domain; None if there is none."""
    within = tuple(f".{domain}" for domain in domains)
    for url in urls:
        host = _host(url)
        if host not in domains and not host.endswith(within):
            return f"found '{cut_text(url, EXCERPT_CHARACTERS)}', expected {' or '.join(domains)}"
    return None


def _host(url: str) -> str:
    """Host of a link, in lower case; for an e-mail address, its domain."""
    address = url if url[:4].lower() == "www." else HOST_START.sub("", url, count=1)
    authority = HOST_END.split(address, maxsplit=1)[0].rpartition("@")[2]
    return authority.partition(":")[0].rstrip(LATE_MARKS).lower()
