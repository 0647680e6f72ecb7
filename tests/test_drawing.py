import re
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from spanloom import drawing, terminal
from spanloom.document import Document, Entity
from spanloom.drawing import ASCII, BOX, draw

SGR = re.compile(r"\x1b\[(?:38;5;\d+|39)m")


def document(text, *entities):
    """A document whose entities are given as (type, fragment, ...), each fragment found after the one before."""
    found = []
    for type, *fragments in entities:
        spans, at = [], 0
        for fragment in fragments:
            start = text.index(fragment, at)
            at = start + len(fragment)
            spans.append((start, at))
        found.append(Entity(type, tuple(spans)))
    return Document("1", text, tuple(found))


def picture(drawn):
    """What a test expects, each row behind a bar."""
    return "\n".join(line.partition("|")[2] for line in drawn.split("\n") if "|" in line)


KNEE = "Severe pain in the left knee and hip was reported by Dr. Marlow ."
INHIBITION = "The inhibition of protein kinase C pathways by tumour necrosis factor was seen ."

CASES = {
    "text alone": (document("No entity\n\nat all.  "), 80, "|No entity\n|\n|at all."),
    "flat": (
        document("Marlow moved from Paris to Rome .", ("Person", "Marlow"), ("Place", "Paris"), ("Place", "Rome")),
        80,
        """
        |Marlow moved from Paris to Rome .
        |╰────╯ Person              ╰──╯ Place
        |                  ╰───╯ Place
        """,
    ),
    "side by side": (
        document(
            "University of Bergen , Norwegian Academy", ("Org", "University of Bergen"), ("Org", "Norwegian Academy")
        ),
        80,
        """
        |University of Bergen , Norwegian Academy
        |╰─ Org ────────────╯   ╰───────────────╯ Org
        """,
    ),
    "nested three deep": (
        document(
            "the University of Bavaria hospital garden",
            ("Place", "Bavaria"),
            ("Org", "University of Bavaria"),
            ("Org", "University of Bavaria hospital"),
            ("Place", "the University of Bavaria hospital garden"),
        ),
        80,
        """
        |the University of Bavaria hospital garden
        |                  ╰─────╯ Place
        |    ╰───────────────────╯ Org
        |    ╰────────────────────────────╯ Org
        |╰───────────────────────────────────────╯ Place
        """,
    ),
    "overlapping": (
        document("acute renal failure syndrome", ("A", "acute renal failure"), ("B", "renal failure syndrome")),
        80,
        """
        |acute renal failure syndrome
        |╰─────────────────╯ A
        |      ╰────────────────────╯ B
        """,
    ),
    "discontinuous": (
        document(
            KNEE, ("Finding", "pain in the left", "hip"), ("Finding", "pain in the left knee"), ("Person", "Dr. Marlow")
        ),
        80,
        """
        |Severe pain in the left knee and hip was reported by Dr. Marlow .
        |       ╰───────────────────╯ Finding                 ╰────────╯ Person
        |       ╰──────────────╯╌╌╌╌╌╌╌╌╌╌╰─╯ Finding
        """,
    ),
    "three fragments, one of them a letter": (
        document("a drug for arms or b or legs", ("Drug", "drug", "b", "legs")),
        80,
        """
        |a drug for arms or b or legs
        |  ╰──╯╌╌╌╌╌╌╌╌╌╌╌╌╌┴╌╌╌╌╰──╯ Drug
        """,
    ),
    "fragments that touch": (
        document("leftright", ("Side", "left", "right")),
        80,
        """
        |leftright
        |╰───────╯ Side
        """,
    ),
    "one letter": (
        document("I , too", ("Person", "I"), ("Mark", ",")),
        80,
        """
        |I , too
        |┴ Person
        |  ┴ Mark
        """,
    ),
    "two types on one span": (
        document("Washington said no", ("Place", "Washington"), ("Person", "Washington")),
        80,
        """
        |Washington said no
        |╰────────╯ Person
        |╰────────╯ Place
        """,
    ),
    "over several rows": (
        document(INHIBITION, ("Process", "inhibition of protein kinase C pathways by tumour necrosis factor")),
        30,
        """
        |The inhibition of protein
        |    ╰─ Process ──────────
        |
        |kinase C pathways by tumour
        |─ Process ─────────────────
        |
        |necrosis factor was seen .
        |──────────────╯ Process
        """,
    ),
    "a gap over several rows": (
        document(INHIBITION, ("Process", "inhibition", "factor")),
        30,
        """
        |The inhibition of protein
        |    ╰────────╯╌╌╌╌╌╌╌╌╌╌›
        |    Process
        |
        |kinase C pathways by tumour
        |‹╌ Process ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌›
        |
        |necrosis factor was seen .
        |‹╌╌╌╌╌╌╌╌╰────╯ Process
        """,
    ),
    "a gap at the very border": (
        document("twenty letters a row in two rows", ("Way", "letters", "in")),
        21,
        """
        |twenty letters a row
        |       ╰ Way ╯╌╌╌╌╌›
        |
        |in two rows
        |‹╯ Way
        """,
    ),
    "told apart by number": (
        document(INHIBITION, ("X", "inhibition", "kinase C"), ("X", "protein kinase"), ("Y", "of", "C"), ("X", "seen")),
        30,
        """
        |The inhibition of protein
        |                  ╰ X#2 ─
        |               ╰╯╌ Y ╌╌╌›
        |    ╰─ X#1 ──╯╌╌╌╌╌╌╌╌╌╌›
        |
        |kinase C pathways by tumour
        |─────╯ X#2
        |‹╌╌╌╌╌╌┴ Y
        |‹──────╯ X#1
        |
        |necrosis factor was seen .
        |                    ╰──╯ X
        """,
    ),
    "chinese": (
        document(
            "患者张三于北京大学第三医院就诊，主诉左膝疼痛三天。",
            ("人名", "张三"),
            ("机构", "北京大学第三医院"),
            ("地名", "北京"),
            ("症状", "左", "疼痛"),
        ),
        40,
        """
        |患者张三于北京大学第三医院就诊，主诉左膝
        |    ╰──╯ 人名                  症状 ╰╯╌›
        |          ╰──╯ 地名
        |          ╰──────────────╯ 机构
        |
        |疼痛三天。
        |‹──╯ 症状
        """,
    ),
    "combining marks": (
        document(
            "Cafe\u0301 Mu\u0308ller in Ko\u0308ln",
            ("Org", "Cafe\u0301 Mu\u0308ller"),
            ("Place", "Ko\u0308ln"),
            ("Mark", "\u0308"),
        ),
        80,
        """
        |Café Müller in Köln
        |      ┴ Mark   ╰──╯ Place
        |╰─────────╯ Org
        """,
    ),
    "emoji": (
        document("ok \u2764\ufe0f and \U0001f600 too", ("Heart", "\u2764\ufe0f"), ("Face", "\U0001f600")),
        80,
        """
        |ok ❤ and 😀 too
        |         ╰╯ Face
        |   ┴ Heart
        """,
    ),
    "no room beside the bracket": (
        document("ab cd", ("Very long type name", "ab"), ("Much too long a name for it", "ab cd")),
        20,
        """
        |ab cd
        |╰╯
        |Very long type name
        |╰───╯
        |Much too long a nam…
        """,
    ),
    "a long word": (
        document("x" * 50, ("Code", "x" * 45)),
        20,
        """
        |xxxxxxxxxxxxxxxxxxxx
        |╰─ Code ────────────
        |
        |xxxxxxxxxxxxxxxxxxxx
        |─ Code ─────────────
        |
        |xxxxxxxxxx
        |────╯ Code
        """,
    ),
    "escape sequences": (
        document("a\x1b[31m red\x1b[0m\tz\r\nnext \u202eevil\u200b", ("T\x1b[2J\n!", "red"), ("", "evil")),
        80,
        """
        |a�[31m red�[0m z
        |       ╰─╯ T�[2J !
        |
        |next �evil�
        |      ╰──╯ �
        """,
    ),
    "line breaks": (
        document("left knee\n\npain\n", ("Finding", "knee\n\npain"), ("Break", "\n\n")),
        80,
        """
        |left knee
        |         ┴ Break
        |     ╰─── Finding
        |
        |pain
        |───╯ Finding
        """,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_drawings(name):
    doc, width, expected = CASES[name]
    assert draw(doc, width) == picture(expected)


def test_ascii():
    doc = document(
        KNEE + " I .", ("Finding", "pain in the left", "hip"), ("Place", "left knee"), ("Person", "I"), ("Fact", KNEE)
    )
    drawn = draw(doc, 40, unicode=False)
    assert drawn == picture(
        r"""
        |Severe pain in the left knee and hip was
        |                   \_______/ Place
        |       \_ Finding ____/..........\_/
        |\_ Fact ________________________________
        |
        |reported by Dr. Marlow . I .
        |_ Fact ________________/ | Person
        """
    )
    assert drawn.isascii()
    assert draw(document("a\x07b"), unicode=False) == "a?b"


def test_scores():
    text = "Marlow went to Paris on Monday in a very old long train"
    spans = {"Person": (0, 6, 0.926), "Place": (15, 20, 1.0), "Date": (24, 30, 0.0), "Trip": (0, 55, 0.5)}
    doc = Document(
        "1", text, tuple(Entity(type, ((start, end),), score) for type, (start, end, score) in spans.items())
    )
    assert draw(doc, 40) == picture(
        """
        |Marlow went to Paris on Monday in a very
        |               ╰───╯ Place 1.00
        |╰────╯ Person .93       ╰────╯ Date .00
        |╰─ Trip .50 ────────────────────────────
        |
        |old long train
        |─────────────╯ Trip
        """
    )


def test_empty():
    assert draw(Document("1", "")) == "(empty)"


def test_the_blanks_at_which_a_row_was_wrapped_can_be_an_entity():
    text = "x" * 20 + "   " + "y" * 5
    doc = Document("1", text, (Entity("Blank", ((20, 22),)),))
    assert draw(doc, 20) == picture(
        """
        |xxxxxxxxxxxxxxxxxxxx
        |             Blank ┴
        |
        |yyyyy
        """
    )


def test_brackets_of_one_lane_keep_their_labels_apart():
    words = "aa bb cc dd ee ff gg hh"
    drawn = draw(document(words, *[("Type", word) for word in words.split()]))
    for lane in drawn.split("\n")[1:]:
        assert not re.search(r"Type {0,1}\S", lane)


def test_text_is_coloured_by_its_innermost_entity():
    doc = document("the University of Bavaria", ("Place", "Bavaria"), ("Org", "University of Bavaria"))
    colours = terminal.colours_of(["Place", "Org"])
    place, org = (f"\x1b[38;5;{colours[type]}m" for type in ("Place", "Org"))
    first, *lanes = draw(doc, colour=True).split("\n")
    assert first == f"the {org}University of \x1b[39m{place}Bavaria\x1b[39m"
    assert lanes[0].strip() == f"{place}╰─────╯ Place\x1b[39m"
    assert lanes[1].strip() == f"{org}╰───────────────────╯ Org\x1b[39m"


def test_a_type_keeps_its_colour(monkeypatch):
    monkeypatch.setattr(terminal, "given", {})
    types = [f"type{n}" for n in range(len(terminal.PALETTE))]
    colours = terminal.colours_of(reversed(types))
    assert len(set(colours.values())) == len(types)
    more = terminal.colours_of(["another", *types])
    assert colours.items() <= more.items()
    assert more["another"] == terminal.colours_of(["another"])["another"]
    assert len(terminal.given) == len(types)


def contrast(colour, ground):
    """WCAG contrast of a colour of the 256-colour cube with black (0) or white (1)."""
    red, green, blue = ((0, 95, 135, 175, 215, 255)[(colour - 16) // step % 6] / 255 for step in (36, 6, 1))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (red, green, blue)]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return (max(luminance, ground) + 0.05) / (min(luminance, ground) + 0.05)


@pytest.mark.parametrize("colour", terminal.PALETTE)
def test_colours_can_be_read_on_black_and_on_white(colour):
    assert contrast(colour, 0) > 3.3
    assert contrast(colour, 1) > 3.3


# No Z in the text: a type's name is found in its lanes alone.
TEXTS = st.text(
    st.sampled_from("abcdef      \n\t患者\u0301\ufe0f\u200d\u202e\x1b\x9b\r😀\xad\ud800\u1160\u3164\u2028 é"),
    max_size=150,
)


@st.composite
def documents(draw_from):
    text = draw_from(TEXTS)
    entities = []
    for _ in range(draw_from(st.integers(0, 8)) if len(text) > 1 else 0):
        cuts = draw_from(st.sets(st.integers(0, len(text)), min_size=2, max_size=6))
        cuts = sorted(cuts)[: len(cuts) // 2 * 2]
        type = draw_from(st.sampled_from(["Zig", "Zoo\x1b[1m", "Z患者 Z"]))
        score = draw_from(st.none() | st.floats(0, 1))
        entities.append(Entity(type, tuple(zip(cuts[::2], cuts[1::2], strict=True)), score))
    return Document("1", text, tuple(entities))


@given(documents(), st.integers(20, 60), st.booleans(), st.booleans())
def test_rows_are_safe_and_narrow_and_name_every_entity(doc, width, colour, unicode):
    drawn = draw(doc, width, colour, unicode)
    plain = SGR.sub("", drawn) if colour else drawn
    assert plain == draw(doc, width, False, unicode)
    assert not any(unicodedata.category(character)[0] == "C" for character in plain.replace("\n", ""))
    assert "\u2028" not in plain
    assert all(cell_len(row) <= width for row in plain.split("\n"))
    for entity in doc.entities:
        same = [other for other in doc.entities if other.type == entity.type]
        name = drawing.label_of(entity.type, BOX if unicode else ASCII)
        assert plain.count(name) >= len(same)


@given(documents(), st.integers(20, 60))
def test_nothing_in_a_lane_lies_upon_another_and_every_part_has_its_marks(doc, width):
    rows = terminal.wrap(terminal.printable(doc.text), width)
    for number, strokes in drawing.trace(doc.entities, rows, width, BOX).items():
        lanes = drawing.pack(sorted(strokes, key=lambda stroke: stroke.order), width, BOX)
        for lane in lanes:
            pieces = sorted(lane.pieces)
            for (column, piece, _), (following, _, _) in pairwise(pieces):
                assert column + cell_len(piece) <= following
        for stroke in strokes:
            for part in stroke.parts:
                low, high = (column - stroke.column for column in (part.left, part.right))
                marks = stroke.bracket[low:high]
                assert len(marks) == part.right - part.left > 0
                assert BOX.dots not in marks
        characters = "".join(
            doc.text[start:end] for stroke in strokes for part in stroke.parts for start, end in [part.characters]
        )
        assert rows[number].width or not characters.strip("\u0301\ufe0f\u1160")


@given(TEXTS, st.integers(20, 60))
def test_wrapping_loses_nothing_but_blanks(text, width):
    shown = terminal.printable(text)
    assert len(shown) == len(text)
    rows = terminal.wrap(shown, width)
    assert "".join(shown[row.start : row.end] for row in rows).replace(" ", "") == re.sub("[ \n]", "", shown)
    assert [row.start for row in rows] == sorted({row.start for row in rows})
    assert all(
        row.width == cell_len(shown[row.start : row.end].translate(terminal.VARIATION_SELECTORS)) for row in rows
    )


def test_large_documents_are_drawn_in_seconds():
    text = "word " * 200_000
    entities = tuple(Entity("Type", ((50 * n, 50 * n + 9), (50 * n + 20, 50 * n + 24))) for n in range(20_000))
    drawn = draw(Document("1", text, entities))
    assert drawn.count("Type") >= 20_000
