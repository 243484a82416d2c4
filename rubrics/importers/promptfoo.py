"""Format of promptfoo: results of an evaluation as outputs with its assertions' scores, and configs as cases.

Shapes: https://www.promptfoo.dev/docs/configuration/reference. An assertion that a check, a judge, claims or a
similarity can decide is a criterion of that method. Any other, such as JavaScript, Python or a webhook, is not run: in
results it is a criterion by ratings, with promptfoo's own score, and in a config it is stored and reported.
"""

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from gradebook.rubrics.importers.case_rows import UNKNOWN_MODEL, logged_prompt, number_samples
from gradebook.rubrics.importers.foreign_file import Reading, open_list_or_mapping, open_rows
from gradebook.rubrics.importers.metadata import FieldCounts, as_metadata, drop_empty, mapping_or_empty
from gradebook.rubrics.importers.promptfoo_assertions import (
    HUMAN,
    NAME,
    RUN_FIRST,
    Assertion,
    Component,
    Config,
    Result,
    Test,
    criteria_of,
    flattened,
    reference_of,
    rendered,
)
from gradebook.rubrics.importers.registry import Format, Imported
from gradebook.rubrics.importers.results import as_score, model_step, rating_row
from gradebook.rubrics.model.json_values import Row, drop_none
from gradebook.rubrics.text.plain_words import quote_value

_VERSIONS = (1, 2, 3, 4)
_MOST_TESTS = 50_000  # tests of a config, counting all combinations of its variables
_LONGEST_LABEL = 60  # characters of a prompt's label, which becomes the checkpoint of its outputs
_CONFIG_KEYS = ("tests", "prompts", "defaultTest", "scenarios")


def read_promptfoo(text: str, path: str) -> Imported:
    """Import the results of an evaluation, or the tests of a config. Raises `RubricError` with every fault."""
    start = text.removeprefix("\ufeff").lstrip()[:1]
    is_yaml = path.lower().endswith((".yaml", ".yml")) or start not in ("{", "[")
    if not is_yaml:
        rows = open_rows(text, path)
        if results := _results_in(rows):
            return _import_results(results)
        reading = rows[0]
    else:
        reading = open_list_or_mapping(text, path)
    if not isinstance(reading.value, dict) or not any(key in reading.value for key in _CONFIG_KEYS):
        message = "expected results of promptfoo (results, testIdx) or a config (prompts, tests)"
        reading.stop((), f"found {quote_value(reading.value)}, {message}")
    return _import_config(reading)


# -------- results
def _results_in(rows: Sequence[Reading]) -> list[Reading]:
    """Rows of results: lines, a list, or the innermost `results`; empty for a config."""
    results: list[Reading] = []
    for row in rows:
        inner = row
        while isinstance(inner.value, dict) and "results" in inner.value:
            version = inner.value.get("version")
            if isinstance(version, int) and version not in _VERSIONS:
                inner.stop(("version",), f"found {version}, expected one of {', '.join(map(str, _VERSIONS))}")
            inner = inner.within(("results",), inner.value["results"])
        if inner is not row and not isinstance(inner.value, list):
            inner.stop((), f"found {quote_value(inner.value)}, expected a list of results")
        if isinstance(inner.value, list):
            if not inner.value:
                inner.stop((), "found no rows, expected at least one")
            results += [inner.within((index,), entry) for index, entry in enumerate(inner.value)]
        elif not isinstance(inner.value, dict) or not any(key in inner.value for key in _CONFIG_KEYS):
            results.append(inner)
    return results


@dataclass(slots=True)
class _Case:
    """Test of the results: its name, its assertions (also those that only a result has), and their criteria."""

    case_id: str
    assertions: list[Assertion]
    values: Row
    criteria: list[Row]


def _import_results(entries: Sequence[Reading]) -> Imported:
    shaped = [result for entry in entries if (result := entry.fit(Result, entry.value))]
    entries[0].stop_at_faults()
    stored_fields = FieldCounts()
    cases = _cases_of(shaped, stored_fields)
    prompts = list(dict.fromkeys(map(_prompt_key, shaped)))
    rows = number_samples(_output_row(result, cases[result.test_index], stored_fields, prompts) for result in shaped)
    ratings = [
        rating
        for result, row in zip(shaped, rows, strict=True)
        for rating in _ratings(result, row, cases[result.test_index])
    ]
    return Imported(cases=rows, ratings=tuple(ratings), kept=stored_fields.words())


def _cases_of(results: Sequence[Result], stored_fields: FieldCounts) -> dict[int, _Case]:
    """Tests by index, each with the criteria of its assertions and of assertions that only some results have."""
    firsts: dict[int, Result] = {}
    for result in results:
        firsts.setdefault(result.test_index, result)
    names = _names({index: first.test.description for index, first in firsts.items()})
    cases = {
        index: _Case(names[index], list(flattened(first.test.assertions or ())), first.vars or first.test.vars, [])
        for index, first in firsts.items()
    }
    for result in results:
        case = cases[result.test_index]
        for _, position in _matched(result, case.assertions):
            case.assertions += [position] if isinstance(position, Assertion) else []
    for case in cases.values():
        criteria = criteria_of(case.assertions, case.values, stored_fields, by_ratings=True)
        case.criteria = [criterion for criterion in criteria if criterion is not None]
    return cases


def _names(descriptions: dict[int, str | None]) -> dict[int, str]:
    """Name of each test: its description, with a number if it is repeated; without one, the test's number."""
    counts = Counter(descriptions.values())
    seen: Counter[str | None] = Counter()
    names = {}
    for index, text in descriptions.items():
        seen[text] += 1
        is_named = text is not None and text.strip() != ""
        names[index] = f"test_{index}" if not is_named else f"{text}" if counts[text] == 1 else f"{text}/{seen[text]}"
    is_distinct = len(set(names.values())) == len(names)
    return names if is_distinct else {index: f"test_{index}" for index in names}


def _matched(result: Result, assertions: Sequence[Assertion]) -> Iterator[tuple[Component, int | Assertion]]:
    """Pairs (scored component, index of its assertion), or the assertion itself if the test lacks it.

    An assertion is recognised by type and value, or else by type alone, as results may have the rendered value.
    """
    listed = result.grading.components if result.grading else None
    free = list(range(len(assertions)))
    later: list[Component] = []
    for component in [
        component for component in listed or () if component and component.assertion and not component.assertion.members
    ]:
        assertion = cast("Assertion", component.assertion)
        equal_assertions = (index for index in free if _key(assertions[index]) == _key(assertion))
        if (index := next(equal_assertions, None)) is None:
            later.append(component)
            continue
        free.remove(index)
        yield component, index
    for component in later:
        assertion = cast("Assertion", component.assertion)
        index = next((place for place in free if assertions[place].type == assertion.type), None)
        if index is not None:
            free.remove(index)
        yield component, assertion if index is None else index


def _key(assertion: Assertion) -> tuple[str, str]:
    return assertion.type, json.dumps(assertion.value, sort_keys=True)


def _output_row(result: Result, case: _Case, stored_fields: FieldCounts, prompts: Sequence[str | int]) -> Row:
    response = result.response
    output = response.output if response else None
    text = output if isinstance(output, str) else "" if output is None else json.dumps(output, ensure_ascii=False)
    provider = result.provider
    names = (provider.label, provider.id) if provider else ()
    model = next((name for name in names if name and name.strip()), UNKNOWN_MODEL)
    errors = (result.error if response is None or output is None else None, response.error if response else None)
    error = next((error_text for error_text in errors if isinstance(error_text, str) and error_text), None)
    usage = mapping_or_empty(result.usage) or mapping_or_empty(response.usage if response else None)
    cost = result.cost if result.cost is not None else response.cost if response else None
    label = result.prompt.label if result.prompt else None
    number = prompts.index(_prompt_key(result))
    tag = label if label and len(label) <= _LONGEST_LABEL and "\n" not in label else f"prompt_{number}"
    extra = stored_fields.note_all("", drop_empty(result.unknown_keys, ("success", "failureReason")))
    vars_ = result.vars or result.test.vars
    return {
        "case_id": case.case_id,
        "model": model,
        **({"checkpoint": tag} if len(prompts) > 1 else {}),
        "output": text,
        **drop_none({"prompt": _prompt(result.prompt.raw if result.prompt else None, vars_)}),
        **drop_none({"reference": reference_of(case.assertions, case.values), "context": _context(vars_)}),
        **model_step(model, tokens=usage.get("total"), cost_usd=cost, latency_ms=result.latency_ms, error=error),
        **({"criteria": case.criteria} if case.criteria else {}),
        **as_metadata(NAME, drop_empty({"vars": vars_, **extra})),
    }


def _prompt_key(result: Result) -> str | int:
    """Key of the prompt, equal for all providers; `promptIdx` alone numbers the pairs of a prompt and a provider."""
    label = result.prompt.label if result.prompt else None
    return result.prompt_id or label or result.prompt_index


def _prompt(raw: Any, values: Row) -> Any:
    """Prompt as sent: chat messages if it is their JSON; the variables if the prompt is unknown."""
    prompt = logged_prompt(raw)
    return json.dumps(values, ensure_ascii=False) if prompt is None and values else prompt


def _context(values: Row) -> str | list[str] | None:
    context = values.get("context")
    if isinstance(context, list):
        return context if context and all(isinstance(text, str) for text in context) else None
    return context if isinstance(context, str) and context else None


def _ratings(result: Result, row: Row, case: _Case) -> Iterator[Row]:
    """A rating for each assertion's score in 0..1, by promptfoo, or by a person for an assertion of the type human."""
    score = as_score(result.score)
    if result.grading is None and result.error is None and len(case.criteria) == 1 and score is not None:
        yield rating_row(row, case.criteria[0]["id"], NAME, score)
    for component, index in _matched(result, case.assertions):
        if isinstance(index, Assertion) or mapping_or_empty(component.metadata).get("graderError"):
            continue
        score = as_score(component.score)
        if score is None and component.passed is not None:
            score = float(component.passed)
        if score is not None:
            rater = HUMAN if case.assertions[index].type == HUMAN else NAME
            yield rating_row(row, case.criteria[index]["id"], rater, score, component.reason)


# -------- configs
def _import_config(reading: Reading) -> Imported:
    config = reading.fit_whole(Config)
    stored_fields = FieldCounts()
    prompts = list(_prompts_of(config.prompts, reading))
    tests = [test for index, entry in enumerate(config.tests) if (test := _test_of(entry, ("tests", index), reading))]
    if not config.tests:
        reading.note(("tests",), f"found no tests, expected a list of them: {RUN_FIRST}")
    reading.stop_at_faults()
    rows = []
    default = config.default or Test()
    expanded = [(test, values) for test in tests for values in _expanded(test, default, reading)]
    names = _names({index: test.description for index, (test, _) in enumerate(expanded)})
    for index, (test, values) in enumerate(expanded):
        skips = mapping_or_empty(test.options).get("disableDefaultAsserts") is True
        shared = () if skips else default.assertions or ()
        assertions = list(flattened([*shared, *(test.assertions or ())]))
        criteria = criteria_of(assertions, values, stored_fields, by_ratings=False)
        left_out = [
            assertion.model_dump(exclude_unset=True, exclude={"members"})
            for assertion, criterion in zip(assertions, criteria, strict=True)
            if criterion is None
        ]
        extra = stored_fields.note_all(
            "tests.", drop_empty({**test.unknown_keys, **drop_empty({"options": test.options})})
        )
        for label, prompt in prompts or [("", "")]:
            question = rendered(prompt, values)
            rows.append(
                {
                    "case_id": f"{names[index]}/{label}" if len(prompts) > 1 else names[index],
                    **drop_none({"prompt": _prompt(question, values)}),
                    **drop_none({"reference": reference_of(assertions, values), "context": _context(values)}),
                    **drop_empty({"criteria": [criterion for criterion in criteria if criterion is not None]}),
                    **as_metadata(NAME, drop_empty({"vars": values, "assert": left_out, **extra})),
                }
            )
    stored_fields.note(*drop_empty(config.unknown_keys, ("providers",)))
    return Imported(cases=tuple(rows), kept=stored_fields.words())


def _prompts_of(prompts: Any, reading: Reading) -> Iterator[tuple[str, str]]:
    """Label and text of each prompt; a prompt in a file is a fault."""
    listed = prompts if isinstance(prompts, list) else [] if prompts is None else [prompts]
    for index, entry in enumerate(listed):
        fields = entry if isinstance(entry, dict) else {"raw": entry}
        raw = fields.get("raw", fields.get("id"))
        if not isinstance(raw, str) or not raw.strip():
            reading.note(("prompts", index), f"found {quote_value(raw)}, expected a text")
        elif raw.startswith("file://") or raw.endswith((".txt", ".json", ".md", ".py", ".js", ".yaml")):
            reading.note(("prompts", index), f"found {quote_value(raw)}, expected the prompt's text: {RUN_FIRST}")
        else:
            label = fields.get("label")
            yield label if isinstance(label, str) and label.strip() else f"prompt_{index}", raw


def _test_of(entry: Any, place: tuple[str | int, ...], reading: Reading) -> Test | None:
    if isinstance(entry, str):
        reading.note(place, f"found {quote_value(entry)}, expected a test: {RUN_FIRST}")
        return None
    if isinstance(entry, dict) and isinstance(entry.get("vars"), str | list):
        reading.note((*place, "vars"), f"found {quote_value(entry['vars'])}, expected a mapping: {RUN_FIRST}")
        return None
    return reading.fit(Test, entry, place)


def _expanded(test: Test, default: Test, reading: Reading) -> Iterator[Row]:
    """Values of a test's variables, one row per combination of list values, as promptfoo runs them."""
    values = {**default.vars, **test.vars}
    options = {**mapping_or_empty(default.options), **mapping_or_empty(test.options)}
    lists = (
        {}
        if options.get("disableVarExpansion") is True
        else {name: value for name, value in values.items() if isinstance(value, list) and value}
    )
    count = 1
    for entries in lists.values():
        count *= len(entries)
    if count > _MOST_TESTS:
        reading.stop(
            ("tests",), f"found {count:,} combinations of one test's variables, expected at most {_MOST_TESTS:,}"
        )
    for combination in itertools.product(*lists.values()):
        yield {**values, **dict(zip(lists, combination, strict=True))}


SUMMARY = "results of promptfoo, and configs with their tests and assertions"
FORMAT = Format(NAME, SUMMARY, ".json", "results", read_promptfoo)
