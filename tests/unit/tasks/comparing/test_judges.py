"""Whether one judge scored both runs."""

from gradebook.tasks.comparing.sides import RunJudge, describe_judges
from tests.support.law_over import law_over

PLAIN = {"kind": "openai_chat", "model": "j", "temperature": 0, "prompt_digest": "p"}


def asked(name: str | None = "j", models: tuple[str, ...] = (), **changes: object) -> RunJudge:
    return RunJudge(name, None if name is None else PLAIN | changes, {"j": frozenset(models)} if models else {})


@law_over(
    ("a", "b", "words"),
    [
        (asked(), asked(), None),
        (asked(None), asked(), None),  # nothing was judged on one side, so nothing of it is compared
        (asked(), asked("k", model="k"), "different judges, j in A and k in B"),
        (asked(), asked(temperature=0.5), "j was asked with different settings in A and B: temperature 0 and 0.5"),
        (asked(), asked(prompt_digest="q"), "j was asked with different settings in A and B: another prompt"),
        (asked(models=("j-1",)), asked(models=("j-1",)), None),
        (asked(models=("j-1",)), asked(), None),  # all of B's verdicts use earlier replies
        (
            asked(models=("j-1",)),
            asked(models=("j-1", "j-2")),
            "j was answered by different models: j-1 in A and j-1, j-2 in B",
        ),
        (RunJudge("j"), asked(), None),  # a run of a version that did not record the settings
        (RunJudge("j"), asked("k"), "different judges, j in A and k in B"),
        (RunJudge("replay:a", {"kind": "replay", "digest": "a"}), RunJudge("replay:b", {"kind": "replay"}), None),
        (RunJudge("replay:a", {"kind": "replay"}), asked(), "different judges, replay:a in A and j in B"),
    ],
)
def test_judges_differ_by_name_settings_or_answering_model(a, b, words):
    assert describe_judges(a, b) == words
