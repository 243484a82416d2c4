"""Several criteria in one request."""

import json
from typing import Any

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.batched_criteria import (
    can_be_packed,
    pack_labels,
    packed_criterion_digest,
    packed_prompt_digest,
    packed_schema,
    read_packed,
    render_packed,
)
from gradebook.rubrics.prompts.prompt import Case, PromptStyle, criterion_digest, prompt_digest
from gradebook.rubrics.prompts.reply_parser import ReadReply
from tests.support.law_over import law_over

CASE = Case("Why?", "Because it is late.")


def make_criterion(criterion_id: str, most: int = 3, **method: Any) -> Criterion:
    values = {"id": criterion_id, "description": f"How {criterion_id}?", "scale": {"min": 1, "max": most}}
    return Criterion.model_validate(values | {"method": {"type": "judge"} | method})


PACK = [make_criterion("kind"), make_criterion("deep", 5), make_criterion("apt", can_abstain=True)]
KEYS = [f"{number:032x}" for number in range(3)]
LABELS = pack_labels(PACK, KEYS, CASE)


def judged(number: int, level_id: str | None, **changes: Any) -> dict[str, Any]:
    (label,) = [label for label, named in LABELS[number - 1].items() if named == level_id]
    return {"evidence": [], "rationale": "So.", "level": label} | changes


GOOD = {"1": judged(1, "3"), "2": judged(2, "4"), "3": judged(3, None)}


def read(judgments: object, **around: Any) -> list[ReadReply]:
    return read_packed(json.dumps({"judgments": judgments} | around), "stop", None, LABELS, CASE.output)


def outcomes(reads: list[ReadReply]) -> list[tuple[str, str | None]]:
    return [(each.status, each.level_id) for each in reads]


def test_each_criterion_is_read_by_its_own_labels():
    assert outcomes(read(GOOD)) == [("scored", "3"), ("scored", "4"), ("abstained", None)]


@law_over(
    "bad",
    [judged(2, "4", level="QQQQ"), judged(2, "4", extra=1, other=2), {}, None, "4", [judged(2, "4")], judged(1, "3")],
)
def test_a_bad_judgment_spoils_itself_alone(bad: object):
    assert outcomes(read(GOOD | {"2": bad})) == [("scored", "3"), ("parse_error", None), ("abstained", None)]


def test_a_key_given_twice_spoils_its_own_judgment_alone():
    text = json.dumps({"judgments": GOOD}).replace('"level"', '"rationale": "No.", "level"', 1)
    statuses = [each.status for each in read_packed(text, "stop", None, LABELS, CASE.output)]
    assert statuses == ["parse_error", "scored", "abstained"]


def test_a_false_quote_spoils_its_own_judgment_alone():
    reads = read(GOOD | {"2": judged(2, "4", evidence=["early"])})
    assert [each.status for each in reads] == ["scored", "evidence_unverified", "abstained"]


@law_over("judgments", [{"1": GOOD["1"], "2": GOOD["2"]}, GOOD | {"4": GOOD["1"]}, list(GOOD.values()), {}, None, "x"])
def test_another_number_of_judgments_is_a_parse_error_of_all(judgments: object):
    assert outcomes(read(judgments)) == [("parse_error", None)] * 3


def test_an_extra_key_is_a_parse_error_of_all():
    assert outcomes(read(GOOD, note="x")) == [("parse_error", None)] * 3


def test_how_a_reply_ended_is_the_same_for_all():
    assert read_packed("{", "length", None, LABELS, "") == [ReadReply("truncated")] * 3


def test_no_two_criteria_of_a_pack_share_a_label():
    assert len({label for own in LABELS for label in own}) == 3 + 5 + 4


def test_the_schema_lets_each_criterion_have_its_own_labels_alone():
    judgments = packed_schema(LABELS)["schema"]["properties"]["judgments"]
    enums = [judgments["properties"][str(number)]["properties"]["level"]["enum"] for number in (1, 2, 3)]
    assert enums == [sorted(own) for own in LABELS] and judgments["required"] == ["1", "2", "3"]


def test_the_schema_is_the_same_for_other_keys():
    assert packed_schema(pack_labels(PACK, ["f" * 32] * 3, CASE)) == packed_schema(LABELS)


def test_a_pack_shows_the_case_and_then_the_criteria_by_number():
    user = render_packed(CASE, PACK, KEYS)[1]["content"]
    case, _, criteria = user.removeprefix("CASE\n").partition("\n\nCRITERIA\n")
    assert json.loads(case) == {"prompt": "Why?", "output": "Because it is late."}
    questions = {number: shown["question"] for number, shown in json.loads(criteria).items()}
    assert questions == {"1": "How kind?", "2": "How deep?", "3": "How apt?"}


def test_nothing_before_the_criteria_depends_on_them():
    prompts = [render_packed(CASE, PACK[:count], KEYS[:count]) for count in (1, 3)]
    assert len({str(prompt[0]) + prompt[1]["content"].partition("CRITERIA\n")[0] for prompt in prompts}) == 1


def test_the_labels_shown_are_those_that_are_read():
    shown = json.loads(render_packed(CASE, PACK, KEYS)[1]["content"].partition("CRITERIA\n")[2])
    assert [level["label"] for level in shown["2"]["levels"]] == list(LABELS[1])


def test_the_keys_of_a_judgment_follow_the_style():
    style = PromptStyle(reply_order="level_first")
    first = packed_schema(LABELS, style)["schema"]["properties"]["judgments"]["properties"]["1"]["required"][0]
    system = render_packed(CASE, PACK, KEYS, style)[0]["content"]
    assert first == "level" and "1. `level`" in system


def test_a_verdict_from_a_pack_is_another_than_one_alone_or_beside_others():
    kind, deep, _ = PACK
    packs = [PACK, [kind, deep], [deep, kind], [kind]]
    digests = {packed_criterion_digest(kind, pack) for pack in packs} | {criterion_digest(kind)}
    assert len(digests) == 5


def test_packs_have_a_prompt_file_of_their_own():
    assert packed_prompt_digest() != prompt_digest()


def test_a_pack_has_labels_for_128_levels():
    # 100 + 24 + 4 = 128; one more can't be labelled
    assert can_be_packed([make_criterion("a", 100), make_criterion("b", 24), make_criterion("c", 4)])
    assert not can_be_packed([make_criterion("a", 100), make_criterion("b", 24), make_criterion("c", 5)])
