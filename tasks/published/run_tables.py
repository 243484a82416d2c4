"""Tables about a run that terminal, page, Markdown and picture share: scores, criteria, comparison, noise, costs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from gradebook.rubrics.statistics.judge_quality import JudgeTrust, ReliabilityBin, Share
from gradebook.rubrics.text.tables import Cells, Table, pick_columns, table_from, table_of, with_rest
from gradebook.rubrics.text.wording import (
    bounded_rate_words,
    interval_words,
    no_interval_words,
    price_words,
    rate_words,
    score_words,
    sqrt_words,
    with_interval,
)
from gradebook.tasks.agreement.published_run import CriterionTrust
from gradebook.tasks.comparing.figures import ComparedRow, worst_first
from gradebook.tasks.comparing.run_comparison import RunComparison
from gradebook.tasks.comparing.sentences import COMPARED, direction_words, outcome_word, row_name
from gradebook.tasks.comparing.verdict import RunVerdict
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.published.summary import other_model
from gradebook.tasks.published.verdict import question_words

_COMPARED = ("A", "B", "B - A", "95% interval", "p adjusted")
MODEL: Cells[Row] = {"Model": model_name}


def mean_interval_words(row: Row) -> str:
    """95% interval of the mean of a row of a mart, or why there is none."""
    if row["ci_low"] is None:
        return no_interval_words(row.get("cluster_count"))
    return interval_words(row["ci_low"], row["ci_high"])


def mean_words(run: Row) -> str:
    """Mean of a run of `read_runs`: `0.812`, or for several models `0.622 … 0.937`; empty without a mean."""
    low, high = run["lowest_mean"], run["highest_mean"]
    if low is None:
        return ""
    return score_words(low) if run["model_count"] == 1 else f"{score_words(low)} … {score_words(high)}"


def weakest_words(run: Row) -> str:
    """Criterion with the lowest mean of a run of `read_runs`, and that mean; empty without a mean."""
    return "" if run["weakest_mean"] is None else f"{run['weakest_id']} {score_words(run['weakest_mean'])}"


def _rate_cell(name: str) -> Callable[[Row], str]:
    return lambda row: rate_words(row[name])


def _count_cell(name: str) -> Callable[[Row], str]:
    """Whole number; lakes of earlier versions of gradebook lack some."""
    return lambda row: "–" if row[name] is None else f"{row[name]:,}"


def _price_cell(name: str) -> Callable[[Row], str]:
    return lambda row: price_words(row[name])


def _time_cell(name: str) -> Callable[[Row], str]:
    return lambda row: "–" if row[name] is None else f"{row[name]:,.2f}"


def gate_failure_words(row: Row) -> str:
    """Share of outputs that fail a gate, with the upper end of its interval. row: of run_scores."""
    return bounded_rate_words(row["gate_failure_rate"], row.get("gate_failure_high"))


def _gate_words(row: Row) -> str:
    return "no gate" if row["gate_failure_rate"] is None else gate_failure_words(row)


def _without_words(dead: Sequence[str]) -> str:
    """Text on criteria that are in no score of a model, although its outputs count as scored."""
    return f" without {dead[0] if len(dead) == 1 else f'{len(dead):,} criteria'}" if dead else ""


SCORED: Cells[Row] = {
    "verdict": lambda row: row.get("verdict", ""),
    "lowest criterion": lambda row: row.get("weakest") or "–",
    "mean": lambda row: score_words(row["mean"]),
    "95% interval": mean_interval_words,
    "sd": lambda row: score_words(row["sd"]),
    "uniform weights": lambda row: score_words(row["uniform_mean"]),
    "pass": _rate_cell("pass_rate"),
    "pass rate": lambda row: with_interval(row["pass_rate"], row.get("pass_low"), row.get("pass_high"), rate_words),
    "gate fails": _gate_words,
    "gate failures": _gate_words,
    "coverage": lambda row: rate_words(row["coverage_rate"]) + _without_words(row.get("dead", ())),
    "scored": _count_cell("n"),
    "outputs": _count_cell("output_count"),
    "billed": _price_cell("cost_usd"),
}


def score_table(verdict: RunVerdict) -> Table:
    """Table of the models of a run, each with its verdict and its lowest criterion."""
    text_columns: Cells[Row] = {**MODEL, **{name: SCORED[name.lower()] for name in ("Verdict", "Lowest criterion")}}
    names = ("Mean", "95% interval", "SD", "Uniform weights", "Pass rate", "Gate failures", "Coverage", "Scored")
    return table_from(
        "Scores by model", text_columns, pick_columns(SCORED, *names, "Outputs", "Billed"), verdict_rows(verdict)
    )


def verdict_rows(verdict: RunVerdict) -> list[Row]:
    """Rows of run_scores with the verdict on each model in a word and its lowest criterion."""
    return [
        model.row | {"verdict": model.outcome.value, "weakest": model.weakest, "dead": model.dead}
        for model in verdict.models
    ]


@dataclass(frozen=True, slots=True)
class Badge:
    """First line about a model, as texts. word: the verdict; lowest: the criterion with the lowest mean, or None.

    why: the reasons; empty where point estimates meet everything, or nothing is required.
    """

    word: str
    name: str
    mean: str
    lowest: str | None
    why: str


def badges_of(verdict: RunVerdict) -> list[Badge]:
    """Badge of each model: a mean always comes with its interval and its lowest criterion."""
    return [
        Badge(
            model_verdict.outcome.value,
            model_verdict.model,
            f"{score_words(model_verdict.row['mean'])} ({mean_interval_words(model_verdict.row)})",
            model_verdict.weakest,
            model_verdict.reason,
        )
        for model_verdict in verdict.models
    ]


def sides_words(comparison: RunComparison, formatted: Callable[[str], str] = str) -> str:
    """Sentence that names sides A and B. formatted: formats a name."""
    if comparison.baseline_run_id != comparison.run_id:
        return f"A is run {formatted(comparison.baseline_run_id)}, B this one, {formatted(comparison.run_id)}."
    of_a, of_b = next(((row.model_a, row.model_b) for pair in comparison.models for row in pair.rows), ("", ""))
    return f"A is {formatted(of_a)}, B is {formatted(of_b)}, of this run."


def compared_rows(comparison: RunComparison) -> list[ComparedRow]:
    """Rows of all pairs of models: overall scores first, then regressions."""
    return worst_first(row for pair in comparison.models for row in pair.rows)


def comparison_table(comparison: RunComparison, most_rows: int | None = None) -> Table:
    """Table of a comparison, regressions first; the last line counts the rows left out."""
    rows = compared_rows(comparison)
    text_columns: Cells[ComparedRow] = {"Criterion": row_name, "Beyond chance": outcome_word}
    if len({row.pair_name for row in rows}) > 1:
        text_columns = {"Models": lambda row: row.pair_name, **text_columns}
    top_rows = rows[:most_rows]
    worse_count = sum(row.is_regression for row in rows[len(top_rows) :])
    note = f", {worse_count:,} of them worse beyond chance" if worse_count else ""
    numbers = pick_columns(COMPARED, *_COMPARED, *direction_words(rows), "Tied", "Pairs")
    return with_rest(table_from("What changed", text_columns, numbers, top_rows), len(rows) - len(top_rows), note)


def criterion_table(rows: Iterable[Row], models: Sequence[Row], most_rows: int | None = None) -> Table:
    """Table of means by criterion and model, with the criteria's questions where known.

    rows: of criterion_scores; models: rows of run_scores, one per column.
    """
    by_criterion = rows_by_criterion(rows)
    columns = [(row["model"], row["checkpoint"]) for row in models]
    listed = list(by_criterion.items())[:most_rows]
    questions = {name: question_of(by_model) for name, by_model in listed}
    has_questions = any(questions.values())
    cells = [
        (
            *((criterion_id, questions[criterion_id]) if has_questions else (criterion_id,)),
            weight_words(by_model),
            *(mean_and_coverage(by_model.get(column)) for column in columns),
        )
        for criterion_id, by_model in listed
    ]
    headings = ("Criterion", "Question") if has_questions else ("Criterion",)
    table = table_of("Mean by criterion", headings, ("Weight", *map(model_name, models)), cells)
    return with_rest(table, len(by_criterion) - len(listed))


def rows_by_criterion(rows: Iterable[Row]) -> dict[str, dict[tuple[str, str | None], Row]]:
    """Rows of criterion_scores by criterion, then by model and checkpoint."""
    by_criterion: dict[str, dict[tuple[str, str | None], Row]] = {}
    for row in rows:
        by_criterion.setdefault(row["criterion_id"], {})[row["model"], row["checkpoint"]] = row
    return by_criterion


def question_of(by_model: Mapping[Any, Row]) -> str:
    """Question of a criterion, from its rows of criterion_scores; empty if unknown."""
    return question_words(next(iter(by_model.values())).get("description"))


_NOISE: Cells[Row] = {
    "Outputs": _count_cell("n"),
    "Opinions": _count_cell("opinion_count"),
    "Output sd": lambda row: sqrt_words(row["output_variance"]),
    "Judge sd": lambda row: sqrt_words(row["judge_variance"]),
    "Noise share": lambda row: rate_words(judge_part(row)),
    "Flips": _rate_cell("flip_rate"),
    "Swap flips": _rate_cell("swap_flip_rate"),
    "Agreement": _rate_cell("agreement_rate"),
    "Votes": lambda row: votes_words(row["effective_votes"]),
}
CRITERION: Cells[Row] = {"Criterion": itemgetter("criterion_id"), **MODEL}


def noise_table(rows: Iterable[Row]) -> Table:
    """Table of the rows of judge_noise."""
    return table_from("Agreement of opinions", CRITERION, _NOISE, rows)


def reply_table(rows: Iterable[Row]) -> Table:
    """Table of rows of judge_noise about the replies of one judge."""
    caption = "Two replies on one output: how often they give different levels"
    renamed = {"Other level": "Flips", "Sd of replies": "Judge sd", "Sd of outputs": "Output sd"}
    numbers = {"Outputs": _NOISE["Outputs"], **{heading: _NOISE[name] for heading, name in renamed.items()}}
    return table_from(caption, CRITERION, numbers, rows)


def judge_part(row: Row) -> float | None:
    """Share (0..1) of judge noise in the variance of single scores; None if unknown, or if all scores are equal."""
    if row["output_variance"] is None or row["judge_variance"] is None:
        return None
    total = row["output_variance"] + row["judge_variance"]
    return row["judge_variance"] / total if total else None


def votes_words(votes: float | None) -> str:
    """Number of unrelated judges whose scores would agree as closely, as text."""
    return "–" if votes is None else f"{votes:.2f}"


_PREFERRED: Cells[Row] = {
    "Pairs": _count_cell("pair_count"),
    "Wins": _count_cell("win_count"),
    "Ties": _count_cell("tie_count"),
    "Losses": _count_cell("loss_count"),
    "Win rate": _rate_cell("win_rate"),
    "95% interval": lambda row: interval_words(row["ci_low"], row["ci_high"], rate_words),
    "Position flips": _rate_cell("position_flip_rate"),
}


def preference_table(rows: Iterable[Row]) -> Table:
    """Table of rows of preference_rates with their win rates."""
    return table_from("Preferences of the judge", {**CRITERION, "Against": other_model}, _PREFERRED, rows)


_COSTS: Cells[Row] = {
    "Rows": _count_cell("row_count"),
    "Wall, s": _time_cell("wall_s"),
    "CPU, s": _time_cell("cpu_s"),
    "Requests": _count_cell("request_count"),
    "Replayed": _count_cell("replayed_count"),
    "Tokens in": _count_cell("prompt_tokens"),
    "Cached": _count_cell("cached_tokens"),
    "Tokens out": _count_cell("completion_tokens"),
    "Billed": _price_cell("cost_usd"),
    "Saved": _price_cell("saved_usd"),
}


def cost_table(rows: Iterable[Row], stage_name: Callable[[str], str] = str) -> Table:
    """Table of time and cost by stage. rows: of stage_costs; stage_name: formats a stage."""
    text_columns: Cells[Row] = {
        "Stage": lambda row: stage_name(row["stage"]),
        "Criterion": lambda row: row["criterion_id"] or "",
    }
    return table_from("Costs by stage and criterion", text_columns, _COSTS, rows)


def mean_and_coverage(row: Row | None) -> str:
    """Mean of a row of a mart, with the coverage if it is below 1."""
    if row is None:
        return "–"
    coverage = "" if row["coverage_rate"] == 1 else f" ({rate_words(row['coverage_rate'])})"
    return f"{score_words(row['mean'])}{coverage}"


def weight_words(by_model: Mapping[Any, Row]) -> str:
    """Weight of a criterion as text, from its rows of criterion_scores; `gate` for a gate."""
    row = next(iter(by_model.values()))
    return "gate" if row["is_gate"] else "per case" if row["weight"] is None else score_words(row["weight"])


def share_words(share: Share) -> str:
    """Share of outputs with its interval; unknown without outputs."""
    if share.value is None:
        return rate_words(None)
    return with_interval(share.value, share.low, share.high, rate_words)


def brier_words(trust: JudgeTrust) -> str:
    """Brier score, with that of a constant forecast: people's share of passes."""
    return score_words(trust.brier) + ("" if trust.base_brier is None else f" (base rate {trust.base_brier:.3f})")


TRUST: Cells[CriterionTrust] = {
    "criterion": lambda row: row.criterion_id,
    "outputs": lambda row: f"{row.trust.n:,}",
    "failures": lambda row: f"{row.trust.failure_count:,}",
    "found by the judge": lambda row: share_words(row.trust.found),
    "agreement": lambda row: share_words(row.trust.agreement),
    "always pass": lambda row: rate_words(row.trust.always_pass),
    "Brier": lambda row: brier_words(row.trust),
    "log loss": lambda row: score_words(row.trust.log_loss),
}
RELIABILITY: Cells[ReliabilityBin] = {
    "probability": lambda row: f"{row.low:.0%} to {row.high:.0%}",
    "outputs": lambda row: f"{row.passed.n:,}",
    "mean": lambda row: score_words(row.mean),
    "passed by people": lambda row: share_words(row.passed),
}


def is_no_better(trust: JudgeTrust | None) -> bool:
    """Whether a judge that passes everything is known to agree with people as well."""
    return trust is not None and trust.is_no_better_than_passing


def passing_sentence(criteria: Sequence[str]) -> str | None:
    """Warning about criteria on which a judge that passes everything would agree with people as well, or None."""
    return f"a judge that passes everything would agree as well on {', '.join(criteria)}" if criteria else None
