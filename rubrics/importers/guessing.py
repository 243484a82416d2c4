"""Detection of a file's format by its content, for importers and for readers of traces."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from gradebook.rubrics.importers.foreign_file import open_list_or_mapping, open_rows
from gradebook.rubrics.importers.metadata import mapping_or_empty
from gradebook.rubrics.importers.registry import FORMAT_NAMES
from gradebook.rubrics.model.errors import Fault, OutputsError, RubricError

_MOST_SHOWN_KEYS = 8  # keys that a message shows for an unknown format
_GRADERS = ("string_check", "text_similarity", "score_model", "label_model", "python", "multi")


class Candidate(NamedTuple):
    """Possible format of a file. sign: text on the keys that indicate the format."""

    name: str
    sign: str


class _File(NamedTuple):
    """First object of a file: its document, its first line, or the first entry of its list."""

    first: Mapping[str, Any]

    def has(self, *names: str) -> bool:
        return all(name in self.first for name in names)

    def entries(self, *names: str) -> list[Mapping[str, Any]]:
        """Objects in the first of these lists that the file has."""
        listed: list[Any] = next((self.first[name] for name in names if isinstance(self.first.get(name), list)), [])
        return [entry for entry in listed if isinstance(entry, dict)]

    def any_has(self, lists: tuple[str, ...], *names: str) -> bool:
        return any(all(name in entry for name in names) for entry in self.entries(*lists))


# Signs of each format: a description, and a test of the first object.
_SIGNS: Mapping[str, tuple[tuple[str, Callable[[_File], bool]], ...]] = {
    "potato": (("annotation_schemes", lambda file: file.has("annotation_schemes")),),
    "dataknobs": (
        ("criteria with a scoring_method", lambda file: file.any_has(("criteria",), "scoring_method")),
        ("rubrics with criteria", lambda file: file.any_has(("rubrics",), "criteria")),
    ),
    "dimensions": (("dimensions", lambda file: isinstance(file.first.get("dimensions"), list)),),
    "scale": (("threads", lambda file: isinstance(file.first.get("threads"), list)),),
    "healthbench": (("rubrics with points", lambda file: file.any_has(("rubrics", "rubric_items"), "points")),),
    "tree": (("requirements and sub_tasks", lambda file: file.has("requirements", "sub_tasks")),),
    "prometheus": (
        ("score_rubric", lambda file: file.has("score_rubric")),
        ("a prompt with ###Score Rubrics", lambda file: "###Score Rubrics" in str(file.first.get("instruction", ""))),
    ),
    "checklist": (("checklist", lambda file: file.has("checklist")),),
    "autorubric": (
        ("weight and requirement", lambda file: file.has("requirement") and not file.has("sub_tasks")),
        ("sections of criteria with a requirement", lambda file: file.any_has(("criteria", "rubric"), "requirement")),
        ("rubric and items", lambda file: file.has("rubric") and isinstance(file.first.get("items"), list)),
    ),
    "ifeval": (("instruction_id_list", lambda file: file.has("instruction_id_list")),),
    "openai-graders": (
        ("testing_criteria", lambda file: file.has("testing_criteria")),
        ("the type of a grader", lambda file: file.first.get("type") in _GRADERS),
        ("a list of evals", lambda file: file.any_has(("data",), "testing_criteria")),
    ),
    "openai-evals": (
        ("datasource_item", lambda file: file.has("datasource_item")),
        ("item", lambda file: isinstance(file.first.get("item"), dict)),
        ("data with datasource_item", lambda file: file.any_has(("data",), "datasource_item")),
    ),
    "promptfoo": (
        ("results.results", lambda file: "results" in mapping_or_empty(file.first.get("results"))),
        ("gradingResult and testCase", lambda file: file.has("testCase", "vars")),
        ("prompts and tests", lambda file: file.has("prompts") and (file.has("tests") or file.has("providers"))),
    ),
    "deepeval": (
        ("testCases", lambda file: file.has("testCases") or file.has("test_results")),
        ("actual_output", lambda file: file.has("actual_output") or file.has("actualOutput")),
        ("input and expected_output", lambda file: file.has("input", "expected_output")),
        ("evaluation_steps", lambda file: file.has("evaluation_steps") or file.has("evaluationSteps")),
        ("name and criteria of a metric", lambda file: isinstance(file.first.get("criteria"), str)),
    ),
    "lm-eval": (("doc_id and arguments", lambda file: file.has("doc_id", "arguments")),),
    "pairs": (
        ("output_1 and output_2", lambda file: file.has("output_1", "output_2")),
        ("response_A and response_B", lambda file: file.has("response_A", "response_B")),
        ("games", lambda file: file.any_has(("games",), "score")),
    ),
    "inspect-scores": (("eval and samples", lambda file: isinstance(file.first.get("eval"), dict)),),
    "tau-bench": (
        ("task_id, reward and traj", lambda file: file.has("task_id", "reward", "traj")),
        ("simulations", lambda file: file.any_has(("simulations",), "task_id")),
    ),
    "terminal-bench": (
        ("is_resolved", lambda file: file.has("task_id", "is_resolved")),
        ("results with is_resolved", lambda file: file.any_has(("results",), "is_resolved")),
    ),
    "multichallenge": (("TARGET_QUESTION", lambda file: file.has("TARGET_QUESTION")),),
    "advancedif": (
        ("conversation_history and prompt_metadata", lambda file: file.has("conversation_history", "prompt_metadata")),
    ),
}


def only_candidate(
    path: str,
    option: str,
    candidates: Iterable[Candidate],
    error: type[RubricError] | type[OutputsError] = RubricError,
) -> Candidate | None:
    """The only candidate; None without candidates.

    option: option that names the format, such as `--format`. error: class raised for several candidates.
    """
    matching = list(candidates)
    if len(matching) > 1:
        signs = ", ".join(f"{candidate.name} ({candidate.sign})" for candidate in matching)
        message = f"found signs of several formats, {signs}, expected one: name it by {option}"
        raise error((Fault(path, None, message),))
    return matching[0] if matching else None


def guess_format(text: str, path: str) -> Candidate:
    """Format of a file to import. Raises `RubricError` if several or no formats fit."""
    file = _open_first_object(text, path)
    candidate = only_candidate(path, "--format", candidates_of(file.first))
    if candidate is None:
        keys = ", ".join(map(str, list(file.first)[:_MOST_SHOWN_KEYS])) or "no object"
        expected = f"expected a file of one of the formats {', '.join(FORMAT_NAMES)}: name it by --format"
        raise RubricError((Fault(path, None, f"found {keys}, {expected}"),))
    return candidate


def candidates_of(first: Mapping[str, Any]) -> list[Candidate]:
    """Possible formats of a file with this first object, without duplicates."""
    file = _File(first)
    return [
        Candidate(name, sign)
        for name in FORMAT_NAMES
        if (sign := next((sign_text for sign_text, is_there in _SIGNS[name] if is_there(file)), None)) is not None
    ]


def _open_first_object(text: str, path: str) -> _File:
    """First object of JSON, JSON Lines or YAML. Raises `RubricError` for text that is none of them."""
    start = text.removeprefix("\ufeff").lstrip()
    for part in (start.partition("\n")[0], start):
        try:
            return _first_object(json.loads(part))
        except (ValueError, RecursionError):
            continue
    if start[:1] in ("{", "["):
        return _first_object([row.value for row in open_rows(text, path)])
    return _first_object(open_list_or_mapping(text, path).value)


def _first_object(content: Any) -> _File:
    listed = content if isinstance(content, list) else [content]
    return _File(next((entry for entry in listed if isinstance(entry, dict)), {}))
