import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.privacy import IBAN_LENGTHS, KINDS, is_card, is_iban
from gradebook.rubrics.checks.registry import find_check
from tests.support.law_over import law_over
from tests.support.nightly import nightly

CARDS = ["4111111111111111", "378282246310005", "30569309025904", "5555555555554444", "6011111111111117"]
IBANS = ["DE89370400440532013000", "GB29NWBK60161331926819", "NO9386011117947", "MT84MALT011000012345MTLCAST001S"]
KEYS = [
    "sk-" + "proj-abc123DEF456ghi789JKL",
    "sk_" + "live_4eC39HqLyjWDarjtT1zdp7dc",
    "AKIA" + "IOSFODNN7EXAMPLE",
    "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a",
    "xoxb-" + "123456789012-abcdefABCDEF",
    "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "-----BEGIN " + "RSA PRIVATE KEY-----",
]


def judge(output: str, *kinds: str, allow: tuple[str, ...] = ()) -> tuple[bool, str | None]:
    check = find_check("pii")
    settings = read_settings(check, {"allow": allow} | ({"kinds": kinds} if kinds else {}))
    found = check.function(pa.table({"output": [output]}), settings)
    return found.is_passed[0].as_py(), found.evidence[0].as_py()


@law_over(
    ("kind", "output"),
    [
        *(("email", text) for text in ("a@b.co", "**ada@example.org**", "mailto:ada@x.org?y")),
        ("email", "请联系ada@example.org谢谢"),
        *(("email", text) for text in ("o'brien@x-y.example.museum.", "josé@example.org")),
        *(("email", text) for text in ("иван@пример.рф", "a+b@x.org\x00")),
        *(("phone", text) for text in ("+1 (555) 010-9999", "+44 20 7946 0958", "0044 20 7946 0958", "+15550109999")),
        *(("phone", text) for text in ("(212) 555-0123", "212-555-0123", "212.555.0123")),
        *(("phone", text) for text in ("212 555 0123", "1-800-555-0123")),
        *(("phone", text) for text in ("020 7946 0958", "01 23 45 67 89", "089/1234567")),
        *(("phone", text) for text in ("090-1234-5678", "0171-1234567")),
        *(("phone", text) for text in ("138-1234-5678", "(11) 91234-5678")),
        *(("phone", text) for text in ("212\u2011555\u20110123", "+49 (0)89 123456")),
        *(("phone", text) for text in ("call 5551234567", "电话13812345678。")),
        *(("phone", text) for text in ("_212-555-0123_", "*+44 20 7946 0958*")),
        *(("phone", text) for text in ("tel:555-0199", "WhatsApp us at 07700900123")),
        *(("card", text) for text in CARDS),
        *(("card", text) for text in ("4111 1111 1111 1111", "3782-822463-10005")),
        *(("card", text) for text in ("4111\u20131111\u20131111\u20131111", "4111\u202f1111\u202f1111\u202f1111")),
        *(("card", text) for text in ("卡号4111111111111111。", "9 4111-1111-1111-1111")),
        *(("iban", text) for text in IBANS),
        *(("iban", text) for text in ("DE89 3704 0044 0532 0130 00 is it", "de89370400440532013000")),
        *(("iban", text) for text in ("GB29 NWBK 6016 1331 9268 19",)),
        *(("ip", text) for text in ("10.0.0.255", "at 203.0.113.7.", "2001:db8::1")),
        *(("ip", text) for text in ("fe80::1ff:fe23:4567:890a", "::ffff:abcd")),
        *(("ip", text) for text in ("_203.0.113.7_", "http://203.0.113.7/a", "_2001:db8::1_")),
        *(("ssn", text) for text in ("123-45-6789", "899 99 9999", "_123-45-6789_", "123\u201345\u20136789")),
        *(("ssn", text) for text in ("SSN: 123456789", "social security number is 123456789")),
        *(("api_key", text) for text in KEYS),
    ],
)  # fmt: skip
def test_what_is_found(kind, output):
    assert judge(output, kind)[0] is False
    assert judge(f"«{output}»\r\n😀", kind)[0] is False


@law_over(
    ("kind", "output"),
    [
        *(("email", text) for text in ("@ada", "a@b", "ada@localhost")),
        *(("email", text) for text in ("ada@10.0.0.1", "icon@2x.png", "git@github.com:a/b")),
        *(("phone", text) for text in ("2025-05-03", "03.05.2025", "03-05-2025 12:30")),
        *(("phone", text) for text in ("01.02.2025-03.02.2025", "10:30-12:30")),
        *(("phone", text) for text in ("order 123-456-7890", "Order number: 020 7946 0958", "ticket #212-555-0123")),
        *(("phone", text) for text in ("ISBN 978-0-306-40615-7", "1 000 000 000", "$1,234,567.89", "3.14159265358979")),
        *(("phone", text) for text in ("12345678901", "call on 2025-05-03", "192.168.100.200")),
        *(("phone", text) for text in ("2019 2020 2021", "+25 000 000")),
        *(("phone", text) for text in ("550e8400-e29b-41d4-a716-446655440000", "id-212-555-0123")),
        *(("phone", text) for text in ("DE89 3704 0044 0532 0130 00",)),
        *(("card", text) for text in ("4111111111111112", "1746100000000", "411111111111")),
        *(("card", text) for text in ("41111111111111111111", "x4111111111111111")),
        *(("card", text) for text in ("0.4111111111111111", "1 2 3 4 5 6 7 8 9 10 11 12 13", "DE89370400440532013000")),
        *(("iban", text) for text in ("DE88370400440532013000", "DE8937040044053201300")),
        *(("iban", text) for text in ("XX89370400440532013000", "DE89")),
        *(("ip", text) for text in ("256.1.1.1", "1.2.3", "1.2.3.4.5", "version 1.2.3.4")),
        *(("ip", text) for text in ("Version: 1.2.3.4", "Chrome/120.0.0.0", "a_1.2.3.4", "1.2.3.4_b")),
        *(("ip", text) for text in ("v1.2.3.4", "01.2.3.4", "a[1::2]", "12:30:45")),
        *(("ip", text) for text in ("std::vector", "::", "10:20:30:40:50:60", "cafe::babe::1")),
        *(("ssn", text) for text in ("000-12-3456", "666-12-3456", "900-12-3456")),
        *(("ssn", text) for text in ("123-00-4567", "123-45-0000", "123456789")),
        *(("ssn", text) for text in ("1123-45-6789", "123-45-6789-1", "123-45 6789")),
        *(("api_key", text) for text in ("sk-learn-is-a-nice-library-for-all", "risk-averse1234567890abcdefgh")),
        *(("api_key", text) for text in ("AKIA", "eyJ.eyJ.")),
    ],
)  # fmt: skip
def test_what_is_not_found(kind, output):
    assert judge(output, kind) == (True, None)


@law_over("output", ["", " \r\n\t", "\x00", "中文没有", "ภาษาไทย", "שלום", "e\u0301 👩‍👩‍👧", "Thanks, all is well."])
def test_a_clean_text_passes_all_kinds(output):
    assert judge(output) == (True, None)


def test_the_evidence_gives_kind_place_and_edges_alone():
    output = "é Write to ada@example.org or call +1 212 555 0123."
    assert judge(output) == (False, "email at 11: a***@e***.org; phone at 35: +1***23")
    assert judge(f"key {KEYS[2]}") == (False, "api_key at 4: AKIA***")


def test_what_is_allowed_may_stand():
    output = "ada@mail.example.org, help@other.test, +1 (212) 555-0123"
    assert judge(output, allow=("example.org", "HELP@other.test", "+1 212 555 0123")) == (True, None)
    assert judge(output, allow=("ample.org", "help@other.test", "+12125550123"))[1] == "email at 0: a***@m***.org"


@pytest.mark.parametrize(
    "settings", [{"kinds": []}, {"kinds": ["name"]}, {"allow": [""]}, {"allow": ["@"]}, {"mask": True}], ids=str
)
def test_settings_that_cannot_hold_are_refused(settings):
    with pytest.raises(ValidationError):
        read_settings(find_check("pii"), settings)


def with_luhn_digit(digits: str) -> str:
    return next(digits + last for last in "0123456789" if is_card(digits + last))


@given(st.from_regex(r"4[0-9]{11,17}", fullmatch=True), st.data())
def test_a_card_with_one_digit_changed_is_none(digits, draw):
    card = with_luhn_digit(digits)
    place = draw.draw(st.integers(0, len(card) - 1))
    other = draw.draw(st.sampled_from("0123456789".replace(card[place], "")))
    assert is_card(card)
    assert not is_card(card[:place] + other + card[place + 1 :])


@given(st.sampled_from(sorted(IBAN_LENGTHS)), st.data())
def test_an_iban_with_one_digit_changed_is_none(country, draw):
    rest = draw.draw(st.text("0123456789", min_size=IBAN_LENGTHS[country] - 4, max_size=IBAN_LENGTHS[country] - 4))
    # check digits of ISO 7064: 98 less the remainder with zeros in their place
    value = int("".join(str(int(character, 36)) for character in f"{rest}{country}00"))
    iban = f"{country}{98 - value % 97:02}{rest}"
    place = draw.draw(st.integers(2, len(iban) - 1))
    other = draw.draw(st.sampled_from("0123456789".replace(iban[place], "")))
    assert is_iban(iban)
    assert not is_iban(iban[:place] + other + iban[place + 1 :])


SNIPPETS = [
    "1",
    "23",
    "456",
    "7890",
    "0",
    "+",
    "(",
    ")",
    " ",
    "-",
    ".",
    "/",
    ":",
    "::",
    "a@b.co",
    "db8",
    "f",
    "call ",
    "DE89",
]


@given(
    st.lists(st.sampled_from([*SNIPPETS, *CARDS, *IBANS, *KEYS, "\u2011", "SSN ", "é", "x"]), max_size=14).map("".join)
)
def test_what_a_kind_finds_its_first_look_does_not_miss(text):
    for kind in KINDS.values():
        spans = list(kind.find(text))
        assert spans == sorted(spans)
        assert not spans or pc.match_substring_regex(pa.array([text]), kind.likely)[0].as_py()


@given(st.lists(st.lists(st.sampled_from([*SNIPPETS, *KEYS, "x"]), max_size=8).map("".join), min_size=5, max_size=9))
def test_rows_together_are_judged_as_alone(outputs):
    check = find_check("pii")
    together = check.function(pa.table({"output": outputs}), read_settings(check, {})).evidence.to_pylist()
    assert together == [judge(output)[1] for output in outputs]


HOSTILE = [
    "1",
    "1 ",
    "1.",
    "1:",
    "a@",
    "@",
    "a.",
    "a@a.",
    "0123456789 ",
    "(0",
    "+1",
    "AA11 ",
    "sk-a",
    "eyJ",
    "::",
    "f:",
    "call 1 ",
]


@pytest.mark.parametrize(
    "unit",
    [
        "1 ",
        *nightly(
            [
                *(unit for unit in HOSTILE if unit != "1 "),
                "4111 ",
                "4111-1111-1111-1112 ",
                "-----BEGIN ",
                "order 020 7946 0958 ",
                "a_",
                "é",
                "a'",
                "-eyJaaaaaaaaaaaa",
            ]
        ),
    ],
)
def test_a_million_characters_are_judged(unit):
    output = unit * (1_000_000 // len(unit)) + " \n ada@example.org"
    assert judge(output)[0] is False


def test_a_phone_after_very_many_that_are_allowed_is_found():
    output = "call (555) 010-9999, " * 50 + "call 020 7946 0123"
    assert judge(output, "phone", allow=("(555) 010-9999",)) == (False, "phone at 1055: 02***23")


@pytest.mark.parametrize("words", ["order", "Invoice no.", "ref: number", "№", "item id is "])
def test_a_number_after_the_name_of_what_it_numbers_is_no_phone(words):
    assert judge(f"My {words} 212-555-0123", "phone")[0] is True
