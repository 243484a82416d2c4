"""Tables that fit their console."""

import io

import pytest
from rich.console import Console

from gradebook.flows.display.terminal import FittedTable

RUN = "20261101-020000-a1b2c3"


def printed(table: FittedTable, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_name_is_cut_in_the_middle():
    table = FittedTable("criterion")
    table.add_row("answers_the_question_first")
    # of 11 columns one is the ellipsis: five letters before it, five after it
    assert printed(table, 11)[2] == "answe…first"


def test_a_run_id_is_never_cut_and_the_last_columns_leave_first():
    table = FittedTable("model", "run_id", "checkpoint", "reason")
    table.add_row("m" * 40, RUN, "step-1", "a sentence of several words")
    head, _, row, *note = printed(table, 44)
    assert (head.split(), row.split()[-1]) == (["model", "run_id"], RUN)
    assert " ".join(note) == "not shown: checkpoint, reason; --wide shows all"


def test_a_run_id_in_the_last_column_drives_out_no_number():
    table = FittedTable("model", "mean", "run_id")
    table.add_row("support-small", "0.590", RUN)
    assert printed(table, 30)[0].split() == ["model", "mean"]


def test_a_definition_is_shown_whole_where_asked():
    table = FittedTable("column", "meaning")
    table.is_whole = True
    table.add_row("score", " ".join(["word"] * 100))
    assert " ".join(printed(table, 40)).count("word") == 100


def test_a_run_id_that_is_longer_than_the_console_goes_on_in_the_next_line():
    table = FittedTable("run")
    table.add_row(RUN)
    assert "".join(printed(table, 12)[2:4]) == RUN


def test_a_heading_wraps_before_its_column_is_left_out():
    table = FittedTable("criterion")
    for model in ("support-large @ 2026-11-01", "support-small @ 2026-11-01"):
        table.add_column(model, justify="right")
    table.add_row("tone", "0.952", "0.463 (95.2%)")
    first, second, _, row = printed(table, 60)
    assert (first.split(), second.split()[1:]) == (
        ["support-large", "@", "support-small", "@"],
        ["2026-11-01", "2026-11-01"],
    )
    assert row.split() == ["tone", "0.952", "0.463", "(95.2%)"]


def test_a_command_is_broken_only_where_no_other_column_can_be_narrower():
    command = "`gradebook evaluate --resume night-1`"
    table = FittedTable("state", "what to do")
    table.add_row(" ".join(["word"] * 12), f"go on: {command}")
    assert any(command in line for line in printed(table, 64))


def test_nothing_of_a_lossless_table_is_cut_or_left_out_and_no_line_ends_in_blanks():
    table = FittedTable("name", "address", "note")
    table.is_lossless = True
    address = "https://host/" + "a" * 60
    table.add_row("x" * 30, address, " ".join(["word"] * 30))
    table.add_row("y", "", "")
    console = Console(file=io.StringIO(), width=70)
    console.print(table)
    lines = console.file.getvalue().splitlines()
    assert (max(map(len, lines)) <= 70, [line for line in lines if line != line.rstrip()]) == (True, [])
    columns = [[line[start:end] for line in lines[2:-1]] for start, end in column_ends(lines[0])]
    names, addresses, notes = ("".join("".join(cells).split()) for cells in columns)
    assert (names, addresses, notes) == ("x" * 30, address, "word" * 30)


def column_ends(head: str) -> list[tuple[int, int | None]]:
    starts = [head.index(name) for name in head.split()]
    return [*zip(starts, [*starts[1:], None], strict=True)]


@pytest.mark.parametrize("width", [30, 60, 80])
def test_a_number_is_shown_whole_or_not_at_all(width):
    table = FittedTable("criterion")
    for heading in "abcdefgh":
        table.add_column(heading, justify="right")
    table.add_row("c" * 60, *["-0.125 to +0.125"] * 8)
    _, _, row, *_ = printed(table, width)
    assert row.partition(" ")[2].replace("-0.125 to +0.125", "").strip() == ""


def test_a_sentence_wraps_over_a_few_lines():
    table = FittedTable("suite", "reason")
    table.add_row("s", " ".join(["word"] * 100))
    # of 40 columns 5 are the suite and 2 the gap; "word " is 5 wide: 6 words a line, the last with the ellipsis
    *_, second, last, _ = printed(table, 40)
    assert (second.split(), last.split()) == (["word"] * 6, ["word"] * 5 + ["word…"])


def test_a_command_in_a_sentence_stays_in_one_line():
    table = FittedTable("suite", "fault")
    table.add_row("s", "no lake; try `rebuild --out here`")
    # of 32 columns 5 are the suite and 2 the gap: of the command, one word would fit in the 25 of the first line
    assert [line[7:] for line in printed(table, 32)[2:]] == ["no lake; try", "`rebuild --out here`"]


def test_an_interval_is_a_number_and_no_sentence():
    table = FittedTable("criterion", "agreement", "kappa")
    table.add_row("tone", "0.825 (0.749 to 0.882)", "0.726 (0.554 to 0.832)")
    assert printed(table, 40)[2].split() == ["tone", "0.825", "(0.749", "to", "0.882)"]


def test_an_empty_table_is_no_fault():
    assert printed(FittedTable("criterion"), 80)[0] == "criterion"
