"""Raw text to sentences and words, with exact character offsets.

Words ("unicode") are runs of letters, digits and their marks; every other visible character is a word
of its own, so that an annotation may begin and end at any hyphen, slash or bracket: IL - 2, 5 - lipoxygenase.
What stays together, and what does not:

- A stop or comma between two digits (3.5, 1,000), an apostrophe between two letters (O'Brien), invisible
  characters inside a word (soft hyphen, zero-width blank; in Thai, Lao, Khmer and Burmese the latter separates).
- English clitics come off (Parkinson 's, do n't) and so do French and Italian elisions (l' eau, dell' arte).
- Initials with inner stops keep all their stops (U.S., e.g., b.i.d.); any other stop is a word (Dr . Smith, E . coli).
- Web and mail addresses, @names and #tags are one word, and so is an emoji with all that modifies it.
- Han, Hiragana and Katakana: one word a character. Thai and its like: what blanks and punctuation separate.
- A repeated stop, dash or quote is one word (..., ---, ''), but two hyphens in a word (Cl--free) and brackets are not.

Invisible characters (controls, zero-width) between words belong to no word; every other character that is
not a blank is in exactly one. "blanks" takes the words as `str.split` finds them.

Sentences ("rules") end

- after . ! ? or an ellipsis, with the quotes, brackets and numeric citations that follow, when a blank comes
  next and the text does not go on in lower case (p53 and mRNA may begin a sentence) or with punctuation. A stop
  after a title or an abbreviation that introduces something (Dr., Fig., e.g.) ends nothing; after initials and
  abbreviations that may come last (J., U.S., Inc., et al.) it ends the sentence before a word like The or In,
  and a single letter is no initial after hepatitis or a number; before a number, No., vol. and mg. go on, as do
  list numbers (1. Take), German ordinals (3. Oktober) and decimals of words joined by blanks (3 . 5);
- after a stop of a script that needs no blank (。！？؟।) and what closes behind it;
- at an empty line;
- at a single line break, unless the line is wrapped prose. It is when the next line goes on in lower case or this
  one ends in a comma; or when this one has 40 to 120 characters and had no room for the next line's first
  word (the next line being no longer). It never is after a colon, or before a list item or a label (History:).

"lines" makes every line a sentence. Each decision looks at no more than 256 characters to either side, a word
has at most 1,000 characters and a sentence at most 512 words (then it breaks, at a blank if one is near).
So time is linear whatever the text, and `stream` gives what `segment` gives from a small buffer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal, get_args

from spanloom.document import Span
from spanloom.errors import InputError

Words = Literal["unicode", "blanks"]
Sentences = Literal["rules", "lines"]

MAX_WORDS = 512
"""A sentence has no more words than this."""
MAX_CHARACTERS = 1000
"""A word has no more characters than this; the patterns below spell it out."""
REACH = 256
"""How far a decision about a sentence border looks, to either side."""
TAIL = 2 * MAX_CHARACTERS
"""What begins this far from the end of what is known so far can no longer change."""
WINDOW = 1 << 16
"""How many characters `stream` gathers before it looks at them."""


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


INTRODUCES = _listed(
    """dr drs mr mrs ms prof rev hon gen col capt lt sgt sen rep gov pres mt messrs mme mlle sra dipl ing
    fig figs eq eqs viz vs cf ca approx resp vgl bzw evtl ggf sog inkl incl e.g i.e z.b d.h s.o s.u proc natl acad"""
)
"""What stands before these stops always goes on."""
MAY_END = _listed(
    """etc inc ltd corp co jr sr st ft al dept univ ed eds est sp spp subsp var ave blvd rd str usw tel ph.d m.sc
    b.sc ph.ds hx dx tx rx sx fx jan feb mar apr jun jul aug sep sept oct nov dec okt dez gmbh bros assn mio mrd mil"""
)
"""These may come last, and do so before one of STARTERS. So may initials."""
BEFORE_NUMBERS = _listed(
    """no nos nr vol vols p pp ch chap sec sect art abb abs abt tab ref refs ex suppl ver pt pts mg mcg ml dl cm mm kg
    hr hrs min wk wks yr yrs mo jan feb mar apr jun jul aug sep sept oct nov dec okt dez st kap bd"""
)
"""A number after these goes on."""
STARTERS = _listed(
    """the a an this these that those it its he she they we you his her their our there in on at to for from by with
    as after before during when while where if although however moreover furthermore thus therefore here both all some
    many most but and so then since because such no patient patients der die das ein eine es er sie wir ich im am auf
    mit nach bei von zu und aber doch als wenn auch diese dieser dieses seit"""
)
"""Words that, capitalised, hardly ever go on after an abbreviation."""
LETTERED = _listed("kappa vitamin hepatitis type group class protein factor panel phase °")
"""After these, and after a number, a single letter is no initial: hepatitis B, 24 h."""
BEFORE_ORDINALS = _listed("am vom zum im der die das den dem des beim bis zur ins")
AFTER_ORDINALS = _listed(
    """Januar Jänner Februar März April Mai Juni Juli August September Oktober November Dezember Jahrhundert
    Jahrhunderts Lebensjahr Weltkrieg Liga"""
)
"""Beside these German words a number of one or two digits with a stop is an ordinal: im 19. Jahrhundert."""
BREAKS = "\n\r\f\v\x1c\x1d\x1e\x85\u2028\u2029"
"""Each of these ends a line."""
GOES_ON = frozenset(",;:.!?)]}%/=+<>…&|·")
"""After a stop and a blank, these show that the sentence is not over."""


@dataclass(frozen=True, slots=True)
class Segmenter:
    """How text becomes sentences of words; a model's folder stores it, so that it always reads alike."""

    words: Words = "unicode"
    sentences: Sentences = "rules"

    def __post_init__(self) -> None:
        for name, value, valid in (("words", self.words, Words), ("sentences", self.sentences, Sentences)):
            if value not in get_args(valid):
                raise InputError(f"segmenter: {name} is {value!r}; valid are {', '.join(get_args(valid))}")

    def segment(self, text: str) -> tuple[tuple[Span, ...], ...]:
        """The sentences of a text, each as the character ranges of its words."""
        return tuple(self._sentences(text, 0, None))

    def stream(self, chunks: Iterable[str]) -> Iterator[tuple[Span, ...]]:
        """The same sentences from a text that comes in chunks of any size, as soon as they are certain.

        Offsets run over the whole text. No more is kept than the unfinished sentence and some context.
        """
        held, begin, offset = "", 0, 0  # the kept text, where in it unfinished work begins, where it lies in the whole
        pending: list[str] = []
        gathered = 0
        for piece in _pieces(chunks):
            pending.append(piece)
            gathered += len(piece)
            if gathered < max(WINDOW, len(held)):  # an unfinished sentence is read again only when it has doubled
                continue
            held = "".join((held, *pending))
            pending.clear()
            gathered = 0
            certain = len(held) - TAIL
            for sentence in self._sentences(held, begin, certain):
                begin = sentence[-1][1]
                yield _shifted(sentence, offset)
            upcoming = self._pattern().search(held, begin)
            begin = max(begin, certain if upcoming is None else min(upcoming.start(), certain))
            forgotten = max(0, begin - REACH)
            held, begin, offset = held[forgotten:], begin - forgotten, offset + forgotten
        for sentence in self._sentences("".join((held, *pending)), begin, None):
            yield _shifted(sentence, offset)

    def to_dict(self) -> dict[str, str]:
        return asdict(self)

    @classmethod
    def from_dict(cls, options: Mapping[str, Any]) -> Segmenter:
        """The segmenter that `to_dict` described; what is missing takes its default."""
        valid = cls.__dataclass_fields__
        for name in options:
            if name not in valid:
                raise InputError(f"segmenter: unknown option {name!r}; valid are {', '.join(valid)}")
        return cls(**options)

    def _pattern(self) -> Any:
        return _compiled(_WORDS if self.words == "unicode" else _BLANK_WORDS)

    def _sentences(self, text: str, begin: int, certain: int | None) -> Iterator[tuple[Span, ...]]:
        """The sentences after `begin`; with `certain`, only those that nothing beyond the text can change.

        A word belongs to the sentence that it begins in.
        """
        words: list[Span] = [match.span() for match in self._pattern().finditer(text, begin)]
        if certain is not None:
            del words[bisect_left(words, (certain,)) :]
        first = 0
        for border in self._borders(text, begin):
            if certain is not None and border > certain:
                break
            last = bisect_left(words, (border,), first)
            while last - first > MAX_WORDS:
                cut = _forced_break(words, first)
                yield tuple(words[first:cut])
                first = cut
            if last > first:
                yield tuple(words[first:last])
                first = last
        while len(words) - first > MAX_WORDS:
            cut = _forced_break(words, first)
            yield tuple(words[first:cut])
            first = cut
        if certain is None and first < len(words):
            yield tuple(words[first:])

    def _borders(self, text: str, begin: int) -> Iterator[int]:
        """Where sentences end, in ascending order; some stretches between have no words."""
        # What ends a sentence is found alike wherever the search starts before it: citations need the head start.
        start = max(0, begin - REACH)
        if self.sentences == "lines":
            yield from (match.end() for match in _compiled(_BREAK).finditer(text, start))
            return
        for match in _compiled(_ENDS).finditer(text, start):
            at, end = match.span()
            kind = match.lastgroup
            before, after = text[max(0, at - REACH) : at], text[end : end + REACH]
            if (
                kind == "full"
                or (kind == "line" and not _is_wrap(before, after))
                or (kind == "stop" and _is_end(before, match.group(), after))
            ):
                yield end


def _pieces(chunks: Iterable[str]) -> Iterator[str]:
    """The chunks, large ones in pieces: what is segmented at once stays small."""
    for chunk in chunks:
        if len(chunk) <= WINDOW:
            yield chunk
        else:
            yield from (chunk[at : at + WINDOW] for at in range(0, len(chunk), WINDOW))


def _shifted(sentence: tuple[Span, ...], offset: int) -> tuple[Span, ...]:
    return tuple([(start + offset, end + offset) for start, end in sentence]) if offset else sentence


def _forced_break(words: list[Span], first: int) -> int:
    """Where a sentence with too many words breaks: at the last gap in its second half, or at the limit."""
    limit = first + MAX_WORDS
    for cut in range(limit, limit - MAX_WORDS // 2, -1):
        if words[cut - 1][1] < words[cut][0]:
            return cut
    return limit


def _is_wrap(before: str, after: str) -> bool:
    """Whether a sentence goes on over a line break: the line was merely full."""
    if before[-1:] in BREAKS or after[:1] in BREAKS:  # as is "", at either end of the text
        return False
    line, following = before.splitlines()[-1].rstrip(), after.splitlines()[0].strip()
    if not line or not following or line.endswith(":") or _compiled(_LIST_ITEM).match(following):
        return False
    if following[0].islower() or line.endswith(","):
        return True
    first_word = following.split(maxsplit=1)[0]
    return 40 <= len(line) <= 120 and len(line) + 1 + len(first_word) > len(following)


def _is_end(before: str, stop: str, after: str) -> bool:
    """Whether a stop, with all that closes behind it, ends a sentence between two stretches of text."""
    following = _compiled(_BEGINNING).match(after)
    word: str = following.group("word")
    if not word:
        return after[following.end() : following.end() + 1] not in GOES_ON
    if word[0].islower() and not any(letter.isupper() or letter.isdigit() for letter in word):
        return False
    if stop[0] != "." or before.endswith("."):
        return True
    last = _last_word(before)
    spaced_decimal = before[-1:].isspace() and before[-2:-1].isdigit()  # 3 . 5, of words joined by blanks
    if last in INTRODUCES or (word[0].isdigit() and (last in BEFORE_NUMBERS or spaced_decimal)):
        return False
    if last.replace(".", "").isdigit():
        return not (_is_list_number(before, last) or _is_german_ordinal(before, last, word))
    initials = len(last) == 1 or ("." in last and all(len(part) == 1 for part in last.split(".")))
    if len(last) == 1:
        earlier = _last_word(before.rstrip()[:-1])
        if earlier in LETTERED or earlier[-1:].isdigit():
            return True
    if initials or last in MAY_END:
        return word[0].isupper() and word.lower() in STARTERS and not after.startswith(".", following.end())
    return True


def _last_word(before: str) -> str:
    """What stands before a stop, in lower case and with its inner stops: "fig", "e.g", "3"."""
    parts = before[-24:].split()
    return parts[-1].lstrip("([{\"'“‘„«").lower() if parts else ""


def _is_list_number(before: str, number: str) -> bool:
    """Whether a number counts an item: it begins its line, or follows a sentence's end or a colon."""
    rest = before.rstrip()[: -len(number)].rstrip(" \t\xa0([")
    if not rest or rest[-1] in BREAKS + ":;!?":
        return max(map(len, number.split("."))) <= 2
    last = _last_word(rest[:-1])
    known = last in INTRODUCES or last in MAY_END or last in BEFORE_NUMBERS or len(last) < 2
    return rest[-1] == "." and len(number) <= 2 and not known


def _is_german_ordinal(before: str, number: str, word: str) -> bool:
    earlier = _last_word(before.rstrip()[: -len(number)])
    return len(number) <= 2 and (word in AFTER_ORDINALS or earlier in BEFORE_ORDINALS)


# The patterns. Capital names stand for classes of characters; every repetition is bounded and what could be tried
# twice is atomic or small, so that no text takes more than linear time.

_CLASSES = {
    "JOINED": r"""
        IN_WORD
      | (?<=\d) [.,٫٬] (?=\d)
      | (?<=[\p{L}\p{M}]) (?!CLITIC) ['’] (?=\p{L})
      | (?<=[\p{L}\p{N}\p{M}\p{Cf}]) (?!(?<=[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}])\u200B) \p{Cf} (?=\p{Cf}{0,8}LETTER)
    """,
    "CLITIC": r"['’](?i:s|m|re|ve|ll|d)(?!IN_WORD)",
    "LETTER": r"[[\p{L}\p{N}]--[CJK]]",
    "IN_WORD": r"[[\p{L}\p{N}\p{M}\u200C\u200D]--[CJK]]",
    "IN_URL": r"[[\p{L}\p{N}\p{M}._~:/?\#@!$&'*+,;=%()|\[\]\-]--[CJK]]",
    "CJK": r"\p{Han}\p{Hiragana}\p{Katakana}ー〆ｰ",
    "MARK": r"[\p{M}\u200C\u200D]",
    "PICTURE": r"\p{Extended_Pictographic}\uFE0F?[\U0001F3FB-\U0001F3FF]?\uFE0F?[\U000E0020-\U000E007F]{0,8}",
}

# The first three lines decide most of all text at once; they find what the others would find, only sooner.
_WORDS = r"""
  [A-Za-z0-9]{1,999}+ (?=[ ;\n]|[.,]\s)
| [,;:()\[\]/%"] (?!MARK)
| [.\-] (?![.\-]|MARK)
| (?=LETTER) (?>
    [0-9] \uFE0F? \u20E3 MARK{0,99}                                            # keycaps
  | (?>LETTER IN_WORD{0,999} (?!MARK)) (?![.,'’:@+_\-\p{Cf}٫٬]\S)             # nothing joins it to more
  | (?i:https?://|ftp://|www\.) IN_URL{1,980} (?<![.,;:!?'*()\[\]|]) (?!MARK)
  | [A-Za-z0-9][\w.+\-]{0,63}+ @ (?:[A-Za-z0-9\-]{1,63}\.){1,4} [A-Za-z]{2,24} (?!IN_WORD)
  | (?:\p{L}\.){2,8} (?!IN_WORD)                                             # U.S.
  | [A-Za-z]{1,20}? (?=[nN]['’][tT](?!IN_WORD))                               # do n't
  | [nN]['’][tT] (?!IN_WORD)
  | (?i:[cdjlmnst]|(?:jus|lors|puis|quoi)?qu|d?all|dell|nell|sull|un) (?!CLITIC) ['’] (?=\p{L})  # l' eau
  | (?>LETTER (?:JOINED){0,999} (?!MARK) | LETTER (?:JOINED){0,999})
  )
| (?=\S) (?>
    (?<=IN_WORD) CLITIC
  | (?<=\w) - (?=-\w)                                                          # Cl - - free
  | [\#*] \uFE0F? \u20E3 MARK{0,99}
  | (?<![\w\p{M}@.]) @ [A-Za-z0-9_]{1,64} (?!IN_WORD)
  | (?<![\w\p{M}&]) \# (?=[\d_]{0,20}\p{L}) [\w\p{M}]{1,100} (?!IN_WORD)
  | [\U0001F1E6-\U0001F1FF]{2} MARK{0,99}                                      # flags
  | PICTURE (?:\u200D PICTURE){0,9} MARK{0,99}
  | ([.…\-–—=_*~\#!?'`’]) \1{0,899} MARK{0,99}
  | [^\s\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}] MARK{0,999}
  )
"""

_BLANK_WORDS = r"[^\s\x1C-\x1F]{1,1000}+"

_BREAK = r"\r\n|[\n\r\f\v\x1C-\x1E\x85\u2028\u2029]"

# Matches begin at a stop or line break and take neither on the way: they are the same wherever a search begins.
_ENDS = r"""
  (?P<full> [。！？｡؟۔।॥።፧។៕။։] (?![。！？｡؟.!?]) ["'”’»›)\]」』）】〉》]{0,4}+)
| (?P<stop> [.!?…‥‼⁇⁈⁉．] (?![.!?…。！？]) (?:["'”’“‘»›«]|[ \xA0]?[)\]}]|[ \xA0\u202F]»(?=\s|\Z)|\uFE0F){0,4}+
    (?: (?<=\p{Ll}{3}[.!?"”’)]{1,5}) \d{1,3}(?:[,–\-]\d{1,3}){0,5}+ | [⁰¹²³⁴-⁹][⁰¹²³⁴-⁹,]{0,7}+ )?  # cells.12 Next
    (?: [ \xA0]? \[[ ]? \d{1,4}(?:[ ]?[,;–\-][ ]?\d{1,4}){0,12}+ [ ]?\] )?                        # cells. [12] Next
    (?=\s|\Z))
| (?P<line> \r\n|[\n\r\f\v\x1C-\x1E\x85\u2028\u2029])
"""

# What follows a blank: opening quotes and brackets, then perhaps a word.
_BEGINNING = r"""
  \s*+ (?:["'“‘„«‹(\[{¿¡*_]\s?+){0,4}+ (?P<word> (?:[\p{L}\p{N}][\p{L}\p{N}\p{M}'’\-]{0,40}+)? )
"""

_LIST_ITEM = r"""
  [\-*•‣◦▪–—]\s | \(?\d{1,3}[.)]\s | [a-z]\.\s | \(?[A-Za-z]\)\s | \p{Lu}[\p{L}\p{N}\ /&\-]{0,40}+:(?:\s|\Z)
"""


@cache
def _compiled(pattern: str) -> Any:
    """A pattern with its classes spelt out. Compiled on first use: importing this module costs next to nothing."""
    import regex  # its tables of characters are the same under every version of Python

    for name, meaning in _CLASSES.items():
        pattern = pattern.replace(name, meaning)
    return regex.compile(pattern, regex.VERBOSE | regex.VERSION1)
