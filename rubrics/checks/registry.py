"""Checks by name: each family, its modules and the checks that a module registers.

A new check is added here by name. A module is imported when one of its checks is first looked up.
"""

import difflib
from importlib import import_module

from gradebook.rubrics.check_kit.check import REGISTERED, Check

FAMILIES: dict[str, dict[str, tuple[str, ...]]] = {
    "Length": {
        "checks.length.lengths": (
            "length_bytes",
            "length_characters",
            "length_lines",
            "length_words",
        ),
        "checks.length.tokens": ("length_tokens",),
        "checks.length.structure": (
            "count_bullets",
            "count_paragraphs",
            "count_sentences",
        ),
    },
    "Words and patterns": {
        "checks.keywords.keywords": (
            "contains",
            "not_contains",
        ),
        "checks.keywords.affixes": (
            "ends_with",
            "starts_with",
        ),
        "checks.keywords.patterns": ("matches_regex",),
    },
    "Markdown": {
        "checks.markdown.headings": (
            "count_headings",
            "has_sections",
        ),
        "checks.markdown.code_blocks": (
            "count_code_blocks",
            "has_closed_fences",
        ),
        "checks.markdown.tables": ("has_table",),
        "checks.markdown.list_items": ("count_list_items",),
        "checks.markdown.inline": (
            "count_bold",
            "count_links",
        ),
        "checks.markdown.ordering": ("is_sorted",),
    },
    "Structured text": {
        "checks.structured.json_valid": ("json_valid",),
        "checks.structured.json_objects": (
            "has_json_object",
            "json_schema",
        ),
        "checks.structured.json_equals": ("json_equals",),
        "checks.structured.markup_syntax": (
            "xml_valid",
            "yaml_valid",
        ),
        "checks.structured.sql_syntax": ("sql_valid",),
        "checks.structured.python_syntax": ("python_valid",),
    },
    "Answers": {
        "checks.answers.references": (
            "contains_reference",
            "exact_match",
            "matches_reference",
        ),
        "checks.answers.numeric": ("numeric_answer",),
        "checks.answers.choices": ("choice_letter",),
        "checks.answers.shared_words": (
            "edit_similarity",
            "rouge_l",
            "rouge_n",
            "token_f1",
        ),
        "checks.answers.translation": (
            "bleu",
            "chrf",
        ),
    },
    "Manner": {
        "checks.style.readability": ("reading_level",),
        "checks.style.repetition": ("repetition",),
        "checks.style.endings": ("is_complete",),
        "checks.style.refusals": (
            "no_refusal",
            "not_as_an_ai",
        ),
        "checks.style.tone": (
            "no_banned_tone",
            "no_profanity",
        ),
    },
    "Language": {
        "checks.language.languages": (
            "language",
            "script",
        ),
    },
    "Grounding": {
        "checks.grounding.citations": (
            "citations_in_context",
            "count_citations",
        ),
        "checks.grounding.links": ("count_urls",),
        "checks.grounding.passages": (
            "numbers_in_context",
            "quotes_in_context",
        ),
        "checks.grounding.retrieval": ("retrieval",),
    },
    "Privacy": {
        "checks.privacy.pii": ("pii",),
    },
    "Dialogue": {
        "checks.dialogue.slots": ("slots",),
        "checks.dialogue.tool_calls": ("claim_needs_tool",),
    },
    "Steps": {
        "checks.steps.endings": ("answer_last", "errors_recovered", "final_state"),
        "checks.steps.tools": (
            "repeated_calls",
            "tool_arguments",
            "tool_called",
            "tools_in_order",
        ),
        "checks.steps.totals": (
            "count_steps",
            "step_total",
        ),
    },
    "Audio": {
        "checks.audio.kind": ("audio_format",),
        "checks.audio.timing": (
            "audio_duration",
            "audio_silence",
        ),
        "checks.audio.loudness": (
            "audio_loudness",
            "audio_loudness_steadiness",
        ),
        "checks.audio.fidelity": (
            "audio_clipping",
            "audio_snr",
        ),
    },
    "IFEval": {
        "checks.ifeval.keywords": (
            "keywords:existence",
            "keywords:forbidden_words",
            "keywords:frequency",
            "keywords:letter_frequency",
        ),
        "checks.ifeval.lengths": (
            "length_constraints:nth_paragraph_first_word",
            "length_constraints:number_paragraphs",
            "length_constraints:number_sentences",
            "length_constraints:number_words",
        ),
        "checks.ifeval.formats": (
            "detectable_content:number_placeholders",
            "detectable_format:constrained_response",
            "detectable_format:json_format",
            "detectable_format:multiple_sections",
            "detectable_format:number_bullet_lists",
            "detectable_format:number_highlighted_sections",
            "detectable_format:title",
        ),
        "checks.ifeval.wording": (
            "combination:repeat_prompt",
            "combination:two_responses",
            "detectable_content:postscript",
            "punctuation:no_comma",
            "startend:end_checker",
            "startend:quotation",
        ),
        "checks.ifeval.letters": (
            "change_case:capital_word_frequency",
            "change_case:english_capital",
            "change_case:english_lowercase",
            "language:response_language",
        ),
    },
    "Rubrics": {
        "lint.rubric_lint": ("rubric_lint",),
    },
}
_MODULES = {
    name: f"gradebook.rubrics.{module}"
    for modules in FAMILIES.values()
    for module, names in modules.items()
    for name in names
}


def families() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Title of each family with the names of its checks, in order."""
    return tuple((title, tuple(name for names in of.values() for name in names)) for title, of in FAMILIES.items())


def check_names() -> tuple[str, ...]:
    return tuple(sorted(_MODULES))


def find_check(name: str) -> Check:
    """Find a check by name. Raises `KeyError` with the closest names."""
    if name in _MODULES:
        import_module(_MODULES[name])
    if name in REGISTERED:
        return REGISTERED[name]
    near = difflib.get_close_matches(name, _MODULES, n=3)
    expected = " or ".join(near) if near else "a known one: `gradebook checks list` shows them"
    raise KeyError(f"found the check {name!r}, expected {expected}")
