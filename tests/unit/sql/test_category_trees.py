"""Trees of categories: output_scores and category_scores by weights of every level, also with missing scores."""

import pytest

from tests.support.nightly import matrix

# Top: voice 2 (warmth 1: kind 3, thanks 1; calm 1) and facts 3 (right 1, cited 1).
TREE = ({"id": "voice", "weight": 2}, {"id": "warmth", "parent": "voice"}, {"id": "facts", "weight": 3})
CRITERIA = {
    "kind": {"category": "warmth", "weight": 3.0},
    "thanks": {"category": "warmth"},
    "calm": {"category": "voice"},
    "right": {"category": "facts"},
    "cited": {"category": "facts"},
}
FULL = {"kind": 0.8, "thanks": 0.4, "calm": 0.5, "right": 1.0, "cited": 0.0}


def scores_of(connection):
    return connection.execute("select score, score_low, score_high from output_scores").fetchone()


def categories_of(connection, names):
    found = connection.execute(f"select category, {names} from category_scores").fetchall()
    return {category: values[0] if len(values) == 1 else tuple(values) for category, *values in found}


def without(*names):
    return {"o": {name: score for name, score in FULL.items() if name not in names}}


def build_tree(build, scores, **others):
    return build(CRITERIA, scores, categories=TREE, **others)


@pytest.mark.parametrize("missing", ["null", "skip", "zero"])
def test_a_score_is_the_weighted_mean_of_weighted_means(build, missing):
    # warmth (3 x 0.8 + 0.4) / 4 = 0.7; voice (0.7 + 0.5) / 2 = 0.6; facts 0.5; (2 x 0.6 + 3 x 0.5) / 5 = 0.54
    assert scores_of(build_tree(build, {"o": FULL}, missing=missing)) == (0.54, 0.54, 0.54)


def test_a_missing_score_leaves_the_score_open_by_the_criterions_share_of_the_total_weight(build):
    # share of kind: 2/5 x 1/2 x 3/4 = 0.15: low 0.54 - 0.15 x 0.8 = 0.42, high 0.42 + 0.15 = 0.57
    assert scores_of(build_tree(build, without("kind"))) == (None, 0.42, 0.57)


@pytest.mark.nightly
def test_a_missing_score_that_counts_zero_lowers_its_group(build):
    # warmth 0.4 / 4 = 0.1; voice 0.3; (0.6 + 1.5) / 5 = 0.42
    assert scores_of(build_tree(build, without("kind"), missing="zero"))[0] == 0.42


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        # warmth 0.4; voice (0.4 + 0.5) / 2 = 0.45; (0.9 + 1.5) / 5 = 0.48
        (("kind",), 0.48),
        # voice is only calm: (2 x 0.5 + 1.5) / 5 = 0.5
        *matrix(
            [
                (("kind", "thanks"), 0.5),
                # facts is left out: only voice, 0.6
                (("right", "cited"), 0.6),
            ]
        ),
        # voice is only warmth, 0.7; facts is only cited, 0: 2 x 0.7 / 5 = 0.28
        (("calm", "right"), 0.28),
        *matrix([(("kind", "thanks", "calm", "right"), 0.0), (tuple(FULL), None)]),
    ],
)
def test_a_skipped_missing_score_shifts_its_weight_within_the_group_and_an_empty_group_is_left_out(
    build, gaps, expected
):
    assert scores_of(build_tree(build, without(*gaps), missing="skip")) == (expected,) * 3


@pytest.mark.nightly
def test_a_group_with_only_a_scored_penalty_is_left_out(build):
    # voice has no scored criterion of positive weight: only facts, 0.6
    criteria = {"kind": {"category": "voice"}, "rude": {"category": "voice", "weight": -1.0}, "right": {}}
    connection = build(criteria, {"o": {"rude": 1.0, "right": 0.6}}, categories=({"id": "voice"},), missing="skip")
    assert scores_of(connection)[0] == 0.6


def test_a_penalty_in_a_group_lowers_the_group(build):
    # voice (3 x 1 - 1 x 1) / 3 = 2/3; (2/3 + 0.6) / 2
    criteria = {
        "kind": {"category": "voice", "weight": 3.0},
        "rude": {"category": "voice", "weight": -1.0},
        "right": {},
    }
    connection = build(criteria, {"o": {"kind": 1.0, "rude": 1.0, "right": 0.6}}, categories=({"id": "voice"},))
    assert scores_of(connection)[0] == pytest.approx((2 / 3 + 0.6) / 2)


def test_a_gate_in_a_category_has_no_weight_there(build):
    gated = CRITERIA | {"safe": {"category": "facts", "weight": 0.0, "is_gate": True}}
    assert scores_of(build(gated, {"o": FULL | {"safe": 0.0}}, categories=TREE))[0] == 0.54


@pytest.mark.parametrize(("name", "own"), [("criterion:right", {}), ("own:mine", {"mine": {"weight": 2.0}})])
def test_a_category_may_have_the_name_of_a_criterions_node_in_the_tree(build, name, own):
    # rude has no score. The category of weight 3 has 0.5, right of weight 1 has 0.9, mine of weight 2 has 0.2:
    # (3 x 0.5 + 0.9) / 4 = 0.6; (3 x 0.5 + 0.9 + 2 x 0.2) / 6 = 2.8 / 6
    criteria = {"kind": {"category": name}, "rude": {"category": name}, "right": {}}
    scores = {"kind": 0.5, "rude": None, "right": 0.9} | dict.fromkeys(own, 0.2)
    tree = ({"id": name, "weight": 3},)
    connection = build(criteria, {"o": scores}, categories=tree, own={"o": own}, missing="skip")
    assert scores_of(connection)[0] == pytest.approx(2.8 / 6 if own else 0.6)


def test_inner_and_outer_categories_have_a_row_each_with_their_parent(build):
    found = categories_of(build_tree(build, {"o": FULL}), "mean, parent")
    assert found == {
        "voice": (pytest.approx(0.6), None),
        "warmth": (pytest.approx(0.7), "voice"),
        "facts": (pytest.approx(0.5), None),
    }


@pytest.mark.nightly
def test_a_categorys_weight_is_its_share_of_the_total(build):
    # voice 2/5, warmth half of it, facts 3/5
    found = categories_of(build_tree(build, {"o": FULL}), "weight")
    assert found == pytest.approx({"voice": 0.4, "warmth": 0.2, "facts": 0.6})


def test_the_contributions_of_the_top_categories_add_up_to_the_mean(build):
    # 0.4 x 0.6 + 0.6 x 0.5 = 0.54
    found = categories_of(build_tree(build, {"o": FULL}), "contribution")
    assert found["voice"] + found["facts"] == pytest.approx(0.54)


@pytest.mark.parametrize(("missing", "voice"), [("null", None), *matrix([("skip", 0.45), ("zero", 0.3)])])
def test_a_missing_score_in_an_inner_category_counts_in_the_outer_one_by_the_rubrics_policy(build, missing, voice):
    found = categories_of(build_tree(build, without("kind"), missing=missing), "mean")
    assert (found["voice"], found["facts"]) == (voice if voice is None else pytest.approx(voice), 0.5)


def test_a_criterion_without_a_category_is_weighted_at_the_top_of_the_tree(build):
    # (2 x 0.6 + 3 x 0.5 + 5 x 1) / 10 = 0.77
    connection = build(CRITERIA | {"whole": {"weight": 5.0}}, {"o": FULL | {"whole": 1.0}}, categories=TREE)
    found = categories_of(connection, "mean, weight")
    assert (scores_of(connection)[0], found["(none)"]) == (0.77, (1.0, pytest.approx(0.5)))


SPEECH = {"audio": 0.283, "language": 0.236, "alignment": 0.292, "correctness": 0.189}


@pytest.mark.parametrize(
    ("means", "expected"), [((0.9596, 0.9683, 0.8351, 0.9581), 0.9250), ((0.9696, 0.9702, 0.8977, 0.9685), 0.9485)]
)
def test_the_published_figures_of_the_speech_rubric_are_reproduced(build, means, expected):
    # 0.283 x 0.9596 + 0.236 x 0.9683 + 0.292 x 0.8351 + 0.189 x 0.9581 = 0.92500; the other 0.94847
    categories = tuple({"id": name, "weight": weight} for name, weight in SPEECH.items())
    criteria = {f"{name}_{half}": {"category": name} for name in SPEECH for half in ("low", "high")}
    scores = {
        f"{name}_{half}": mean + shift
        for name, mean in zip(SPEECH, means, strict=True)
        for half, shift in {"low": -0.02, "high": 0.02}.items()
    }
    assert round(scores_of(build(criteria, {"o": scores}, categories=categories))[0], 4) == expected


@pytest.mark.nightly
def test_ratings_of_a_five_point_scale_are_reproduced(build):
    # (4 x 3 + 3 x 2 + 5 x 1.5 + 2 x 1 + 3 x 1.5) / 9 = 32 / 9 on a scale of 1 to 5, so (32 / 9 - 1) / 4
    weights, ratings = (3.0, 2.0, 1.5, 1.0, 1.5), (4, 3, 5, 2, 3)
    criteria = {f"c{index}": {"weight": weight} for index, weight in enumerate(weights)}
    scores = {f"c{index}": (rating - 1) / 4 for index, rating in enumerate(ratings)}
    assert scores_of(build(criteria, {"o": scores}))[0] == pytest.approx((32 / 9 - 1) / 4)
