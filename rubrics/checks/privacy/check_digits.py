"""Numbers with check digits: payment cards and bank accounts."""

import string
from collections.abc import Mapping
from types import MappingProxyType

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
