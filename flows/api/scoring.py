"""Scores of single outputs without a lake: score and check."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gradebook.flows.api.inputs import load_rubric
from gradebook.flows.api.wording import in_parameters, made_in_parameters
from gradebook.rubrics.files.versions import rubric_digest
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.methods import CheckMethod, FunctionMethod
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.tasks.rewards.outputs import Score
from gradebook.tasks.rewards.scorer import RubricScorer
from gradebook.tasks.rubric_store.versions import GivenRubric

MOST_CACHED = 32
_scorers: dict[str, RubricScorer] = {}  # rubric's digest -> scorer cached by `score`
_lock = threading.Lock()


@made_in_parameters
class Scorer(RubricScorer):
    """Scorer of single outputs by a rubric, and a reward function as TRL calls it.

    >>> scorer = Scorer("json_record")
    >>> scorer.score('{"id": 1}').score is None
    False
    >>> scorer(prompts=["a", "b"], completions=['{"id": 1}', "no JSON"])[1]
    0.2
    """


@in_parameters
def score(output: str | Mapping[str, Any], rubric: GivenRubric, judge: str | None = None) -> Score:
    """Score one output in this process: no lake, no server, nothing written.

    output: a text, or a row with `output` and, where the rubric reads them, prompt, reference and context. rubric: as
    `load_rubric` takes it; a file is read anew by each call, a `Scorer` reads it once. judge: as `--judge`; without
    one, judged criteria are unscored. A score that is not known is None, with the reasons in `unscored`.

    >>> found = score("The invoice is attached.", {"id": "short", "version": "1.0.0", "criteria": [
    ...     {"id": "length", "description": "At most 5 words.", "threshold": 1,
    ...      "method": {"type": "check", "check": "length_words", "settings": {"max": 5}}}]})
    >>> found.score, found.criteria["length"].level_id
    (1.0, 'pass')

    Raises `InputError`.
    """
    with _scorer_of(load_rubric(rubric), judge) as scorer:
        return scorer.score(output)


@in_parameters
def check(
    output: str | Mapping[str, Any], rubric: GivenRubric, judge: str | None = None, *, at_least: float | None = None
) -> Score:
    """Raise `AssertionError`, with the criteria as a table, unless the output passes; for tests.

    at_least: score to reach, 0..1; by default the rubric's own threshold and gates decide. An output with an unscored
    criterion that counts does not pass.

    >>> check('{"id": 1}', "json_record", at_least=0.5).failed_gates
    ()

    Raises `InputError`, also for a rubric without requirements: nothing could fail.
    """
    __tracebackhide__ = True
    loaded = load_rubric(rubric)
    if at_least is not None and not 0 <= at_least <= 1:
        raise InputError("at_least", f"{at_least:g}", "a score of 0 to 1")
    if at_least is None and not _has_requirement(loaded):
        raise InputError(loaded.id, "no pass_threshold, gate or required threshold", "one, or `at_least`")
    with _scorer_of(loaded, judge) as scorer:
        scored = scorer.score(output)
    if at_least is None:
        is_passed = scored.is_passed is True
    else:
        is_passed = not scored.failed_gates and scored.score is not None and scored.score >= at_least - 1e-9
    if not is_passed:
        condition = "" if at_least is None else f" (at_least={at_least:g})"
        raise AssertionError(f"{loaded.id} {loaded.version}{condition}: {scored}")
    return scored


def _has_requirement(rubric: Rubric) -> bool:
    return (
        rubric.pass_threshold is not None
        or rubric.require_thresholds
        or any(criterion.gate for criterion in rubric.criteria)
    )


@contextmanager
def _scorer_of(rubric: Rubric, judge: str | None) -> Iterator[RubricScorer]:
    """Scorer while the block runs; a stateless one is cached for later calls with the same rubric."""
    is_reusable = judge is None and not any(_is_stateful(criterion) for criterion in rubric.criteria)
    if not is_reusable:
        with RubricScorer(rubric, judge) as scorer:
            yield scorer
        return
    digest = rubric_digest(rubric)
    with _lock:
        if digest not in _scorers:
            if len(_scorers) >= MOST_CACHED:
                _scorers.clear()
            _scorers[digest] = RubricScorer(rubric)
        reused = _scorers[digest]
    yield reused


def _is_stateful(criterion: Criterion) -> bool:
    """Whether a criterion needs processes of its own, or a file that may change."""
    method = criterion.method
    return isinstance(method, FunctionMethod) or (isinstance(method, CheckMethod) and method.folder is not None)
