from functools import partial

import pyarrow as pa
import pytest
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.registry import find_check
from tests.support import checked
from tests.support.law_over import law_over
from tests.support.nightly import nightly

judge = partial(checked.judge, "slots")


FILLED = {
    "date": [
        "2025-05-03", "on 2025/5/3.", "2025-05-03T19:30", "3 May 2025", "3rd of May", "May 3", "Sept. 3rd, 2025",
        "3 may 2025", "3-May-2025", "3 MAY", "03/05/2025", "3/5/25", "3.5.2025", "5月3日见", "2025年5月3日",
        "(31 December)", "3. Mai oder May 4",
    ],
    "time": [
        "19:30", "at 7 pm", "7.30 p.m.", "7am", "7 o'clock", "7 o’clock", "19h30",
        "à 19h", "19 Uhr", "19.30 Uhr", "noon", "19点见", "3시",
    ],
    "weekday": ["on Monday", "THURSDAY.", "周 sunday"],
    "number": ["5", "a5 5", "-3", "٣", "第3"],
    "percent": ["5%", "5 %", "5\u202f%", "5 percent", "5 per cent", "\u0665٪"],
    "money": [
        "$5", "5 €", "5\u00a0€", "USD 5", "5 dollars", "5k€", "¥5", "100元", "5 Pounds",
        "2 million euros", "5,000 US dollars", "TRY 5", "5 usd", "3 bn €",
    ],
    "email": ["ada@example.org", "иван@пример.рф"],
    "phone": ["+1 212 555 0123", "call 555-0199"],
    "url": ["https://a.org", "www.a.org", "_https://a.org_"],
}  # fmt: skip
EMPTY = {
    "date": [
        "",
        " ",
        "2025-13-03",
        "2025-05-33",
        "45/45/2025",
        "1.2.3",
        "May I?",
        "maybe 3",
        "any of the 3 may apply",
        "32 May",
        "tomorrow",
        "12025-05-031",
    ],
    "time": ["", "25:00", "19:75", "7 pmx", "3:2", "1:100", "am", "7 apples", "it takes 2h", "24시간"],
    "weekday": ["", "Mon", "mondays", "today"],
    "number": ["", "H2O", "five", "a_5"],
    "percent": ["", "5", "percent"],
    "money": ["", "$", "5", "dollars", "5 eurosx", "try 3 more", "step 5 try", "at 5 Ron came", "5 k"],
    "email": ["", "ada@", "@ada", "ada@x"],
    "phone": ["", "2025-05-03", "order 212-555-0123"],
    "url": ["", "a.org", "http://"],
}


@law_over(("kind", "output"), [(kind, output) for kind, outputs in FILLED.items() for output in outputs])
def test_a_slot_is_filled(kind, output):
    assert judge(output, all=[kind]) == (True, None)
    assert judge(f"\x00 {output}\r\n😀", all=[kind]) == (True, None)


@law_over(("kind", "output"), [(kind, output) for kind, outputs in EMPTY.items() for output in outputs])
def test_a_slot_is_missing(kind, output):
    assert judge(output, all=[kind]) == (False, f"missing {kind}")


@pytest.mark.parametrize("output", ["Tomorrow!", "on Friday", "明天见", "星期三", "下周三见"])
def test_relative_dates_count_when_asked_for(output):
    assert judge(output, all=["date"], relative_dates=True) == (True, None)
    assert judge(output, all=["date"]) == (False, "missing date")
    assert judge("一周三次", all=["date"], relative_dates=True) == (False, "missing date")


def test_names_are_whole_words_of_a_list():
    names = {"guest": ["Ada", "Bob"], "city": ["São Paulo"]}
    assert judge("ada, são paulo", names=names) == (True, None)
    assert judge("请告诉Ada、São Paulo", names=names) == (True, None)
    assert judge("Adas, São Paulo", names=names) == (False, "missing guest (Ada or Bob)")
    assert judge("Иванов", names={"guest": ["Иван"]})[0] is False
    assert judge("請告訴田中さん", names={"guest": ["田中"]})[0] is True
    assert judge("ada, São Paulo", names=names, case_sensitive=True) == (False, "missing guest (Ada or Bob)")
    assert judge("(a.b)", names={"code": ["A.B)", "a+"]}) == (True, None)


def test_every_missing_slot_is_named():
    assert judge("Ada", all=["date", "phone"], names={"city": ["Rome"]}) == (False, "missing date, phone, city (Rome)")


@pytest.mark.parametrize(
    "unit", ["1 ", *nightly(["1", "1/", "may ", "1:", "a", "@", "a@a.", "\n", " ", "$", "中", "(", "+1"])]
)
def test_a_million_characters_are_judged(unit):
    output = unit * (1_000_000 // len(unit))
    assert judge(output, all=list(FILLED), names={"x": ["zz"]})[0] is False


@law_over(
    "settings",
    [
        {},
        {"all": []},
        {"all": ["day"]},
        {"names": {}},
        {"names": {"x": []}},
        {"names": {"x": [""]}},
        {"names": ["x"]},
        {"all": ["time"], "relative_dates": True},
        {"all": ["time"], "case_sensitive": True},
    ],
)
def test_settings_that_cannot_hold_are_refused(settings):
    with pytest.raises(ValidationError):
        read_settings(find_check("slots"), settings)


def test_rows_together_are_judged_as_alone():
    outputs = [output for outputs in (*FILLED.values(), *EMPTY.values()) for output in outputs]
    check = find_check("slots")
    together = check.function(pa.table({"output": outputs}), read_settings(check, {"all": list(FILLED)}))
    assert together.evidence.to_pylist() == [judge(output, all=list(FILLED))[1] for output in outputs]
