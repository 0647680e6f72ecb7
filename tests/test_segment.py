"""Words and sentences of raw text: tables of examples, then what must hold of any text at all."""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spanloom import segment
from spanloom.document import Span
from spanloom.errors import InputError
from spanloom.segment import MAX_CHARACTERS, MAX_WORDS, Segmenter

DATA = Path(__file__).parents[1].parent / "shared" / "data"


def words_of(text: str, segmenter: Segmenter | None = None) -> list[str]:
    return [word for sentence in sentences_of(text, segmenter) for word in sentence]


def sentences_of(text: str, segmenter: Segmenter | None = None) -> list[list[str]]:
    return [[text[start:end] for start, end in sentence] for sentence in (segmenter or Segmenter()).segment(text)]


def stretches_of(text: str) -> list[str]:
    """Each sentence from the first character of its first word to the last of its last."""
    return [text[sentence[0][0] : sentence[-1][1]] for sentence in Segmenter().segment(text)]


WORDS = {
    "hyphens and slashes split": ("IL-2 5-lipoxygenase axin/conductin", "IL - 2 5 - lipoxygenase axin / conductin"),
    "digits and letters stay": ("CD28 3beta H2O p53", "CD28 3beta H2O p53"),
    "numbers": ("3.5 1,000 10.2, 1,234.56; .5 5.", "3.5 1,000 10.2 , 1,234.56 ; . 5 5 ."),
    "a comma between letters": ("N,N-dimethyl", "N , N - dimethyl"),
    "brackets": ("((IL-2)) [x]{y}", "( ( IL - 2 ) ) [ x ] { y }"),
    "clitics": (
        "Parkinson's don't can't I'm we're it’s she'LL",
        "Parkinson 's do n't ca n't I 'm we 're it ’s she 'LL",
    ),
    "clitics of digits": ("the 1990's", "the 1990 's"),
    "names with an apostrophe": ("O'Brien Al-Qa'ida rock'n'roll п'ять", "O'Brien Al - Qa'ida rock'n'roll п'ять"),
    "elisions": ("l'eau d’Alembert qu'il dell'arte J'ai", "l' eau d’ Alembert qu' il dell' arte J' ai"),
    "primes and quotes": ("5'-end 3'UTR 'em 'quoted' dogs'", "5 ' - end 3 ' UTR ' em ' quoted ' dogs '"),
    "web addresses": (
        "http://t.co/a_b?c=1, (www.foo.org). HTTPS://X.Y/",
        "http://t.co/a_b?c=1 , ( www.foo.org ) . HTTPS://X.Y/",
    ),
    "mail addresses": ("to a.b+c@mail.example.org.", "to a.b+c@mail.example.org ."),
    "names and tags": ("@me_2 #NER #1 a@b C#", "@me_2 #NER # 1 a @ b C #"),
    "initials with inner stops": ("U.S. e.g., b.i.d. z.B. a.m.", "U.S. e.g. , b.i.d. z.B. a.m."),
    "other stops": ("Dr. Smith, E. coli, Fig.", "Dr . Smith , E . coli , Fig ."),
    "inner stops before more": ("p.o.x U.S.A", "p . o . x U . S . A"),
    "repeated characters": ("so... a -- b --- ==> ''x'' ?! !!!", "so ... a -- b --- == > '' x '' ? ! !!!"),
    "a charge and a hyphen": ("Cl--free", "Cl - - free"),
    "underscores": ("a_b _c_ __", "a _ b _ c _ __"),
    "emoji": ("👩‍👩‍👧‍👦👍🏽❤️😂😂", "👩‍👩‍👧‍👦 👍🏽 ❤️ 😂 😂"),
    "flags and keycaps": ("🇩🇪🇫🇷 1️⃣2️⃣#️⃣", "🇩🇪 🇫🇷 1️⃣ 2️⃣ #️⃣"),
    "Han and kana": ("日本語のテスト, データ", "日 本 語 の テ ス ト , デ ー タ"),
    "Han beside Latin": ("用IL-2治", "用 IL - 2 治"),
    "Hangul": ("한국어 조사를", "한국어 조사를"),
    "Thai": ("ภาษาไทย ง่าย", "ภาษาไทย ง่าย"),
    "zero-width blanks in Thai separate": ("ภาษา\u200bไทย", "ภาษา ไทย"),
    "Devanagari": ("क्षत्रिय हिन्दी", "क्षत्रिय हिन्दी"),
    "Persian": ("می\u200cخواهم", "می\u200cخواهم"),
    "Arabic": ("السَّلامُ عليكم", "السَّلامُ عليكم"),
    "soft hyphens and zero-width blanks inside": ("so\u00adft foo\u200bbar", "so\u00adft foo\u200bbar"),
    "bare invisible characters": ("\ufeffa \u200b b\u0000c\u200b \u00ad", "a b c"),
    "decomposed letters": ("e\u0301te\u0301 caf\u0065\u0301", "e\u0301te\u0301 cafe\u0301"),
    "marks on symbols, and alone": ("!\u0301a \u0301 -\u0338", "!\u0301 a \u0301 -\u0338"),
    "unusual blanks": ("10\u00a0mg a\u202fb\u2007c\u3000d\u2009e", "10 mg a b c d e"),
    "private and lone characters": ("a\ue000b \ud800", "a \ue000 b \ud800"),
    "nothing visible": (" \n\t\u200b\u0000 ", ""),
}


@pytest.mark.parametrize("name", WORDS)
def test_words(name: str) -> None:
    text, expected = WORDS[name]
    assert words_of(text) == expected.split(" " if expected else None)


# A border is a "|" in the text, which is taken out before the text is segmented.
SENTENCES = {
    "plain": "It works. |Does it? |Yes! |Good",
    "titles and figures": "Dr. Smith saw Fig. 3 and Figs. S1, vs. Table 2. |Prof. Y left.",
    "et al.": "Shown by Smith et al. (2019) and Jones et al. Blood 9:1. |Next (Smith et al. 2019) came.",
    "introducing abbreviations": "Some, e.g. Berlin, i.e. Germany, approx. 3. |New",
    "initials": "J. R. Smith met A. Jones. |E. coli grew.",
    "letters that are names": "He has hepatitis C. |Patients with vitamin B. |NF-kappa B. |After 24 h. |Oct-2 rose.",
    "U.S.": "The U.S. Army left the U.S. |The end. |At 3 p.m. |He slept.",
    "companies": "Google Inc. Chairman X. Y. Z sold Apple Inc. |The end.",
    "numbers after abbreviations": "See No. 5, vol. 3 and Nr. 7. |Is that a no. |Yes.",
    "decimals": "It was 3.5 mg. |Then 0.05 ml. |Done",
    "decimals of words joined by blanks": "It was 3 . 5 mg . |Then",
    "clinical": "Take 5 mg p.o. b.i.d. for pain. |Pt. denies it. |Hx. of MI.",
    "citations": "As shown. [12] |Next one. [1, 3-5] |More cells.12 |Next cells.¹² |End",
    "quotes and brackets": 'He said "Go!" |She left. |(It rained.) |„Ja.“ |Er ging. |’Tis.',
    "questions go on in lower case": '"What?" he asked. |"Yes! yes!" he said.',
    "ellipses": "Well... |Then… |Now ... and then",
    "several marks": "What?! |No!! |Oh",
    "lower case may begin": "It fell. |p53 rose. |mRNA too. |Its cells. not",
    "punctuation goes on": "Apples, etc. , and more. |Bye",
    "list numbers": "1. Take it. |2. Leave it.",
    "German": "Am 3. Oktober, z.B. im 19. Jahrhundert usw. bzw. der 2. Weltkrieg. |Er kam um 5. |Das war's.",
    "spaced German abbreviations": "Er las z. B. Bücher, d. h. Romane. |Ja.",
    "Chinese": "你好。|我很好！|真的？|“是。”|完",
    "Japanese": "「はい。」|次の文です。|終わり",
    "Hindi and Urdu": "यह है। |वह है॥ |کیا؟ |ہاں۔ |بس",
    "empty lines": "One\n\n|two\n \t\n|three\r\n\r\n|four",
    "wrapped prose": (
        "The patient was admitted with a pulmonary and renal syndrome from the\n"
        "Hospital of Saint Mary and stayed there for a number of long weeks in\n"
        "all. |He left."
    ),
    "a break before lower case": "It goes\non and\r\non, and\ron",
    "headings": "Introduction\n|The quick brown fox jumps over the lazy dog and over all the others.",
    "list items": "We need\n|- Bread\n|- wine\n|1) a\n|2. b\n|• c",
    "labels": "A quiet night without any further events or any complaints at all\n|History: none\n|Plan: go",
    "after a colon": "Findings:\n|no change",
    "short lines": "BP 120/80\n|HR 72\n|Temp 37",
    "all line breaks": "A\u2028|B\u2029|C\x0c|D\x0b|E\x85|F\r|G",
    "a wrapped abbreviation": "After a very long introduction it was then shown by Dr.\nSmith.",
}


@pytest.mark.parametrize("name", SENTENCES)
def test_sentences(name: str) -> None:
    pieces = SENTENCES[name].split("|")
    assert stretches_of("".join(pieces)) == [piece.strip() for piece in pieces]


def test_offsets_run_over_the_text() -> None:
    assert Segmenter().segment(" Go on.\nNo") == (((1, 3), (4, 6), (6, 7)), ((8, 10),))


def test_blanks_takes_words_as_they_stand() -> None:
    text = "IL-2 ,\u00a0(don't)\u3000e.g. \u200b\tx\x1fy"
    assert words_of(text, Segmenter(words="blanks")) == text.split()


def test_lines_takes_every_line_that_has_words() -> None:
    text = "One. Two\nthree\n\n \u200b\r\nfour: a\u2028b"
    lines = Segmenter(sentences="lines")
    assert sentences_of(text, lines) == [["One", ".", "Two"], ["three"], ["four", ":", "a"], ["b"]]


def test_no_text_no_sentences() -> None:
    for words in ("unicode", "blanks"):
        for sentences in ("rules", "lines"):
            segmenter = Segmenter(words, sentences)  # type: ignore[arg-type]
            assert segmenter.segment("") == segmenter.segment(" \n\n ") == tuple(segmenter.stream([])) == ()


def test_a_sentence_without_end_breaks_at_a_blank() -> None:
    sizes = [len(sentence) for sentence in Segmenter().segment("a " * 1300)]
    assert sizes == [MAX_WORDS, MAX_WORDS, 1300 - 2 * MAX_WORDS]
    text = "b " * 400 + "x-" * 200 + "x " + "c " * 300
    first, second, _ = Segmenter().segment(text)
    assert len(first) == 400
    assert text[slice(*second[0])] == "x"
    unbroken = [len(sentence) for sentence in Segmenter().segment("x-" * 600)]
    assert unbroken == [MAX_WORDS, MAX_WORDS, 1200 - 2 * MAX_WORDS]


def test_an_enormous_word_is_cut() -> None:
    for segmenter in (Segmenter(), Segmenter("blanks")):
        spans = [span for sentence in segmenter.segment("a" * 4500) for span in sentence]
        assert [end - start for start, end in spans] == [MAX_CHARACTERS] * 4 + [500]
    accented = "e\u0301" * 4000
    assert all(accented[start] == "e" for sentence in Segmenter().segment(accented) for start, _ in sentence)


def test_options_survive_a_round_trip() -> None:
    segmenter = Segmenter("blanks", "lines")
    assert segmenter.to_dict() == {"words": "blanks", "sentences": "lines"}
    assert Segmenter.from_dict(segmenter.to_dict()) == segmenter
    assert Segmenter.from_dict({}) == Segmenter()


@pytest.mark.parametrize("options", [{"words": "spaces"}, {"sentences": None}, {"words": ["unicode"]}])
def test_wrong_values_name_the_valid_ones(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"valid are (unicode, blanks|rules, lines)$"):
        Segmenter.from_dict(options)
    with pytest.raises(InputError):
        Segmenter(**options)  # type: ignore[arg-type]


def test_unknown_options_name_the_valid_ones() -> None:
    with pytest.raises(InputError, match="'sentence'; valid are words, sentences"):
        Segmenter.from_dict({"sentence": "rules"})


def test_importing_compiles_nothing() -> None:
    program = "import sys, spanloom.segment; sys.exit('regex' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# ---- any text at all

VISIBLE = regex.compile(r"[^\s\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]")
MARK = regex.compile(r"\p{M}")
LEGIBLE = """. . ! ? … 。 ॥ ؟ , ; : ' ’ " ” ( ) [ ] - – / _ @ # * & % 1 2 12 3.5 a b X I The In he p53 mRNA
    Dr. Fig. e.g. U.S. et al. Inc. J. no. mg. Smith cells don't O'Brien l'eau 's n't http:// www.x.org a@b.org
    日 本 カ ー 한 ไ ท क ् ष می ه é ß ﬁ 👍 🏽 👩 🇩 🇫 ❤ © 1️⃣ Ⅷ ² ₂ 12] [12]"""
BLANKS = [" ", " ", " ", "  ", "\n", "\n\n", "\r\n", "\r", "\t", "\u2028", "\x0c", "\u00a0", "\u3000", "\x1c"]
COMBINING = ["\u0301", "\u0327", "\u200c", "\u200d", "\ufe0f", "\u20e3"]
INVISIBLE = ["\u200b", "\u00ad", "\ufeff", "\u202e", "\x00", "\ud800"]
FRAGMENTS = [*LEGIBLE.split(), *BLANKS, *COMBINING, *INVISIBLE]
TEXTS = st.one_of(
    st.text(),
    st.lists(st.sampled_from(FRAGMENTS), max_size=60).map("".join),
    st.lists(st.sampled_from(FRAGMENTS), max_size=40).map(" ".join),
)
SEGMENTERS = st.builds(Segmenter, st.sampled_from(["unicode", "blanks"]), st.sampled_from(["rules", "lines"]))


@settings(deadline=None, max_examples=200)
@given(TEXTS, SEGMENTERS)
def test_words_ascend_and_hold_no_blank(text: str, segmenter: Segmenter) -> None:
    at = 0
    for sentence in segmenter.segment(text):
        assert sentence
        for start, end in sentence:
            assert at <= start < end <= len(text)
            assert not any(character.isspace() for character in text[start:end])
            at = end


@settings(deadline=None, max_examples=300)
@given(TEXTS)
@example("1️⃣2️⃣ #️⃣\u0301 ©\u0301 a'\u0301b http://x.\u0301y @a\u0301 #a\u0301 U.S.\u0301 don't\u0301")
def test_nothing_visible_is_lost_and_no_mark_leaves_its_base(text: str) -> None:
    word_at: dict[int, int] = {}
    for sentence in Segmenter().segment(text):
        for start, end in sentence:
            assert VISIBLE.search(text, start, end)
            word_at.update(dict.fromkeys(range(start, end), start))
    for at, character in enumerate(text):
        if VISIBLE.match(character):
            assert at in word_at
        if at and MARK.match(character) and VISIBLE.match(text[at - 1]):
            assert word_at.get(at) == word_at[at - 1]


@settings(deadline=None, max_examples=100)
@given(TEXTS)
def test_blanks_equals_split(text: str) -> None:
    assert words_of(text, Segmenter("blanks")) == text.split()


def long_text(draw: random.Random) -> str:
    """Fragments in disorder, some at a length that meets the limits."""
    parts = []
    for _ in range(draw.randrange(200, 1500)):
        parts.append(draw.choice(FRAGMENTS))
        if draw.random() < 0.5:
            parts.append(" ")
        if draw.random() < 0.004:
            lengthy = draw.choice(
                ["a", "e\u0301", "\u0301", " ", "\n", ".", "-", "1,", "x ", "a.", "日", "\u200b", "!\u200b"]
            )
            parts.append(lengthy * draw.choice([200, 600, 1100, 3000]))
    return "".join(parts)


def chunks_of(text: str, draw: random.Random) -> Iterator[str]:
    at, largest = 0, draw.choice([1, 7, 300, 5000])
    while at < len(text):
        size = draw.randint(0, largest)
        yield text[at : at + size]
        at += size


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), SEGMENTERS)
def test_streaming_equals_segmenting(seed: int, segmenter: Segmenter) -> None:
    draw = random.Random(seed)
    text = long_text(draw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "WINDOW", draw.choice([1, 50, 1000, 4000]))
        assert tuple(segmenter.stream(chunks_of(text, draw))) == segmenter.segment(text)


@pytest.mark.parametrize("size", [1, 1000, 10**9])
def test_streaming_real_windows(size: int) -> None:
    text = ("Dr. Smith took 3.5 mg. The U.S. Army\r\nleft. " * 40 + "\n\n") * 100
    chunks = (text[at : at + size] for at in range(0, len(text), size))
    assert tuple(Segmenter().stream(chunks)) == Segmenter().segment(text)


# ---- bounded time, bounded memory

LEGIBLE_UNITS = """a a. ( ' @ # 1, 1. http: http://) www. - _ a@ a@b. a- . ? ." n't l' 's 🇩 1️⃣ #a .[1, abc.1, 日 。 a'b
    a.b@ 1.a U.S. a+ ((. ['" .) a' ''"""
BLANK_UNITS = [". ", "\n", " ", "a\n", "A: ", "[1] ", "Dr. ", "J. ", "1. A ", "\r", "( ", ' "', "\n ", "\r\n"]
INVISIBLE_UNITS = ["\u0301", "e\u0301", "\u200b", "a\u200b", "👩\u200d", "\ud800", "ไ\u200b", "x" * 999 + "\u0301"]


def seconds(text: str) -> float:
    start = time.process_time()
    Segmenter().segment(text)
    return time.process_time() - start


@pytest.mark.parametrize(
    "unit", [*LEGIBLE_UNITS.split(), *BLANK_UNITS, *INVISIBLE_UNITS], ids=lambda unit: ascii(unit)[:20]
)
def test_time_is_linear(unit: str) -> None:
    short, long = unit * (12_000 // len(unit)), unit * (48_000 // len(unit))
    ratios = []
    while not ratios or (ratios[-1] > 12 and len(ratios) < 4):  # a busy machine may spoil one measurement
        ratios.append(seconds(long) / max(seconds(short), 1e-3))
    assert ratios[-1] <= 12, "4 times the text takes far more than 4 times the time"


def spy_on_buffer(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all that `stream` ever holds at once."""
    sizes: list[int] = []
    find = Segmenter._sentences

    def spy(self: Segmenter, text: str, begin: int, certain: int | None) -> Iterator[tuple[Span, ...]]:
        sizes.append(len(text))
        return find(self, text, begin, certain)

    monkeypatch.setattr(Segmenter, "_sentences", spy)
    return sizes


def test_streaming_holds_little(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = spy_on_buffer(monkeypatch)
    chunk = "Considerable quantities of intravenous methylprednisolone were administered afterwards. " * 1000
    count = sum(1 for _ in Segmenter("blanks").stream(chunk for _ in range(230)))
    assert count == 230_000
    assert 230 * len(chunk) > 20_000_000
    assert max(sizes) < 200_000


@pytest.mark.parametrize("unit", ["a", "word ", " ", "\n", "\u200b", "a-", "word word\n"])
def test_streaming_holds_little_of_odd_text(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = spy_on_buffer(monkeypatch)
    for sentence in Segmenter().stream(unit * (7000 // len(unit)) for _ in range(60)):
        assert len(sentence) <= MAX_WORDS
    assert max(sizes) <= 2 * MAX_WORDS * MAX_CHARACTERS + 200_000


def test_single_characters_stream_in_linear_time() -> None:
    start = time.process_time()
    assert sum(map(len, Segmenter().stream("a" for _ in range(1_000_000)))) == 1000
    assert time.process_time() - start < 3


def test_streaming_does_not_wait_for_the_end() -> None:
    def endless() -> Iterator[str]:
        while True:
            yield "It goes on and on. "

    stream = Segmenter().stream(endless())
    assert [next(stream)[0] for _ in range(3)] == [(0, 2), (19, 21), (38, 40)]


# ---- real text


def untokenised(words: list[str]) -> str:
    """Words as people would have typed them, more or less."""
    text = re.sub(r"(\d) ([.,]) (\d)", r"\1\2\3", " ".join(words))
    text = re.sub(r" ([.,;:!?)\]}%])", r"\1", text)
    return re.sub(r" ([-/–]) ", r"\1", re.sub(r"([(\[{]) ", r"\1", text))


def test_sentence_borders_of_real_articles() -> None:
    path = DATA / "craft" / "dev.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    articles: dict[str, list[str]] = defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            articles[row["doc"]].append(untokenised(row["tokens"]))
    found = gold = correct = 0
    for sentences in articles.values():
        text, borders = "", set()
        for sentence in sentences:  # running text, but for headings and the like: they have lines of their own
            text += "" if not text else " " if text[-1] in ".!?" else "\n"
            borders.add(len(text))
            text += sentence
        guessed = {sentence[0][0] for sentence in Segmenter().segment(text)}
        found, gold, correct = found + len(guessed), gold + len(borders), correct + len(guessed & borders)
    f1 = 2 * correct / (found + gold)
    print(f"\nsentence borders of craft dev: F1 {100 * f1:.2f}")
    assert f1 > 0.97


@pytest.mark.parametrize("corpus", ["craft", "bc5cdr", "genia", "ncbi_disease"])
def test_words_are_no_coarser_than_entities(corpus: str) -> None:
    """Untokenised, nearly every entity still begins and ends at a border of our words."""
    path = DATA / corpus / "dev.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    borders = kept = 0
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            text, starts, ends = "", [], []
            for word in row["tokens"]:  # no blank around hyphens and slashes, as in the articles
                text += "" if not text or word in "-/" or text[-1] in "-/" else " "
                starts.append(len(text))
                text += word
                ends.append(len(text))
            spans = [span for sentence in Segmenter().segment(text) for span in sentence]
            ours = {start for start, _ in spans}, {end for _, end in spans}
            for entity in row["entities"]:
                borders += 2
                kept += (starts[entity["indices"][0]] in ours[0]) + (ends[entity["indices"][-1]] in ours[1])
    assert kept / borders > 0.995
