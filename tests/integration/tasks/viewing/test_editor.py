"""The editor of `gradebook view --edit`: who may write, two people at once, lint, price and trial."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.lint.linting import lint_text
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.published.cost_preview import preview_change
from gradebook.tasks.rubric_store.versions import OtherText, list_versions
from gradebook.tasks.system.listeners import Tokens
from gradebook.tasks.viewing.edited import MOST_TEXT, RubricFolder
from gradebook.tasks.viewing.frame import Editing
from gradebook.tasks.viewing.server import view_app
from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import nightly
from tests.support.published_runs import publish
from tests.support.samples import RUBRIC, write_outputs, write_rubric

ORIGIN = "http://127.0.0.1:8000"
TEXT = RUBRIC.format(version="1.0.0", weight=1)
OTHER = TEXT.replace("Is the answer clear", "Is the reply clear")  # another question to the judge
RUN = "base"
HOSTILE = "</textarea><script>alert(1)</script>"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{name}'] * 9)}]\n" for name, after in zip("abcdefgh", "bcdefghi", strict=True)
)
NAMES = (
    "../up.yaml",
    "/tmp/up.yaml",
    "a/b.yaml",
    "..",
    ".hidden.yaml",
    "a.txt",
    "a\0.yaml",
    "a\n.yaml",
    "",
    "x" * 300 + ".yaml",
)


@dataclass
class Served:
    """Pages of a lake with `--edit`, as a browser with the link sees them."""

    lake: Lake
    folder: Path
    client: TestClient

    def post(self, text: str = TEXT, action: str = "check", **fields: str) -> Any:
        """Answer to the editor's form."""
        values = {"text": text, "action": action, "source_rubric": "short_answer", "source_version": "1.0.0", **fields}
        return self.client.post("/edit", data=values, headers={"origin": ORIGIN}, follow_redirects=False)

    def save(self, text: str, file: str, read_digest: str = "", source_file: str = "") -> int:
        """Status of saving a text."""
        fields = {"file": file, "read_digest": read_digest, "source_file": source_file}
        return self.post(text, "save", **fields).status_code


def served(lake: Lake, folder: Path, judge: Path | None = None, budget_usd: float = 0.05) -> Served:
    tokens = Tokens()
    editing = Editing(RubricFolder(folder), None if judge is None else str(judge), budget_usd)
    client = TestClient(view_app(lake, tokens, ("127.0.0.1:8000",), editing), base_url=ORIGIN)
    client.get(f"/t/{tokens.issue('reader')}")
    return Served(lake, folder, client)


@pytest.fixture(scope="module")
def judge() -> Iterator[LoopbackJudge]:
    with LoopbackJudge() as judge:
        yield judge


@pytest.fixture(scope="module")
def judge_file(judge: LoopbackJudge, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("judge") / "judge.yaml"
    prices = "prices: {input_usd: 1, output_usd: 2}\n"
    path.write_text(f"model: m\nbase_url: {judge.base_url}\nmax_tokens: 300\n{prices}", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def lake(judge_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake with a run of twelve cases, judged."""
    folder = tmp_path_factory.mktemp("edited")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "k")
        outputs, rubric = write_outputs(folder / "outputs.jsonl", 12, ("m",)), write_rubric(folder / "rubric.yaml")
        publish(outputs, rubric, judge=str(judge_file), run_id=RUN)
        yield find_lake(f"sqlite:{folder}/lake/catalog.sqlite")


@pytest.fixture
def editor(lake: Lake, tmp_path: Path) -> Served:
    return served(lake, tmp_path)


def read_digest(page: str) -> str:
    """Digest of the file that a page shows."""
    return re.findall(r'name="read_digest" value="(\w*)"', page)[0]


def test_without_edit_no_address_takes_anything(lake: Lake, editor: Served):
    methods = [
        {(route.path, method) for route in app._app.routes for method in route.methods - {"GET", "HEAD"}}
        for app in (view_app(lake, Tokens(), ("a:1",)), editor.client.app)
    ]
    assert methods == [set(), {("/edit", "POST")}]
    tokens = Tokens()
    reading = TestClient(view_app(lake, tokens, ("127.0.0.1:8000",)), base_url=ORIGIN)
    assert "/edit?" not in reading.get(f"/t/{tokens.issue('reader')}").text
    assert reading.get("/edit?rubric=short_answer").status_code == 404
    assert "/edit?" not in reading.get("/rubrics/short_answer").text
    assert "/edit?rubric=short_answer" in editor.client.get("/rubrics/short_answer").text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--judge", "m"], "--judge: found no --edit"),
        (["--edit", "--rubrics", "no"], "no, which is no folder"),
        (["--edit", "--try-budget-usd", "0"], "found 0, expected dollars, above 0"),
    ],
)
def test_options_of_the_editor_are_refused_before_the_server_starts(gradebook: Any, options: list[str], words: str):
    ended = gradebook("view", *options)
    assert (ended.code, ended.out) == (2, "") and words in ended.err


def test_a_form_needs_the_token_and_this_origin(editor: Served):
    values = {"text": TEXT, "action": "save", "file": "new.yaml", "source_rubric": "short_answer"}
    for headers in ({}, {"origin": "null"}, {"origin": "http://evil.example"}, {"origin": ORIGIN, "cookie": "a=b"}):
        answer = editor.client.post("/edit", data=values, headers=headers)
        assert answer.status_code == 403
    assert editor.client.post("/edit", json=values, headers={"origin": ORIGIN}).status_code == 415
    assert [*editor.folder.iterdir()] == []


def test_findings_are_those_of_lint_with_their_lines(editor: Served):
    wrong = TEXT.replace("weight: 1", "weigth: 1", 1)
    page = unescape(editor.post(wrong).text)
    findings = lint_text(wrong, "rubric")
    assert [(finding.line, finding.rule) for finding in findings] == [(8, "unknown-key")]
    assert 'data-line="8">line 8</a> <strong>error</strong> unknown-key' in page and findings[0].mend in page
    assert 'id="form"' not in page and 'id="form"' in editor.post().text


def test_the_version_that_a_change_needs_is_set_by_a_button(editor: Served):
    page = editor.post(OTHER).text
    assert "patch: criteria[clarity].description" in page and "Set version 1.0.1" in page
    assert "version: 1.0.1\n" in editor.post(OTHER, "version").text


def test_a_field_is_written_into_the_text_and_its_comments_stay(editor: Served):
    text = TEXT.replace("    weight: 1", "    weight: 1  # half", 1)
    place = "criteria.0.weight"
    assert "    weight: 2.5  # half" in editor.post(text, "set", place=place, **{f"value.{place}": "2.5"}).text
    for wrong in ("criteria.0.method", "version", "criteria.9.weight", "criteria.0.levels.7.description"):
        page = editor.post(text, "set", place=wrong, **{f"value.{wrong}": "x"}).text
        assert 'role="alert"' in page and "weight: 1  # half" in page


@pytest.mark.parametrize(
    "text", [HOSTILE, f"id: '{HOSTILE}'", "[" * 50_000, "\0\x0b\u202e", "", *nightly([BOMB, TEXT + "# x\n" * 40_000])]
)
def test_hostile_texts_are_answered_and_escaped(editor: Served, text: str):
    for action in ("check", "save", "try", "price", "register", "version"):
        answer = editor.post(text, action, file="a.yaml", run_id=HOSTILE, judge=HOSTILE, source_file=HOSTILE)
        assert answer.status_code in (200, 400) or "# x" in text
        assert "<script>alert" not in answer.text
    assert editor.post("x" * (MOST_TEXT + 1)).status_code == 413


@pytest.mark.parametrize("name", NAMES)
def test_a_name_outside_the_folder_is_refused(editor: Served, name: str):
    assert editor.save(TEXT, name) == 400
    assert editor.client.get("/edit", params={"file": name or "."}).status_code == 404
    assert [*editor.folder.iterdir()] == []


def test_links_are_neither_read_nor_written(editor: Served, tmp_path_factory: pytest.TempPathFactory):
    secret = tmp_path_factory.mktemp("secret") / "secret.yaml"
    secret.write_text(TEXT + "# secret\n", encoding="utf-8")
    (editor.folder / "link.yaml").symlink_to(secret)
    (editor.folder / "folder.yaml").mkdir()
    assert editor.save(OTHER, "link.yaml") == editor.save(OTHER, "folder.yaml") == 400
    assert "secret" not in editor.client.get("/edit?file=link.yaml").text + editor.client.get("/rubrics").text
    assert secret.read_text(encoding="utf-8").endswith("# secret\n")


def test_of_two_people_who_save_a_file_the_second_is_told_and_overwrites_nothing(editor: Served):
    path = editor.folder / "mine.yaml"
    assert editor.save(TEXT, "mine.yaml") == 303
    path.chmod(0o640)
    digest = read_digest(editor.client.get("/edit?file=mine.yaml").text)
    theirs = TEXT + "# theirs\n"
    assert editor.save(theirs, "mine.yaml", digest, "mine.yaml") == 303
    answer = editor.post(OTHER, "save", file="mine.yaml", source_file="mine.yaml", read_digest=digest)
    assert answer.status_code == 409 and "# theirs" in answer.text and "Is the reply clear" in answer.text
    assert path.read_text(encoding="utf-8") == theirs
    taken = editor.post(OTHER, "save", file="mine.yaml")  # as a new file
    assert taken.status_code == 409 and "has a file mine.yaml already" in taken.text
    assert editor.save(OTHER, "mine.yaml", read_digest(answer.text), "mine.yaml") == 303  # both texts were seen
    assert path.read_text(encoding="utf-8") == OTHER
    assert path.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in editor.folder.iterdir()] == ["mine.yaml"]


def test_of_many_who_save_at_once_one_does(editor: Served):
    def save(number: int, digest: str) -> bool:
        with suppress(OtherText):
            RubricFolder(editor.folder).save("raced.yaml", f"{TEXT}# {number}\n", digest)  # as a server of its own
            return True
        return False

    digest = ""
    for first in (0, 8, 16):
        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(save, range(first, first + 8), [digest] * 8)) == 1
        _, digest = RubricFolder(editor.folder).read("raced.yaml")


def test_a_file_keeps_its_line_ends_and_its_byte_order_mark(editor: Served):
    path = editor.folder / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    digest = read_digest(editor.client.get("/edit?file=windows.yaml").text)
    assert editor.save(OTHER.replace("\n", "\r\n"), "windows.yaml", digest, "windows.yaml") == 303
    assert path.read_bytes() == b"\xef\xbb\xbf" + OTHER.replace("\n", "\r\n").encode()


def test_a_text_whose_file_is_gone_is_not_lost(editor: Served):
    answer = editor.post(OTHER, "save", file="gone.yaml", source_file="gone.yaml", read_digest="0" * 64)
    assert answer.status_code == 303 and (editor.folder / "gone.yaml").read_text(encoding="utf-8") == OTHER


def test_of_two_people_who_register_a_draft_the_second_is_told(editor: Served):
    def state(version: str) -> list[tuple[str, str]]:
        rows = [row for row in list_versions(editor.lake) if row["rubric_version"] == version]
        return [(row["state"], row["digest"]) for row in rows]

    first, second = (text.replace("1.0.0", "2.0.0") for text in (OTHER, OTHER.replace("reading", "sight")))
    assert editor.post(first, "register").headers["location"].endswith("version=2.0.0&done=registered")
    ((is_draft, digest),) = state("2.0.0")
    assert is_draft == "draft"
    draft = {"source_version": "2.0.0", "draft_digest": digest}
    assert "since short_answer 1.0.0" in editor.client.get("/edit?rubric=short_answer&version=2.0.0").text
    assert "Version 2.0.0 fits these changes." in editor.post(second, **draft).text
    answer = editor.post(second, "register")
    assert answer.status_code == 409 and "first reading" in answer.text and "first sight" in answer.text
    assert state("2.0.0") == [("draft", digest)]
    assert editor.post(second, "register", draft_digest=digest).status_code == 303
    assert state("2.0.0") != [("draft", digest)]
    major = TEXT.replace("{id: clear,", "{id: plain,")
    assert "Set version 3.0.0" in editor.post(major).text  # the next that the lake does not have


def test_a_draft_is_activated_by_a_button_if_nobody_changed_it_meanwhile(editor: Served):
    def button(version: str) -> dict[str, str]:
        page = editor.client.get(f"/rubrics/short_answer?version={version}").text
        return dict(re.findall(r'name="(source_rubric|source_version|draft_digest)" value="([^"]*)"', page))

    text = TEXT.replace("1.0.0", "5.0.0")
    editor.post(text, "register")
    seen = button("5.0.0")
    assert editor.post(text + "\n", "activate", **seen | {"draft_digest": "0" * 64}).status_code == 409
    assert editor.post("", "activate", **seen).headers["location"] == "/rubrics/short_answer?version=5.0.0"
    states = {row["rubric_version"]: row["state"] for row in list_versions(editor.lake)}
    assert states["5.0.0"] == "active" and button("5.0.0") == {}
    assert "which is active" in editor.post("", "activate", **seen).text


def test_an_active_version_does_not_become_a_draft(editor: Served):
    ((digest,),) = [(row["digest"],) for row in list_versions(editor.lake) if row["rubric_version"] == "1.0.0"]
    answer = editor.post(TEXT, "register", draft_digest=digest)
    assert answer.status_code == 400 and "which is active" in answer.text


def test_a_price_is_that_of_the_command(editor: Served):
    one_less = TEXT[: TEXT.index("  - id: clarity")] + TEXT[TEXT.index("  - id: length") :]
    change = preview_change(editor.lake, RUN, parse_rubric(one_less, "rubric"), "gpt-4o-mini")
    assert change.sentence.endswith("a run: 1 judged criterion less (clarity); gpt-4o-mini instead of m")
    assert change.sentence in editor.post(one_less, "price", run_id=RUN, judge="gpt-4o-mini").text
    for judge in ("judge.yaml", "replay:/etc/passwd", "../x"):
        assert "No estimate" in editor.post(OTHER, "price", run_id=RUN, judge=judge).text


def test_another_method_is_priced_by_itself(editor: Served):
    other = TEXT.replace("{type: judge}", "{type: judge, max_tokens: 100}")
    assert 'hx-trigger="load' in editor.post(other).text and 'hx-trigger="load' not in editor.post(OTHER).text


def published_count(lake: Lake) -> list[tuple[Any, ...]]:
    with connect(lake, read_only=True) as connection:
        return connection.execute("select count(*) from runs union all select count(*) from verdicts").fetchall()


def test_a_trial_asks_what_is_new_once_and_publishes_nothing(
    lake: Lake, judge: LoopbackJudge, judge_file: Path, tmp_path: Path
):
    editor, before, rows = served(lake, tmp_path, judge_file), judge.request_count, published_count(lake)
    same = editor.post(TEXT.replace("score: 0.0", "score: 0.2"), "try", run_id=RUN).text
    assert "nothing was asked, $0" in same and judge.request_count == before
    assert len(re.findall('<tr><th scope="row">', same)) == 10
    # An unclear answer scores 0.2 now: (0.2 + 1) / 2
    assert re.findall(r"0\.500 → (0\.\d+)", same).count("0.600") >= 1
    tried = editor.post(OTHER, "try", run_id=RUN).text
    assert "m gave 10 new replies on clarity: $0.0" in tried and judge.request_count == before + 10
    again = editor.post(OTHER, "try", run_id=RUN).text
    assert "m gave 0 new replies on clarity: $0" in again and judge.request_count == before + 10
    assert published_count(lake) == rows


def test_a_trial_without_a_judge_or_money_says_so(lake: Lake, judge: LoopbackJudge, judge_file: Path, tmp_path: Path):
    before, other = judge.request_count, OTHER.replace("reply", "answer here").replace("max: 50", "max: 6")
    alone = served(lake, tmp_path).post(other, "try", run_id=RUN).text
    assert "No judge was asked" in alone and "no_judge" in alone
    assert "<del>pass</del> <ins>fail</ins>" in alone  # of 7 words, by the check
    poor = served(lake, tmp_path, judge_file, 1e-6).post(other, "try", run_id=RUN).text
    assert "a larger --try-budget-usd" in poor and "same command" not in poor and judge.request_count == before


def test_a_trial_knows_to_which_outputs_a_criterion_applies(lake: Lake, tmp_path: Path):
    editor = served(lake, tmp_path)
    everywhere = editor.post(TEXT, "try", run_id=RUN).text
    nowhere = TEXT.replace("- id: clarity", "- id: clarity\n    applies: model = 'nobody'", 1)
    assert nowhere != TEXT
    tried = editor.post(nowhere, "try", run_id=RUN).text
    assert "condition not met" in tried and "condition not met" not in everywhere
    # Of the two criteria the length alone counts, which all outputs meet.
    assert re.findall(r"→ (1\.000|–)", tried).count("1.000") >= 10
