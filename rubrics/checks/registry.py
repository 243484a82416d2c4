"""Checks by name: each family, its modules and the checks that a module registers; a check in plain values.

A new check is added here by name. A module is imported when one of its checks is first looked up.
"""

import difflib
import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from gradebook.rubrics.check_kit.check import COSTS, REGISTERED, Check, Example
from gradebook.rubrics.text.field_descriptions import field_descriptions

FAMILIES: dict[str, dict[str, str]] = {  # title of a family -> (check -> its module below rubrics/)
    "Length": {
        "length_bytes": "checks.length",
        "length_characters": "checks.length",
        "length_lines": "checks.length",
        "length_words": "checks.length",
        "length_tokens": "checks.length",
        "count_bullets": "checks.length",
        "count_paragraphs": "checks.length",
        "count_sentences": "checks.length",
    },
    "Words and patterns": {
        "contains": "checks.keywords",
        "not_contains": "checks.keywords",
        "ends_with": "checks.keywords",
        "starts_with": "checks.keywords",
        "matches_regex": "checks.keywords",
    },
    "Markdown": {
        "count_headings": "checks.markdown.elements",
        "has_sections": "checks.markdown.elements",
        "count_code_blocks": "checks.markdown.elements",
        "has_closed_fences": "checks.markdown.elements",
        "has_table": "checks.markdown.tables",
        "count_list_items": "checks.markdown.elements",
        "count_bold": "checks.markdown.elements",
        "count_links": "checks.markdown.elements",
        "is_sorted": "checks.markdown.ordering",
    },
    "Structured text": {
        "json_valid": "checks.json_outputs",
        "has_json_object": "checks.json_outputs",
        "json_schema": "checks.json_outputs",
        "json_equals": "checks.json_outputs",
        "xml_valid": "checks.syntax",
        "yaml_valid": "checks.syntax",
        "sql_valid": "checks.syntax",
        "python_valid": "checks.syntax",
    },
    "Answers": {
        "contains_reference": "checks.answers.references",
        "exact_match": "checks.answers.references",
        "matches_reference": "checks.answers.references",
        "numeric_answer": "checks.answers.numeric",
        "choice_letter": "checks.answers.choices",
        "edit_similarity": "checks.answers.overlap",
        "rouge_l": "checks.answers.overlap",
        "rouge_n": "checks.answers.overlap",
        "token_f1": "checks.answers.overlap",
        "bleu": "checks.answers.overlap",
        "chrf": "checks.answers.overlap",
    },
    "Manner": {
        "reading_level": "checks.style.readability",
        "repetition": "checks.style.repetition",
        "is_complete": "checks.style.endings",
        "no_refusal": "checks.style.tone",
        "not_as_an_ai": "checks.style.tone",
        "no_banned_tone": "checks.style.tone",
        "no_profanity": "checks.style.tone",
    },
    "Language": {
        "language": "checks.language",
        "script": "checks.language",
    },
    "Grounding": {
        "citations_in_context": "checks.grounding.citations",
        "count_citations": "checks.grounding.citations",
        "count_urls": "checks.grounding.links",
        "numbers_in_context": "checks.grounding.passages",
        "quotes_in_context": "checks.grounding.passages",
        "retrieval": "checks.grounding.retrieval",
    },
    "Privacy": {
        "pii": "checks.privacy",
    },
    "Dialogue": {
        "slots": "checks.dialogue",
        "claim_needs_tool": "checks.dialogue",
    },
    "Steps": {
        "answer_last": "checks.steps",
        "errors_recovered": "checks.steps",
        "final_state": "checks.steps",
        "repeated_calls": "checks.steps",
        "tool_arguments": "checks.steps",
        "tool_called": "checks.steps",
        "tools_in_order": "checks.steps",
        "count_steps": "checks.steps",
        "step_total": "checks.steps",
    },
    "Audio": {
        "audio_format": "checks.audio",
        "audio_duration": "checks.audio",
        "audio_silence": "checks.audio",
        "audio_loudness": "checks.audio_loudness",
        "audio_loudness_steadiness": "checks.audio_loudness",
        "audio_clipping": "checks.audio",
        "audio_snr": "checks.audio",
    },
    "IFEval": {
        "keywords:existence": "checks.ifeval.keywords",
        "keywords:forbidden_words": "checks.ifeval.keywords",
        "keywords:frequency": "checks.ifeval.keywords",
        "keywords:letter_frequency": "checks.ifeval.keywords",
        "length_constraints:nth_paragraph_first_word": "checks.ifeval.lengths",
        "length_constraints:number_paragraphs": "checks.ifeval.lengths",
        "length_constraints:number_sentences": "checks.ifeval.lengths",
        "length_constraints:number_words": "checks.ifeval.lengths",
        "detectable_content:number_placeholders": "checks.ifeval.formats",
        "detectable_format:constrained_response": "checks.ifeval.formats",
        "detectable_format:json_format": "checks.ifeval.formats",
        "detectable_format:multiple_sections": "checks.ifeval.formats",
        "detectable_format:number_bullet_lists": "checks.ifeval.formats",
        "detectable_format:number_highlighted_sections": "checks.ifeval.formats",
        "detectable_format:title": "checks.ifeval.formats",
        "combination:repeat_prompt": "checks.ifeval.formats",
        "combination:two_responses": "checks.ifeval.formats",
        "detectable_content:postscript": "checks.ifeval.formats",
        "punctuation:no_comma": "checks.ifeval.formats",
        "startend:end_checker": "checks.ifeval.formats",
        "startend:quotation": "checks.ifeval.formats",
        "change_case:capital_word_frequency": "checks.ifeval.keywords",
        "change_case:english_capital": "checks.ifeval.keywords",
        "change_case:english_lowercase": "checks.ifeval.keywords",
        "language:response_language": "checks.ifeval.keywords",
    },
    "Rubrics": {
        "rubric_lint": "lint.rubric_lint",
    },
}
_MODULES = {name: f"gradebook.rubrics.{module}" for of in FAMILIES.values() for name, module in of.items()}


def families() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Title of each family with the names of its checks, in order."""
    return tuple((title, tuple(of)) for title, of in FAMILIES.items())


def check_names() -> tuple[str, ...]:
    return tuple(sorted(_MODULES))


def find_check(name: str) -> Check:
    """Find a check by name. Raises `KeyError` with the closest names."""
    if name in _MODULES:
        import_module(_MODULES[name])
    if name in REGISTERED:
        return REGISTERED[name]
    near = difflib.get_close_matches(name, _MODULES, n=3)
    expected = " or ".join(near) if near else "a known one: `gradebook rubric checks list` shows them"
    raise KeyError(f"found the check {name!r}, expected {expected}")


REQUIRED = "required"


def describe_check(check: Check) -> dict[str, Any]:
    """Describe a check in JSON values.

    settings: mappings with `name`, `default` (JSON text, "required", or empty if there is none) and `meaning`.
    """
    fields, meanings = check.settings_model.model_fields, field_descriptions(check.settings_model)
    return {
        "name": check.name,
        "summary": check.summary,
        "details": check.details,
        "cost": f"{check.cost}: {COSTS[check.cost]}",
        "columns": list(check.columns),
        "settings": [_describe_setting(name, field, meanings[name]) for name, field in fields.items()],
        "examples": [_describe_example(example) for example in check.examples],
    }


def _describe_setting(name: str, field: FieldInfo, description: str) -> dict[str, str]:
    meaning = " ".join(description.split())
    choices = _choices(field.annotation)
    if any(choice not in meaning and choice not in str(field.default) for choice in choices):
        meaning += f"; one of {', '.join(f'`{choice}`' for choice in choices)}"
    return {"name": field.alias or name, "default": _default_text(field), "meaning": meaning}


def _choices(annotation: Any) -> list[str]:
    """Values of every `Literal` in an annotation, nested ones included."""
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return [choice for argument in get_args(annotation) for choice in _choices(argument)]


def _default_text(field: FieldInfo) -> str:
    if field.is_required():
        return REQUIRED
    default = field.get_default(call_default_factory=True)
    return "" if default is None else json.dumps(default, ensure_ascii=False, default=list)


def _describe_example(example: Example) -> dict[str, Any]:
    others: Mapping[str, Any] = example.others
    return {
        "settings": dict(example.settings),
        "output": example.output,
        **{column: value for column, value in others.items() if not isinstance(value, bytes)},
        "is_passed": example.is_passed,
    }
