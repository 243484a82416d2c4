"""judge_noise: compared with hand calculations and plain numpy, and with samples that are too small."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from tests.support.nightly import matrix

LEVELS = {"bad": 0.0, "partial": 0.5, "good": 1.0}
MEASURES = (*("output_variance", "judge_variance", "flip_rate", "swap_flip_rate", "agreement_rate", "effective_votes"),)


def opinion(output_id: str, level_id: str | None, judge: str = "a", replicate: int = 0, **others: Any):
    score = None if level_id is None else LEVELS[level_id]
    return {
        "output_id": output_id,
        "level_id": level_id,
        "score": score,
        "judge": judge,
        "replicate": replicate,
    } | others


def noise(build, opinions, outputs=None):
    """Build the mart's rows, with an output for each output id of the opinions."""
    scores = {row["output_id"]: {"tone": 0.5} for row in opinions} or {"o": {"tone": 0.5}}
    connection = build({"tone": {}}, scores, opinions=tuple(opinions), outputs=outputs)
    return connection.execute("from judge_noise order by model").to_arrow_table().to_pylist()


def noise_of(build, *opinions):
    (row,) = noise(build, opinions)
    return row


def test_the_variances_equal_a_hand_calculation(build):
    # Scores o: 1, 0.5; p: 0, 0.5. Means 0.75 and 0.25, the grand mean 0.5.
    # Within: 4 x 0.25^2 / (4 - 2) = 0.125. Between: 2 x (0.25^2 + 0.25^2) / (2 - 1) = 0.25; (0.25 - 0.125) / 2 = 0.0625
    row = noise_of(
        build,
        *(opinion("o", "good"), opinion("o", "partial", replicate=1)),
        *(opinion("p", "bad"), opinion("p", "partial", replicate=1)),
    )
    assert (row["n"], row["opinion_count"]) == (2, 4)
    assert (row["output_variance"], row["judge_variance"]) == pytest.approx((0.0625, 0.125))


def test_a_variance_of_outputs_is_never_negative(build):
    # both means 0.5: between is 0, under the 0.5 within
    row = noise_of(
        build,
        *(opinion("o", "good"), opinion("o", "bad", replicate=1)),
        *(opinion("p", "good"), opinion("p", "bad", replicate=1)),
    )
    assert (row["output_variance"], row["judge_variance"]) == (0.0, pytest.approx(0.5))


def test_flips_are_counted_over_pairs_of_replicates_of_one_judge(build):
    # judge a said good, good, bad: 2 of 3 pairs differ; judge b is one opinion, and no pair
    row = noise_of(
        build,
        *(opinion("o", level, replicate=index) for index, level in enumerate(("good", "good", "bad"))),
        opinion("o", "bad", judge="b"),
    )
    assert row["flip_rate"] == pytest.approx(2 / 3)


def test_swaps_are_compared_with_the_same_opinion_and_count_nowhere_else(build):
    rows = [opinion("o", "good"), opinion("o", "bad", is_swapped=True)]
    rows += [opinion("p", "good"), opinion("p", "good", is_swapped=True), opinion("q", "good")]
    row = noise_of(build, *rows)
    assert (row["swap_flip_rate"], row["n"], row["opinion_count"], row["judge_variance"]) == (0.5, 0, 0, None)


def test_agreement_is_of_pairs_of_judges_by_their_first_opinions(build):
    # o: a and b agree, c with neither: 1 of 3 pairs; p: a and b alone, and they differ
    rows = [opinion("o", "good", "a"), opinion("o", "good", "b"), opinion("o", "bad", "c")]
    rows += [opinion("p", "good", "a"), opinion("p", "bad", "b"), opinion("p", "bad", "a", replicate=1)]
    assert noise_of(build, *rows)["agreement_rate"] == pytest.approx(1 / 4)


def test_judges_that_always_agree_count_as_one_vote(build):
    levels = ("good", "bad", "partial")
    rows = [opinion(f"o{i}", level, judge) for i, level in enumerate(levels) for judge in ("a", "b", "c")]
    assert noise_of(build, *rows)["effective_votes"] == pytest.approx(1.0)


def test_judges_that_contradict_each_other_count_as_one_vote_each(build):
    pairs = [("good", "bad"), ("bad", "good"), ("partial", "partial")]
    rows = [opinion(f"o{i}", pair[place], "ab"[place]) for i, pair in enumerate(pairs) for place in (0, 1)]
    assert noise_of(build, *rows)["effective_votes"] == pytest.approx(2.0)


@pytest.mark.parametrize("levels", [("good", "bad"), ("good",) * 4], ids=["two outputs", "all equal"])
def test_effective_votes_are_unknown_if_a_correlation_is_unknown(build, levels):
    rows = [opinion(f"o{i}", level, judge) for i, level in enumerate(levels) for judge in ("a", "b")]
    row = noise_of(build, *rows)
    assert (row["effective_votes"], row["agreement_rate"]) == (None, 1.0)


def test_one_output_has_no_variance_of_outputs(build):
    row = noise_of(build, opinion("o", "good"), opinion("o", "bad", replicate=1))
    assert (row["n"], row["output_variance"], row["judge_variance"]) == (1, None, pytest.approx(0.5))


def test_a_single_opinion_gives_no_figures(build):
    assert noise(build, [opinion("o", "good"), opinion("p", None), opinion("p", "bad", replicate=1)]) == []


def test_a_run_without_opinions_has_no_rows(build):
    assert noise(build, []) == []


def test_models_and_checkpoints_are_separate_groups(build):
    rows = [opinion(name, "good", replicate=index) for name in ("o", "p", "q") for index in range(2)]
    outputs = {"p": {"model": "n"}, "q": {"model": "n", "checkpoint": "s1"}}
    assert [row["n"] for row in noise(build, rows, outputs)] == [1, 1, 1]


# -------- against numpy
def random_opinions(rng: np.random.Generator, judge_count: int) -> list[dict[str, Any]]:
    """Opinions on random outputs: some replicates of each judge, with noise around the output's true score."""
    rows = []
    for output in range(40):
        worth = rng.random()
        for judge in "abc"[:judge_count]:
            for replicate in range(rng.integers(1, 4)):
                noisy = np.clip(worth + rng.normal(0, 0.3), 0, 1)
                level_id = None if rng.random() < 0.1 else list(LEVELS)[round(2 * noisy)]
                rows.append(opinion(f"o{output}", level_id, judge, replicate))
            if rng.random() < 0.3:
                rows.append(opinion(f"o{output}", list(LEVELS)[rng.integers(3)], judge, is_swapped=True))
    return rows


def plain_measures(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Figures of the mart in plain Python. Assumes large enough samples."""
    scored = [row for row in rows if row["score"] is not None]
    plain = [row for row in scored if not row.get("is_swapped")]
    by_output: dict[str, list[dict[str, Any]]] = {}
    for row in plain:
        by_output.setdefault(row["output_id"], []).append(row)
    groups = [np.array([row["score"] for row in own]) for own in by_output.values() if len(own) > 1]
    flips, agreements, voices = [], [], {}
    for output_id, own in by_output.items():
        flips += [a["level_id"] != b["level_id"] for a, b in combinations(own, 2) if a["judge"] == b["judge"]]
        judges = {row["judge"]: [each for each in own if each["judge"] == row["judge"]] for row in own}
        agreements += [a[0]["level_id"] == b[0]["level_id"] for a, b in combinations(judges.values(), 2)]
        voices[output_id] = {judge: np.mean([row["score"] for row in said]) for judge, said in judges.items()}
    firsts = {(row["output_id"], row["judge"]): row["level_id"] for row in plain if row["replicate"] == 0}
    swaps = [row for row in scored if row.get("is_swapped") and (row["output_id"], row["judge"]) in firsts]
    return {
        **plain_variances(groups),
        "flip_rate": float(np.mean(flips)),
        "swap_flip_rate": float(np.mean([row["level_id"] != firsts[row["output_id"], row["judge"]] for row in swaps])),
        "agreement_rate": float(np.mean(agreements)),
        "effective_votes": plain_votes(list(voices.values())),
    }


def plain_variances(groups: list[np.ndarray]) -> dict[str, float]:
    total, count = sum(map(len, groups)), len(groups)
    grand = np.concatenate(groups).mean()
    within = sum(((group - group.mean()) ** 2).sum() for group in groups) / (total - count)
    between = sum(len(group) * (group.mean() - grand) ** 2 for group in groups) / (count - 1)
    usual = (total - sum(len(group) ** 2 for group in groups) / total) / (count - 1)
    return {"output_variance": max(0.0, (between - within) / usual), "judge_variance": within}


def plain_votes(voices: list[dict[str, float]]) -> float:
    judges = sorted({judge for said in voices for judge in said})
    correlations = []
    for a, b in combinations(judges, 2):
        both = np.array([(said[a], said[b]) for said in voices if a in said and b in said])
        correlations.append(np.corrcoef(both.T)[0, 1])
    return len(judges) / (1 + (len(judges) - 1) * float(np.clip(np.mean(correlations), 0, 1)))


@pytest.mark.parametrize("seed", [0, *matrix(range(1, 5))])
@pytest.mark.parametrize("judge_count", [2, 3])
def test_the_measures_equal_a_plain_calculation(build, seed, judge_count):
    rows = random_opinions(np.random.default_rng(seed), judge_count)
    row = noise_of(build, *rows)
    assert {name: row[name] for name in MEASURES} == pytest.approx(plain_measures(rows))
