"""Documents of every kind for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from spanloom.align import WordSentence, from_words
from spanloom.document import Document, Entity, Mention

characters = st.characters(exclude_categories=["Cs"])
visible = st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"])
plain_words = st.text(visible, min_size=1, max_size=6).filter(lambda word: not word.startswith(("#", "-DOCSTART-")))
any_words = st.text(characters, min_size=1, max_size=6)
type_names = st.sampled_from(["Finding", "Drug", "A-B", "O", "Zelle", "基因"])
scores = st.none() | st.floats(0, 1)


@st.composite
def mentions(draw: st.DrawFn, size: int, scored: bool = True) -> Mention:
    """A mention of any shape in a sentence of `size` words."""
    words = draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=5))
    if draw(st.booleans()):
        words = set(range(min(words), max(words) + 1))
    return Mention(draw(type_names), tuple(sorted(words)), draw(scores) if scored else None)


@st.composite
def flat_mentions(draw: st.DrawFn, size: int) -> list[Mention]:
    """Mentions side by side."""
    borders = sorted(draw(st.sets(st.integers(0, size), max_size=6)))
    pairs = list(zip(borders[::2], borders[1::2], strict=False))
    return [Mention(draw(type_names), tuple(range(start, end))) for start, end in pairs]


@st.composite
def word_documents(
    draw: st.DrawFn,
    name: str = "doc",
    words: st.SearchStrategy[str] = any_words,
    flat: bool = False,
    scored: bool = True,
    tagged: bool = True,
    empty: bool = True,
) -> Document:
    """A document that came as words."""
    sentences = []
    with_tags = tagged and draw(st.booleans())
    for _ in range(draw(st.integers(1, 3))):
        said = draw(st.lists(words, min_size=0 if empty else 1, max_size=8))
        found: list[Mention] = []
        if said:
            found = draw(flat_mentions(len(said)) if flat else st.lists(mentions(len(said), scored), max_size=4))
        tags = ["NN"] * len(said) if with_tags else None
        sentences.append(WordSentence(said, found, tags))
    return from_words(name, sentences)


@st.composite
def text_documents(draw: st.DrawFn, name: str = "doc", scored: bool = True) -> Document:
    """A document that came as text, annotated anywhere."""
    text = draw(st.text(characters, max_size=60))
    entities = []
    if text:
        for _ in range(draw(st.integers(0, 4))):
            edges = sorted(draw(st.sets(st.integers(0, len(text)), min_size=2, max_size=6)))
            pairs = tuple(zip(edges[::2], edges[1::2], strict=False))
            entities.append(Entity(draw(type_names), pairs, draw(scores) if scored else None))
    return Document(name, text, tuple(entities))
