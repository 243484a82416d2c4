"""Count of English sentences by rules that approximate NLTK's Punkt, which IFEval uses.

Punkt (Kiss and Strunk 2006, Computational Linguistics 32:4) learns its abbreviations and sentence starters from a
corpus; here both are short lists. As in Punkt, a line end does not end a sentence, a list's "1." before a capital is a
sentence, and so are the asterisks after the end of a text in "**Done.**". Time is linear in the text.
"""

import re

_ABBREVIATIONS = """
    a.d a.m adm al approx apr apt assn ave b.a b.c b.s bldg blvd bros ca calif capt cf cie cmdr co col comdr conn
    corp cos cpl ct d.c dec dept dr e.g e.u ed eds est etc feb fig figs fla fri ft ga gen gov hon hr hrs i.e ill inc
    jan jr jul jun kan ky l.a lb lbs lt ltd m.a m.b.a m.d maj mass messrs mich min minn mon mr mrs ms msgr mt n.c
    n.j n.v n.y nov oct okla op ore p.a p.m pa ph.d pp prof pt pvt r.n rd rep reps ret rev s.a s.c sen sens sep sept
    sgt sr st tel tenn thur thurs tue tues u.k u.n u.s u.s.a u.s.s.r v va vol vols vs w.va wash yr yrs
"""
_STARTERS = """
    a after all also although an and another any are as at because before both but by can could did do does each
    every finally first for from had has have he her here his how however i if in instead is it its just let many
    may maybe might more moreover most my next no not now of on once one or other our perhaps please second several
    she should similarly since so some such that the their then there therefore these they third this those though
    thus to today under until was we were what when where which while who why will with without would yes yet you
    your
"""
ABBREVIATIONS = frozenset(_ABBREVIATIONS.split())
STARTERS = frozenset(_STARTERS.split())
CURLY_QUOTES = "\u2018\u2019\u201c\u201d\u00ab\u00bb"
# Marks that are never part of a word: an end mark right before one may end the sentence, as in "(Stop!)" and "**Stop.**
# Go".
MARKS = rf""")";}}\]*:@'({{\[?!{CURLY_QUOTES}"""
EDGE = re.compile(rf"[\s{MARKS}]")
END_BEFORE_MARK = re.compile(rf"[.?!](?=[{MARKS}])")
LOUD_BEFORE_MARK = re.compile(rf"[?!](?=[{MARKS}])")
ENDING = re.compile(r"[.?!]\S*(?=(?:\s+(\S{1,16}))?)")  # the rest of a word, and the word after it
LONE_AT_START = "&#-,`"  # further marks that never start a word
CLOSING = "\"')]}" + CURLY_QUOTES
PUNCTUATION = ";:,.!?"
NUMBER = re.compile(r"-?[.,]?[0-9][0-9,.-]*\Z")
LONGEST_TOKEN = 16  # longer tokens are neither abbreviations nor in `STARTERS`


def count_sentences(text: str) -> int:
    """Count the sentences of a text: one if it has no end mark, as in a title, none if it is blank."""
    sentence_count, is_open = 0, bool(text) and not text.isspace()
    for match in ENDING.finditer(text):
        ending, next_word = match[0], match[1] or ""
        end = len(ending) if next_word and ending[-1] in ".?!" else _last_end(ending)
        if not end:
            continue
        before = text[max(0, match.start() - LONGEST_TOKEN) : match.start()]
        if _is_break(before, ending[:end], ending[end : end + 1] or next_word):
            sentence_count += 1
            is_open = bool(next_word or ending[end:].strip(CLOSING))
    return sentence_count + is_open


def _last_end(ending: str) -> int:
    """End of the last . ? or ! before another mark, where a sentence may end; 0 for none."""
    return max((match.end() for match in END_BEFORE_MARK.finditer(ending)), default=0)


def _is_break(before: str, ending: str, following: str) -> bool:
    """Whether a sentence ends here.

    before: text before the word's first . ? or !. ending: from there to the mark in question. following: the mark or
    word after that.
    """
    if ending[-1] != "." or (len(ending) > 1 and LOUD_BEFORE_MARK.search(ending)):
        return True
    if ending.endswith(".."):
        return _starts_sentence(following)
    token = (before + ending[-1 - LONGEST_TOKEN : -1]).rpartition(" ")[2]
    if not token.isalnum():
        token = EDGE.split(token)[-1].lstrip(LONE_AT_START)
    if token.lower().rpartition("-")[2] in ABBREVIATIONS:
        return _starts_sentence(following)
    if len(token) == 1 and token.isalpha():
        return not following[0].isalpha() or _starts_sentence(following)
    return not (NUMBER.match(token) and (following[0].islower() or following[0] in PUNCTUATION))


def _starts_sentence(following: str) -> bool:
    """Whether the word often starts a sentence, and is capitalised."""
    if not following[0].isupper():
        return False
    word = following.rstrip(".,")
    return (word if word.isalpha() else EDGE.split(word, maxsplit=1)[0]).lower() in STARTERS
