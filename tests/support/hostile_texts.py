"""Texts of a given size that are cheap to write and dear to read: what stalls a parser, a pattern or a comparison."""

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

REPEATED: Mapping[str, str] = MappingProxyType(
    {
        "spaces": " ",
        "newlines": "\n",
        "CRLF": "\r\n",
        "blank lines of spaces": "  \n \n",
        "wide spaces": "\u3000",
        "one letter": "a",
        "one capital": "A",
        "one digit": "9",
        "short words": "a ",
        "capital words": "Aa Bb ",
        "lines of a word": "word\n",
        "paragraphs": "a\n\n",
        "numbers": "1,",
        "decimals": "1.2.3 ",
        "fractions": "1/2 ",
        "minus signs": "-",
        "dates": "2024-01-02 ",
        "full stops": ".",
        "sentences": "A b. ",
        "initials": "J. ",
        "commas": ",",
        "question marks": "?!",
        "double quotes": '"',
        "single quotes": "'",
        "curly quotes": "\u201c\u201d",
        "open curly quotes": "\u201c",
        "guillemets": "\u00ab",
        "apostrophes": "it's ",
        "backticks": "`",
        "backtick pairs": "`a` ",
        "backslashes": "\\",
        "fences": "```\n",
        "fences of a language": "```json\n{}\n```\n",
        "tildes": "~~~\n",
        "hashes": "#",
        "headings": "# a\n",
        "underlined headings": "a\n=\n",
        "asterisks": "*",
        "bold": "**a** ",
        "open bold": "**a ",
        "underscores": "_a ",
        "table rows": "| a | b |\n",
        "table rules": "|-|-|\n",
        "pipes": "|",
        "bullets": "- a\n",
        "numbered": "1. a\n",
        "nested bullets": "- ",
        "quoted lines": "> ",
        "parentheses open": "(",
        "parentheses nested": "()",
        "brackets open": "[",
        "brackets closed": "]",
        "braces open": "{",
        "keys open": '{"a":',
        "pairs open": '[{"a":1},',
        "colons": "a: ",
        "YAML anchors": "a: &a [*a]\n",
        "YAML dashes": "- - ",
        "YAML flow": "{a: ",
        "YAML questions": "? ",
        "tags open": "<a>",
        "angles open": "<",
        "tags with attributes": '<a b="c">',
        "XML comments": "<!--",
        "entities": "&amp;",
        "SQL parentheses": "select (",
        "SQL unions": "select 1 union ",
        "SQL joins": "select * from a join b on ",
        "SQL statements": "select 1;",
        "SQL and": "select a and not ",
        "Python parentheses": "f(",
        "Python lambdas": "lambda: ",
        "Python sums": "1+",
        "Python blocks": "if a:\n ",
        "Python statements": "a = 1\n",
        "Python nots": "not ",
        "Python f-strings": "f'{",
        "links": "[a](http://a.b) ",
        "open links": "[a](",
        "images": "![",
        "URLs": "https://a.b/c?d=e ",
        "URL schemes": "http://",
        "www": "www.",
        "address near-misses": "a@",
        "addresses": "a@b.co ",
        "dots and letters": "a.",
        "phone near-misses": "+1-",
        "phone groups": "555-",
        "phones": "(555) 010-9999 ",
        "cards": "4111 1111 1111 1111 ",
        "card digits": "4111",
        "IBAN prefixes": "DE89",
        "IBANs": "DE89 3704 0044 0532 0130 00 ",
        "IP addresses": "127.0.0.1.",
        "IPv6": "1:",
        "citations": "[1]",
        "citation lists": "[1, 2, 3] ",
        "citation ranges": "[1-999999] ",
        "open citation list": "1, 2, ",
        "superscripts": "\u00b9",
        "authors": "(Smith, 2020; ",
        "footnotes": "[^1] ",
        "placeholders": "[name] ",
        "angle sections": "SECTION 1\n",
        "stars line": "***\n",
        "choices": "A) ",
        "answer is": "the answer is ",
        "answer is A": "Answer: (A\n",
        "boxed": "\\boxed{",
        "boxed numbers": "\\boxed{1} ",
        "LaTeX fractions": "\\frac{1}{",
        "dollars": "$1",
        "percent": "1% ",
        "hash answers": "#### 1\n",
        "combining marks": "\u0301",
        "letter and marks": "e\u0301",
        "CJK": "\u4e2d",
        "CJK sentences": "\u4e2d\u6587\u3002",
        "kana": "\u30ab\u3099",
        "Hangul jamo": "\u1100\u1161\u11a8",
        "Thai": "\u0e01\u0e33",
        "Hebrew": "\u05e9\u05dc ",
        "Arabic": "\u0645\u0631\u062d\u0628\u0627 ",
        "Devanagari": "\u0915\u094d\u0937 ",
        "long ligatures": "\ufdfa",  # 18 characters once decomposed
        "capital sharp s": "\u00df",
        "dotted capital I": "\u0130",
        "emoji": "\U0001f600",
        "emoji families": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "skin tones": "\U0001f44d\U0001f3fd",
        "flags": "\U0001f1e9\U0001f1ea",
        "joiners": "\u200d",
        "soft hyphens": "\u00ad",
        "bidi marks": "\u202e",
        "NUL": "\x00",
        "NUL in words": "a\x00 ",
        "controls": "\x1b[0m",
        "replacement": "\ufffd",
        "BOM": "\ufeff",
        "line separators": "\u2028",
        "mathematical letters": "\U0001d400",
        "leetspeak": "f.u.c.k ",
        "stretched": "fuuu",
        "spaced letters": "f u c k ",
        "swear": "fuck ",
        "refusals": "I can't ",
        "sorry": "sorry, but ",
        "as an AI": "as an ",
        "hype": "revolutionary ",
        "syllables": "io",
        "vowels": "aeiouy",
        "hyphenated": "a-",
        "camel": "aB",
        "ngram": "the cat sat on the mat ",
        "base64": "QUJD/+",
        "exponents": "1e9",
        "six asterisks": "******",
        "tool calls": '{"name": "f"} ',
        "function calls": "<tool_call>",
        "dialogue": "User: a\nAssistant: b\n",
        "question": "a? ",
        "slots": "on 5 May at 5pm in ",
    }
)


def _distinct_words(size: int) -> str:
    return " ".join(f"w{place:06}" for place in range(size // 8))


def _distinct_numbers(size: int) -> str:
    return " ".join(str(10**6 + place) for place in range(size // 8))


def _distinct_citations(size: int) -> str:
    return "".join(f"[{10**6 + place}]" for place in range(size // 9))


def _distinct_keys(size: int) -> str:
    return "{" + ",".join(f'"{place:06}":1' for place in range(size // 11)) + "}"


def _one_key(size: int) -> str:
    return "{" + ",".join(['"a":1'] * (size // 6)) + "}"


def _growing_quotes(size: int) -> str:
    pieces, length, written = [], 1, 0
    while written < size:
        pieces.append('"' + "word " * length + '"')
        written += 5 * length + 2
        length += 1
    return " ".join(pieces)


def _growing_fences(size: int) -> str:
    pieces, length, written = [], 3, 0
    while written < size:
        pieces.append("`" * length + "\na\n")
        written += length + 3
        length += 1
    return "".join(pieces)


def _nested(opening: str, closing: str, middle: str = "") -> Callable[[int], str]:
    def write(size: int) -> str:
        depth = size // (len(opening) + len(closing))
        return opening * depth + middle + closing * depth

    return write


def _around(start: str, unit: str, end: str) -> Callable[[int], str]:
    return lambda size: start + unit * (size // len(unit)) + end


MADE: Mapping[str, Callable[[int], str]] = MappingProxyType(
    {
        "distinct words": _distinct_words,
        "distinct numbers": _distinct_numbers,
        "distinct citations": _distinct_citations,
        "distinct keys": _distinct_keys,
        "one key again": _one_key,
        "growing quotes": _growing_quotes,
        "growing fences": _growing_fences,
        "nested lists": _nested("[", "]"),
        "nested objects": _nested('{"a":', "}", "1"),
        "nested tags": _nested("<a>", "</a>"),
        "nested parentheses": _nested("(", ")", "1"),
        "nested select": _nested("select (", ")", "1"),
        "nested boxes": _nested("\\boxed{", "}", "1"),
        "nested quotes": _nested("\u201c", "\u201d", "a"),
        "almost the end": _around("", "a", "b"),
        "a word of spaces": _around("a", " ", "a"),
        "a word of newlines": _around("a", "\n", "a"),
        "a JSON text": _around('"', "a", '"'),
        "a JSON text of escapes": _around('"', "\\u0041", '"'),
        "a JSON list": _around("[1", ",1", "]"),
        "a JSON number": _around("", "1", ""),
        "a JSON fraction": _around("0.", "1", ""),
        "a JSON exponent": _around("1e", "9", ""),
        "a list of objects": _around('[{"a":1}', ',{"a":1}', "]"),
        "a flat document": _around("<a>", "<b/>", "</a>"),
        "many attributes": lambda size: "<a " + " ".join(f'a{place}="1"' for place in range(size // 12)) + "/>",
        "an entity bomb": _around('<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb">]><a>', "&b;", "</a>"),
        "a YAML mapping": lambda size: "\n".join(f"k{place:06}: 1" for place in range(size // 11)),
        "a deeper YAML": lambda size: "\n".join(" " * place + "a:" for place in range(int((2 * size) ** 0.5))),
        "a YAML alias": _around("a: &x 1\nb: [", "*x, ", "]"),
        "a SQL list": _around("select 1 where a in (1", ",1", ")"),
        "a SQL sum": _around("select 1", "+1", ""),
        "a SQL condition": _around("select 1 where a", " and a", ""),
        "a SQL union": _around("select 1", " union all select 1", ""),
        "a SQL insert": _around("insert into t values (1)", ",(1)", ""),
        "a Python sum": _around("a = 1", "+1", "\n"),
        "a Python list": _around("a = [1", ",1", "]\n"),
        "a Python string": _around("a = '", "a", "'\n"),
        "a Python chain": _around("a", ".a", "\n"),
        "a deeper Python": lambda size: "".join(" " * place + "if a:\n" for place in range(int((2 * size) ** 0.5))),
        "a wide table": _around("|", "a|", "\n|"),
        "a table": _around("| a | b |\n|---|---|\n", "| 1 | 2 |\n", ""),
        "an unclosed fence": _around("```\n", "a\n", ""),
        "a title": _around("<<", "a", ">>"),
        "a quote": _around('"', "a ", '"'),
        "a heading": _around("# ", "a ", "\n"),
        "one sentence": _around("A ", "word ", "end."),
        "a prompt twice": lambda size: f"{'a b ' * (size // 8)}******{'a c ' * (size // 8)}",
        "a postscript": _around("", "a ", "P.S. a"),
        "a URL": _around("https://a.b/", "a", ""),
        "a URL of brackets": _around("https://a.b/", "(", ""),
        "a link of brackets": _around("[a](http://a.b/", "(", ")"),
        "a host": _around("https://", "a.", "com"),
        "an address": _around("", "a", "@a.co"),
        "a domain": _around("a@", "a.", "co"),
        "a signed number": _around("-", "1", ""),
        "a grouped number": _around("1", ",111", ""),
        "a padded number": _around("0.", "0", "1"),
        "a citation of digits": _around("[", "1", "]"),
        "a citation list": _around("[1", ",1", "]"),
        "a citation range": _around("[1", "-1", "]"),
        "sorted lines": lambda size: "\n".join(f"{place:09}" for place in range(size // 10)),
        "sorted bullets": lambda size: "\n".join(f"- {place:07}" for place in range(size // 10)),
        "list numbers": lambda size: "\n".join(f"{place}. a" for place in range(size // 10)),
    }
)  # fmt: skip


@cache
def hostile_texts(size: int) -> dict[str, str]:
    """Each shape at about `size` bytes, by its name."""
    repeated = {name: unit * (size // len(unit.encode())) for name, unit in REPEATED.items()}
    return repeated | {name: write(size) for name, write in MADE.items()}
