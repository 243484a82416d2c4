from functools import partial

import pytest
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.registry import find_check
from tests.support import checked
from tests.support.law_over import law_over

ALLOWED = {"any": ["example.org"]}


judge = partial(checked.judge, "count_urls")


@law_over(
    ("output", "count"),
    [
        ("", 0),
        (" \r\n\t", 0),
        ("example.org and http:// alone", 0),
        ("xhttp://a.org ftp://a.org", 0),
        ("http://a.org HTTPS://A.ORG www.a.org", 3),
        ("[a](http://a.org)[b](https://b.org), <http://c.org>", 3),
        ("https://archive.test/web/https://a.org", 1),
        ("http://a.org,http://b.org;http://c.org", 3),
        ("_http://a.org_ x_http://a.org", 2),
        ("见https://例え.jp、https://a.org。", 2),
        ("http://[::1]:80/x", 1),
        ("http://a.org\x00http://b.org", 1),
        ("😀http://a.org\u200fhttp://b.org", 1),
        ("https://user@a.org https://www.a.org", 2),
    ],
)
def test_links_are_counted(output, count):
    assert judge(output, min=count, max=count) == (True, None)


@law_over(
    ("output", "is_passed"),
    [
        ("no link", True),
        ("https://example.org https://EXAMPLE.org:443/x?y#z", True),
        ("https://docs.example.org. www.example.org", True),
        ("https://user:secret@example.org/", True),
        ("https://notexample.org", False),
        ("https://example.org.evil.test", False),
        ("https://example.org@evil.test", False),
        ("https://example.org,@evil.test", False),
        ("https://example.org;a:b@evil.test/", False),
        ("www.evil.test/?u=https://example.org", False),
        ("www.example.org:80/x", True),
        ("_https://evil.test_", False),
        ("**https://example.org** Go to https://example.org!", True),
        ("https://example.org\u00a0and https://example.org’s", True),
        ("\uff08https://example.org\uff09https://example.org。", True),
        ("https://evil.test\\@example.org", False),
        ("https://evil.test/example.org", False),
        ("https://evil.test?@example.org", False),
        ("https://[::1]/", False),
    ],
)
def test_only_links_to_the_domains_pass(output, is_passed):
    assert judge(output, **ALLOWED)[0] is is_passed


def test_the_first_stray_link_is_the_evidence():
    output = "https://example.org https://evil.test/a https://worse.test"
    assert judge(output, **ALLOWED) == (False, "found 'https://evil.test/a', expected example.org")


def test_bounds_and_domains_hold_together():
    assert judge("https://example.org", min=2, **ALLOWED) == (False, "1 link, at least 2 required")


def test_other_schemes_count_when_asked_for():
    assert judge("mailto:a@example.org", schemes=["mailto"], **ALLOWED)[0] is True
    assert judge("mailto:a@evil.test?body=https://example.org", schemes=["mailto"], **ALLOWED)[0] is False
    assert judge("javascript:run() ftp://a.org", schemes=["javascript", "ftp"], max=0)[0] is False
    assert judge("mailto:a@evil.test https://evil.test", schemes=["MAILTO"], max=0)[1] == "1 link, at most 0 allowed"


@law_over("unit", ["http://", "https://a.org ", "www.", "h", "http://a@", "[", "http://a.org,", "\n"])
def test_a_million_characters_are_counted(unit):
    output = unit * (1_000_000 // len(unit)) + " https://evil.test"
    assert judge(output, **ALLOWED)[0] is False


@law_over(
    "settings",
    [
        {},
        {"min": 2, "max": 1},
        {"any": []},
        {"any": ["https://example.org"]},
        {"any": ["example.org/x"]},
        {"any": [".org"]},
        {"any": ["*.example.org"]},
        {"max": 1, "schemes": []},
        {"max": 1, "schemes": ["https://"]},
        {"max": "1"},
    ],
)
def test_settings_that_cannot_hold_are_refused(settings):
    with pytest.raises(ValidationError):
        read_settings(find_check("count_urls"), settings)
