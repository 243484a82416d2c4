"""Hypothesis strategies: any rubric that a file could hold, with the text that YAML, JSON and SQL stumble over."""

from typing import Any

from hypothesis import strategies as st

from gradebook.rubrics.model.rubric import Rubric, score_range

NASTY = (
    *("yes", "No", "null", "~", "1.0", "1e-7", "0x1", "010", "12:30", "2024-01-01", ".nan", "<<", "=", "y", "", " "),
    *(" lead", "trail ", "a: b", "# no comment", "- a", "? a", "{a", "[b]", "*a", "&a", "!t", "%d", "@at", "`", "---"),
    *(
        "it's",
        'say "x"',
        "back\\slash",
        "tab\there",
        "one\ntwo\n",
        "\n\nthree\n\n",
        "  deep\n  end",
        "\r\n",
        "\x00\x07",
    ),
    *(
        "\x85",
        "\u2028",
        "\ufeff",
        "\uffff",
        "é ✓ 漢字",
        "\U0001f600",
        "\U0010ffff",
        "'; drop table x; --",
        "word " * 40,
    ),
)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True) | st.sampled_from(["yes", "no", "null", "on"])
LEVEL_IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,7}", fullmatch=True) | st.sampled_from(
    ["1", "01", "1.0", "yes"]
)
VERSIONS = st.tuples(*[st.integers(0, 30)] * 3).map(lambda parts: ".".join(map(str, parts)))
SHARES = st.floats(0, 1) | st.sampled_from([0, 1, 0.5])
WEIGHTS = st.floats(1e-6, 1_000_000) | st.integers(1, 10)
texts = st.sampled_from(NASTY) | st.text(max_size=30)
some_texts = texts.filter(bool)
numbers = st.integers() | st.sampled_from([10**30, -(2**53)]) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | st.sampled_from("12"), inner, max_size=3),
    max_leaves=6,
)
metadata = st.dictionaries(texts, json_values, max_size=2)


def mappings(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Mappings with all the required keys and any of the optional ones."""
    return st.fixed_dictionaries(required, optional=optional)


word_lists = st.lists(some_texts, min_size=1, max_size=2)
bounds = st.tuples(st.integers(0, 50), st.integers(50, 999)).map(
    lambda pair: dict(zip(("min", "max"), pair, strict=True))
)
keywords = st.tuples(st.sampled_from(["any", "all"]), word_lists).map(lambda pair: {pair[0]: pair[1]})
SETTINGS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "contains": keywords,
    "length_words": bounds,
    "json_valid": mappings({}, {"kind": st.sampled_from(["any", "object", "array"])}),
    "matches_regex": mappings(
        {"pattern": st.sampled_from([r"\d+\s", "^#", "a: b", ""])}, {"is_negated": st.booleans()}
    ),
    "matches_reference": mappings({}, {"case_sensitive": st.booleans()}),
}
checks = st.sampled_from(sorted(SETTINGS)).flatmap(
    lambda name: mappings({"type": st.just("check"), "check": st.just(name), "settings": SETTINGS[name]}, {})
)
schemas = mappings({}, {"type": st.sampled_from(["object", "string"]), "const": json_values, "minLength": st.just(1)})
against = st.sampled_from(["context", "reference", "prompt"])
FREE_METHODS = (
    checks,
    st.builds(lambda schema: {"type": "schema", "schema": schema}, schemas),
    mappings({"type": st.sampled_from(["claims", "similarity"])}, {"against": against}),
    mappings({"type": st.just("preference"), "against": st.just("baseline")}, {"guidance": some_texts}),
    st.just({"type": "function", "function": "graders.tone:grade"}),
)
JUDGED_METHODS = (
    mappings(
        {"type": st.just("judge")},
        {"max_tokens": st.none() | st.integers(1, 4000), "guidance": some_texts, "can_abstain": st.booleans()},
    ),
    st.just({"type": "ratings"}),
)
level_words = {"label": st.none() | texts, "description": texts, "indicators": st.lists(texts, max_size=2)}
levels = st.lists(LEVEL_IDS, min_size=2, max_size=4, unique=True).flatmap(
    lambda ids: st.tuples(*(mappings({"id": st.just(level_id), "score": SHARES}, level_words) for level_id in ids))
)


@st.composite
def scales(draw: st.DrawFn) -> dict[str, Any]:
    """A scale by its ends, by its points, or by both."""
    lowest = draw(st.integers(0, 3))
    highest = draw(st.integers(lowest + 1, lowest + 9))
    ends = {"min": lowest, "max": highest}
    some = [str(point) for point in range(lowest, highest + 1)]
    words = st.dictionaries(st.sampled_from(some), texts, max_size=3)
    others = draw(st.lists(st.decimals(0, 10_000, places=3).filter(lambda point: point % 1), max_size=3, unique=True))
    points = draw(st.fixed_dictionaries(dict.fromkeys((some[0], some[-1], *map(str, others)), texts)))
    by_points = {"points": points, "labels": draw(st.dictionaries(st.sampled_from(sorted(points)), texts))}
    return draw(st.sampled_from([ends, ends | {"points": draw(words), "labels": draw(words)}, by_points]))


steps = {"levels": levels} | {"scale": scales()}
some_steps = st.one_of(*(mappings({key: values}, {}) for key, values in steps.items()))


@st.composite
def criteria(draw: st.DrawFn, criterion_id: str, category: str | None, kind: str) -> dict[str, Any]:
    """A criterion of a kind: "gate", "penalty", or "weighted" with a weight above 0."""
    method = draw(st.one_of(*FREE_METHODS, *JUDGED_METHODS))
    is_judged = method["type"] in ("judge", "ratings")
    values = {"id": criterion_id, "description": draw(some_texts), "method": method}
    if method["type"] != "preference":
        values |= draw(some_steps if is_judged else st.just({}) | some_steps)
    values |= draw(mappings({}, {"name": texts, "rationale": texts, "metadata": metadata}))
    if method["type"] == "judge" and "levels" in values:
        shown = st.sampled_from([level["id"] for level in values["levels"]])
        example = mappings({"output": texts, "level": shown}, {"prompt": texts, "rationale": texts})
        values["method"] = method | {"examples": draw(st.lists(example, max_size=2))}
    if category is not None:
        values["category"] = category
    if kind == "gate":
        values["gate"] = True
    elif kind == "penalty":
        values["weight"] = -draw(WEIGHTS)
    elif draw(st.booleans()):
        values["weight"] = draw(WEIGHTS)
    best = max((level["score"] for level in values.get("levels", ())), default=1)
    if kind != "penalty" and draw(st.booleans()):
        values["threshold"] = draw(SHARES) * best
    return values


@st.composite
def trees(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Categories, each in one of those before it or at the top; none at all in half of the rubrics."""
    ids = draw(st.just([]) | st.lists(some_texts.map(lambda text: text[:64]), min_size=1, max_size=4, unique=True))
    categories = []
    for index, category_id in enumerate(ids):
        words = {"name": texts, "description": texts, "rationale": texts, "metadata": metadata, "weight": WEIGHTS}
        parent = draw(st.sampled_from([None, *ids[:index]]))
        categories.append(draw(mappings({"id": st.just(category_id), "parent": st.just(parent)}, words)))
    return categories


@st.composite
def rubrics(draw: st.DrawFn) -> Rubric:
    """Any valid rubric: a tree of categories or labels, every method, scales, penalties, gates, metadata."""
    categories = draw(trees())
    homes = [category["id"] for category in categories]  # each category holds a weighted criterion of its own
    free = st.sampled_from([None, *homes]) if homes else st.none() | some_texts.map(lambda text: text[:64])
    kinds = draw(st.lists(st.sampled_from(["gate", "penalty", "weighted"]), max_size=3))
    places = [(home, "weighted") for home in homes or [draw(free)]] + [(draw(free), kind) for kind in kinds]
    ids = draw(st.lists(NAMES, min_size=len(places), max_size=len(places), unique=True))
    listed = [draw(criteria(name, *place)) for name, place in zip(ids, places, strict=True)]
    values = {"id": draw(NAMES), "version": draw(VERSIONS), "categories": categories}
    values |= {"criteria": draw(st.permutations(listed))} | draw(mappings({}, RUBRIC_KEYS))
    thresholds = [entry for entry in listed if "threshold" in entry and not entry.get("gate")]
    rubric = Rubric.model_validate(values | {"require_thresholds": bool(thresholds) and draw(st.booleans())})
    return within_reach(rubric)


def within_reach(rubric: Rubric) -> Rubric:
    """The rubric with its pass threshold as a share of the highest score; without one where that is below 0."""
    scores = score_range(rubric)
    if rubric.pass_threshold is None or scores is None or scores[1] < 0:
        return rubric.model_copy(update={"pass_threshold": None})
    return rubric.model_copy(update={"pass_threshold": min(rubric.pass_threshold * scores[1], 1.0)})


RUBRIC_KEYS = {
    **dict.fromkeys(("name", "description", "owner", "target_type"), texts),
    "pass_threshold": SHARES,
    "missing": st.sampled_from(["null", "skip", "zero"]),
    "weight_sum": WEIGHTS,
    "overall": st.one_of(*(mappings({}, {"label": texts, "description": texts, key: steps[key]}) for key in steps)),
    "notes": mappings({}, {"label": texts, "placeholder": texts}),
    "metadata": metadata,
}
