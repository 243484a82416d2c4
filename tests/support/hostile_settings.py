"""Settings that make a check work harder than those of its examples do: long lists, bounds out of reach."""

from collections.abc import Mapping
from typing import Any

WORDS = [f"word{place}" for place in range(300)]
NESTED = ["a" * length for length in range(1, 300)]  # each word begins with the one before
SPACED = ["a b c d e f g h i j", " a", "a ", "- -", "\u0301", "\u4e2d\u6587", "ﬁ", "ß"]
HUGE = 10**9
SCORED: list[Mapping[str, Any]] = [
    {"min": 0.99},
    {"min": 0.5, "separator": " "},
    {"min": 0.5, "separator": "a"},
    {"min": 0.5, "expected": WORDS},
]
KEYWORDS: list[Mapping[str, Any]] = [
    {"any": WORDS, "whole_word": True},
    {"all": NESTED},
    {"all": NESTED, "whole_word": True, "fold": "accents"},
    {"any": SPACED, "whole_word": True, "case_sensitive": True},
    {"any": ["a" * 10_000]},
    {"any": ["A" * 5_000 + "b"], "whole_word": True, "fold": "compatibility"},
]

WORSE: Mapping[str, list[Mapping[str, Any]]] = {
    "contains": KEYWORDS,
    "not_contains": KEYWORDS,
    "starts_with": [{"any": NESTED, "case_sensitive": False}, {"any": ["b" + " " * 5_000 + "b"]}],
    "ends_with": [{"any": NESTED, "case_sensitive": False}, {"any": ["b" + " " * 5_000 + "b"]}],
    "matches_regex": [
        {"pattern": "(a+)+$"},
        {"pattern": "(?:a|aa|aaa)*b"},
        {"pattern": r"(?i)\b(\w+\s?)+@(\w+\.)+b\b"},
        {"pattern": r"(?s)[a-z]{1,500}.*[\p{N}]{10}$"},
        {"pattern": "|".join(WORDS)},
        {"pattern": "(.{1,30}){1,30}x"},
    ],
    "matches_reference": [{"separator": " "}, {"fold": "accents", "case_sensitive": False}, {"expected": WORDS}],
    "exact_match": [{"separator": "a"}, {"fold": "accents", "remove_punctuation": "unicode"}, {"expected": NESTED}],
    "contains_reference": [
        {"separator": " ", "whole_word": True},
        {"separator": "a"},
        {"fold": "accents", "whole_word": True},
        {"expected": NESTED, "whole_word": True},
        {"expected": ["a" * 500_000 + "b", "ab" * 250_000]},
    ],
    "token_f1": SCORED,
    "bleu": [
        *SCORED,
        {"min": 0.5, "tokenizer": "zh"},
        {"min": 0.5, "tokenizer": "char"},
    ],
    "chrf": SCORED,
    "rouge_l": SCORED,
    "rouge_n": [*SCORED, {"min": 0.5, "n": 4}],
    "edit_similarity": [
        *SCORED,
        {"min": 0.01, "unit": "words"},
        {"min": 0.01, "fold_whitespace": False},
        {"min": 0.5, "expected": ["a" * 10_000, "a b " * 2_000, "ab" * 5_000]},
    ],
    "numeric_answer": [
        {"take": "any", "expected": ["1e300", "7"]},
        {"take": "any", "separator": " ", "tolerance": 0.5},
        {"decimal": ",", "percent": "divide"},
        {"separator": " "},
    ],
    "choice_letter": [{"choices": "abcdefghijklmnopqrstuvwxyz"}, {"separator": " "}],
    "citations_in_context": [
        {"style": "superscripts", "require": True, "each": "sentence"},
        {"style": "parentheses", "require": True, "each": "paragraph"},
        {"style": "author_year", "context_pattern": r"[A-Z]\w* \d+"},
        {"pattern": r"\S", "context_pattern": r"\S"},
        {"pattern": r"[a-z0-9,;-]+", "each": "sentence"},
    ],
    "count_citations": [
        {"max": HUGE, "style": "author_year", "is_distinct": True},
        {"max": HUGE, "style": "superscripts"},
        {"max": HUGE, "style": "parentheses"},
        {"max": 3, "pattern": "(?s)."},
        {"max": 3, "pattern": "[0-9,;-]+"},
    ],
    "quotes_in_context": [
        {"min_words": 1},
        {"min_words": 1, "case_sensitive": True, "against": ["context", "prompt", "reference"]},
    ],
    "numbers_in_context": [
        {"against": ["context", "prompt", "reference"], "allow": [str(place) for place in range(300)]}
    ],
    "claim_needs_tool": [
        {"claims": ["a", "a a", "not a"], "tools": ["f"], "where": "text"},
        {"claims": [*WORDS, "b"], "tools": ["f"], "negations": ["a", "a a", *NESTED[:30]]},
        {"claims": ["z"], "tools": ["f"], "whole_word": False, "negations": ["a", "-", "9"]},
        {"claims": ["a z", "the x"], "tools": ["f"], "negations": ["a", "the"]},
    ],
    "slots": [
        {
            "all": ["date", "time", "weekday", "number", "percent", "money", "email", "phone", "url"],
            "relative_dates": True,
        },
        {"names": {"one": WORDS, "two": NESTED}},
    ],
    "count_urls": [
        {"max": 3, "any": [f"w{place}.example" for place in range(100)]},
        {"max": 3, "schemes": ["http", "ftp", "a"]},
    ],
    "count_code_blocks": [{"max": 3, "language": "json"}],
    "count_headings": [{"max": 3, "levels": [1, 6]}],
    "has_sections": [
        {"all": WORDS[:60], "in_order": True, "kind": "any"},
        {"all": ["a", "b", "a"], "in_order": True, "kind": "label"},
        {"any": NESTED[:60], "kind": "any", "level": None},
    ],
    "has_table": [{"columns": ["a", "z"], "min_rows": HUGE}, {"min_columns": HUGE}],
    "is_sorted": [
        {"source": source, "order": order} | extra
        for source in ("lines", "list", "table")
        for order, extra in (
            ("descending", {"as": "text", "fold": "accents"}),
            ("ascending", {"as": "number", "is_strict": True}),
            ("ascending", {"as": "date"}),
        )
    ],
    "json_equals": [
        {"extract": "found", "value": {"a": 1}, "ignore_order": True},
        {"value": [{"a": 1}, 1, [1, [2]]] * 300, "ignore_order": True, "tolerance": 0.5},
        {"extract": "found", "ignore_order": True, "ignore_keys": ["b"], "tolerance": 1.5},
    ],
    "json_schema": [
        {"extract": "found", "json_schema": {"type": "array", "uniqueItems": True}},
        {"json_schema": {"anyOf": [{"type": "array", "uniqueItems": True}, {"type": "object", "maxProperties": 3}]}},
        {
            "json_schema": {
                "$defs": {
                    "n": {
                        "anyOf": [
                            {"type": "integer"},
                            {"items": {"$ref": "#/$defs/n"}, "additionalProperties": {"$ref": "#/$defs/n"}},
                        ]
                    }
                },
                "$ref": "#/$defs/n",
            }
        },
        {
            "json_schema": {
                "items": {"anyOf": [{"type": "object", "required": ["z"]}, {"const": "z"}, {"enum": WORDS}]},
                "patternProperties": {"(a|aa)+$": {"type": "string"}, "^0": {"multipleOf": 0.01}},
                "additionalProperties": {"minLength": 3},
            }
        },
        {"json_schema": {"type": "string", "pattern": "^(a+)+$", "maxLength": 10}},
        {
            "json_schema": {
                "unevaluatedProperties": False,
                "unevaluatedItems": False,
                "allOf": [{"properties": {"a": {"type": "number", "multipleOf": 0.1}}}, {"contains": {"const": 2}}],
            }
        },
        {"json_schema": {"items": {"type": "string", "format": "email"}, "propertyNames": {"format": "uri"}}},
    ],
    "has_json_object": [{"kind": "any", "is_only_one": True}, {"kind": "array"}],
    "language": [{"any": ["en", "zh", "th"], "min_letters": 1}],
    "script": [{"any": ["Latin", "Han", "Thai"], "min_rate": 1.0}],
    "no_banned_tone": [{"words": [*WORDS, SPACED[0]]}, {"words": NESTED[:100], "except": NESTED[100:200]}],
    "no_profanity": [
        {"more": WORDS, "except": ["a b", "f u c k"], "disguised": True},
        {"kinds": ["profanity", "slurs", "mild_profanity"], "disguised": True},
    ],
    "no_refusal": [{"more": WORDS, "within": 10_000}, {"within": 10_000, "is_negated": True}],
    "not_as_an_ai": [{"more": NESTED[:100]}],
    "pii": [
        {"allow": ["b.co", "555-555-5555"]},
        *({"kinds": [kind]} for kind in ("email", "phone", "card", "iban", "ip", "ssn", "api_key")),
    ],
    "reading_level": [
        {"max": 3, "formula": formula} for formula in ("flesch_ease", "coleman_liau", "ari", "gunning_fog")
    ],
    "repetition": [
        {"n": 1, "max_rate": 0.999},
        {"n": 100, "max_rate": 0.9, "max_run": 1000},
        {"n": 50, "max_rate": 1, "max_run": 10**6},
    ],
    "sql_valid": [
        {"dialect": "tsql", "statements": 3},
        {"dialect": "bigquery", "kinds": ["select"]},
        {"dialect": "snowflake"},
        {"fence": "required"},
    ],
    "python_valid": [{"fence": "required"}, {"fence": "never"}],
    "xml_valid": [{"fence": "required"}, {"root": "a"}],
    "yaml_valid": [{"kind": "any"}, {"kind": "any", "has_unique_keys": False}, {"fence": "required", "kind": "list"}],
    "keywords:existence": [{"keywords": WORDS}, {"keywords": [r"(a+)+b", "a*a*a*b"]}],
    "keywords:forbidden_words": [{"forbidden_words": WORDS}, {"forbidden_words": ["a b", "a+"]}],
    "keywords:frequency": [{"keyword": "a", "frequency": 3, "relation": "less than"}],
    "keywords:letter_frequency": [{"letter": "a", "let_frequency": 3, "let_relation": "less than"}],
    "combination:repeat_prompt": [{"prompt_to_repeat": "a " * 400_000}],
    "startend:end_checker": [{"end_phrase": "b" + "a" * 400_000}],
    "detectable_content:postscript": [
        {"postscript_marker": "P.P.S"},
        {"postscript_marker": "a.*b"},
        {"postscript_marker": "P.S."},
    ],
    "detectable_format:multiple_sections": [
        {"section_spliter": "[a ]{1,9}a", "num_sections": 3},
        {"section_spliter": "a", "num_sections": 3},
    ],
    "length_constraints:nth_paragraph_first_word": [{"num_paragraphs": HUGE, "nth_paragraph": 3, "first_word": "a"}],
}
