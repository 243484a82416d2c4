"""A run in which every text that comes from outside wants to be more than text when a page shows it.

What runs sets `window.canary`; what is fetched comes from canary.example.
"""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.support.published_runs import publish

RUNS = "window.canary = 1"
# Every one stands in every output, reference, rationale and evidence; none has a character that can't be seen.
TEXTS = (
    f"<script>{RUNS}</script>",
    f"</script><script>{RUNS}</script>",
    f'</title></style></textarea></pre></details><img src="x" onerror="{RUNS}">',
    f"<svg onload='{RUNS}'><animate onbegin='{RUNS}' attributeName=x dur=1s>",
    f'<a href="javascript:{RUNS}">a link</a> [another](javascript:{RUNS}) javascript:{RUNS}',
    f"\" autofocus tabindex=0 onfocus='{RUNS}' data-tip=\"",
    "<iframe src='https://canary.example/frame'></iframe> https://canary.example/plain",
    "<link rel=stylesheet href=https://canary.example/style.css><style>body{display:none}</style>",
    "<meta http-equiv=refresh content='0;url=https://canary.example/meta'><base href=https://canary.example/>",
    "<!-- <script> --> ]]> <![CDATA[ <plaintext",
    "&lt;b&gt; stays &amp;lt; and &#60;script&#62;",
    "{{ 7 * 7 }} {% raw %} {# note #} ${7 * 7} <%= 7 * 7 %>",
    '=HYPERLINK("https://canary.example/cell", "sum")',
    "\\u003cscript\\u003e \\x3cscript>",
)
UNSEEN = "\x00 \x1b[31mred\x1b[0m \x1b]8;;https://canary.example/\x07 \u202eexe.txt \u2066\u2028\u200b\x7f\x9b31m\x07"
LONG = 100_000  # letters without a space
MODELS = (
    f'<img src="x" onerror="{RUNS}">',
    f"</script><script>{RUNS}</script>",
    "$models",
    "@ink",
    "c1",
    "'\"><b>{{ 7 * 7 }}</b>",
    "\u202emodel\u2066 \x1b[31m",
    "m" * 300,
)
CASES = 4
NAME = f"<img src=x onerror='{RUNS}'>.jsonl"  # no `/` in a file's name
LEVELS = [
    {"id": "bad", "score": 0, "label": f"<i onclick='{RUNS}'>bad", "description": TEXTS[1]},
    {"id": "good", "score": 1, "label": "</script>good", "description": TEXTS[0]},
]
HEADS = {"name": f"</script><script>{RUNS}</script>", "description": TEXTS[2], "rationale": TEXTS[3]}


def write_hostile_run(folder: Path) -> None:
    """Publish the run `hostile` into a new lake below this folder."""
    folder.mkdir()
    outputs = [_output(case, place) for case in range(CASES) for place in range(len(MODELS))]
    refused = [f"no JSON: {text}" for text in TEXTS]
    (folder / NAME).write_text("\n".join([*map(json.dumps, outputs), *refused]), encoding="utf-8")
    _write_rows(folder / "replies.jsonl", [_reply(row) for row in outputs])
    _write_rows(folder / "ratings.jsonl", [_rating(row) for row in outputs])
    (folder / "rubric.yaml").write_text(yaml.safe_dump(_rubric()), encoding="utf-8")
    judged = {"judge": f"replay:{folder / 'replies.jsonl'}", "ratings": str(folder / "ratings.jsonl")}
    publish(folder / NAME, folder / "rubric.yaml", run_id="hostile", max_bad_rate=0.9, **judged)


def _rubric() -> dict[str, Any]:
    return {
        "id": "hostile",
        "version": "1.0.0",
        "pass_threshold": 0.5,
        "missing": "skip",
        "criteria": [
            _criterion("judged", {"type": "judge"}, category="</script>", threshold=0.5, levels=LEVELS),
            _criterion("rated", {"type": "ratings"}, category="<b>$rows", levels=LEVELS),
            _criterion("short", {"type": "check", "check": "length_characters", "settings": {"max": LONG}}, gate=True),
        ],
    }


def _criterion(name: str, method: dict[str, Any], **others: Any) -> dict[str, Any]:
    return HEADS | {"id": name, "name": f"{HEADS['name']} {name}", "method": method} | others


def _output(case: int, place: int) -> dict[str, Any]:
    """An output of every hostile text; of the last case it is longer than the rubric lets it be."""
    texts = "\n".join([*TEXTS, UNSEEN, f"{case} of {place}"])
    return {
        "case_id": f"{TEXTS[case]} {case}",
        "model": MODELS[place],
        "prompt": [{"role": "user", "content": texts}],
        "output": texts + "\n" + "W" * (LONG if case == CASES - 1 else 0),
        "reference": texts,
        "context": [texts, TEXTS[case]],
        "metadata": {f"<b>{TEXTS[0]}": TEXTS[case % 2], "topic": TEXTS[case % 2]},
    }


def _reply(row: dict[str, Any]) -> dict[str, Any]:
    """A judgment that quotes every text; of some there is none, and what came instead is hostile as well."""
    place = MODELS.index(row["model"])
    key = {"case_id": row["case_id"], "model": row["model"], "criterion_id": "judged"}
    if place == len(MODELS) - 1:
        return key | {"status": "parse_error", "reply": row["reference"]}
    level = "bad" if (len(row["output"]) + place) % 3 else "good"
    return key | {"level": level, "evidence": list(TEXTS), "rationale": row["reference"]}


def _rating(row: dict[str, Any]) -> dict[str, Any]:
    key = {"case_id": row["case_id"], "model": row["model"], "criterion_id": "rated"}
    level = "good" if MODELS.index(row["model"]) % 2 else "bad"
    return key | {"rater": TEXTS[0], "level_id": level, "notes": row["reference"]}


def _write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
