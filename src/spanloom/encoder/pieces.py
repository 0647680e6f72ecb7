"""From words to what the language model reads: pieces, windows, context, special tokens.

Nothing is ever truncated. A sentence that does not fit is read in overlapping windows, and each of
its words is taken from the window in which it lies most centrally. No model here: this runs in the
workers of a data loader, and beside a model that is predicting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spanloom.encoder.features import Vocabularies, WordFeatures
from spanloom.encoder.options import EncoderOptions

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Integers = NDArray[np.int64]
Ids = NDArray[np.int32]

CACHED_WORDS = 200_000


@dataclass(frozen=True, slots=True, eq=False)
class Pieced:
    """A sentence cut into pieces, without special tokens.

    ids     [pieces]   the pieces of all words, one after the other
    counts  [words]    how many of them each word has, at least 1
    key                a number that depends on the words alone
    features           what the words are beside their pieces; None where the options ask for nothing of it
    """

    ids: Ids
    counts: Ids
    key: int
    features: WordFeatures | None = None

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def work(self) -> int:
        return len(self.ids)


class Context(NamedTuple):
    """The neighbours of a sentence in its document, in reading order."""

    before: Sequence[Pieced] = ()
    after: Sequence[Pieced] = ()


@dataclass(frozen=True, slots=True)
class PieceBatch:
    """B sentences, padded to N words, as R rows of P pieces; a long sentence has several rows.

    ids        [R, P]
    attention  [R, P]   1 for pieces, 0 for padding
    types      [R, P]   token types, None where they are all 0
    word       [R, P]   the slot that a piece is read into: b * N + n, or B * N for what nobody reads
    mask       [B, N]   True for words
    row        [B]      the first row of each sentence; 0 for a sentence without words, which has none
    cls        [B]      where the token that stands for the sentence is in that row; None if there is no such token
    keys       [B]      a number that depends on the sentence's words alone

    and, where the options of the encoder ask for them:

    entries    [B, N]   each word's number in the vocabulary, 0 for the unknown
    pos        [B, N]   the number of its part-of-speech tag, 0 for the unknown
    spelling   [B, N]   the row of `characters` that spells it
    characters [U, C]   each distinct word as the numbers of its characters, -1 behind its end
    """

    ids: Tensor
    attention: Tensor
    types: Tensor | None
    word: Tensor
    mask: Tensor
    row: Tensor
    cls: Tensor | None
    keys: Tensor
    entries: Tensor | None = None
    pos: Tensor | None = None
    spelling: Tensor | None = None
    characters: Tensor | None = None

    def to(self, device: torch.device | str) -> PieceBatch:
        moved = {
            field.name: value.to(device, non_blocking=True)
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None
        }
        return replace(self, **moved)


class Frame(NamedTuple):
    """What a tokenizer puts around a text: `[CLS] ... [SEP]`, with the token types of the three parts."""

    before: list[int]
    after: list[int]
    types_before: list[int]
    type_inside: int
    types_after: list[int]
    cls: int | None
    """The position of the token that stands for the sentence; counted from the end where negative."""

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast) -> Frame:
        example = tokenizer.backend_tokenizer.encode("a")
        inside = [at for at, special in enumerate(example.special_tokens_mask) if not special]
        first, last = (inside[0], inside[-1] + 1) if inside else (0, 0)
        before, after = example.ids[:first], example.ids[last:]
        if tokenizer.cls_token_id in after:
            stands = after.index(tokenizer.cls_token_id) - len(after)
        else:
            stands = before.index(tokenizer.cls_token_id) if tokenizer.cls_token_id in before else 0
        return cls(
            before,
            after,
            example.type_ids[:first],
            example.type_ids[first] if inside else 0,
            example.type_ids[last:],
            stands if before or stands < 0 else None,
        )


class Pieces:
    """Cuts words into pieces and builds the rows of a batch, at most `limit` pieces each."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        options: EncoderOptions,
        limit: int,
        vocabularies: Vocabularies | None = None,
    ) -> None:
        self.options, self.vocabularies = options, vocabularies
        self.backend = tokenizer.backend_tokenizer
        self.backend.no_truncation()
        self.backend.no_padding()
        self.frame = Frame.of(tokenizer)
        self.room = limit - len(self.frame.before) - len(self.frame.after)
        if self.room < 1:
            raise ValueError(f"{limit} positions leave no room between the special tokens")
        # where a blank is part of the piece, as in byte-level BPE, every word gets its own
        self.blank = "" if self._cut(["a"]) == self._cut([" a"]) else " "
        self.padding = tokenizer.pad_token_id or 0
        stand_ins = (tokenizer.unk_token_id, tokenizer.mask_token_id, tokenizer.sep_token_id, tokenizer.eos_token_id)
        self.unknown = next((id for id in stand_ins if id is not None), self.padding)
        self._known: dict[str, tuple[int, ...]] = {}

    def pieces(
        self, sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[str] | None] | None = None
    ) -> list[Pieced]:
        """Sentences cut into pieces. Words are cut one by one, so each is cut once and remembered.

        `tags` are the parts of speech, which are looked at where the options ask for them.
        """
        known = self._known
        unseen = [word for word in dict.fromkeys(chain.from_iterable(sentences)) if word not in known]
        if known and len(known) + len(unseen) > CACHED_WORDS:  # start anew; a thread that reads the old one may finish
            known = self._known = {}
            unseen = list(dict.fromkeys(chain.from_iterable(sentences)))
        if unseen:
            # half a surrogate pair is no text; a question mark stands for it
            texts = [self.blank + word.encode("utf-8", "replace").decode() for word in unseen]
            # a word that tokenizes to nothing still needs a vector
            known.update(zip(unseen, (ids or (self.unknown,) for ids in self._cut(texts)), strict=True))
        cut = [_pieced(words, known) for words in sentences]
        if self.vocabularies is None:
            return cut
        given = zip(cut, sentences, tags or [None] * len(cut), strict=True)
        return [replace(each, features=self.vocabularies.features(words, pos)) for each, words, pos in given]

    def _cut(self, words: list[str]) -> list[tuple[int, ...]]:
        encoded = self.backend.encode_batch_fast(
            [[word] for word in words], is_pretokenized=True, add_special_tokens=False
        )
        return [tuple(encoding.ids) for encoding in encoded]

    def neighbours(self, sentences: Sequence[Pieced], documents: Sequence[str]) -> list[Context]:
        """The context of each sentence: up to `options.context` sentences on either side, of its own document."""
        found: list[Context] = []
        for _, run in groupby(range(len(sentences)), documents.__getitem__):
            places = list(run)
            first, end = places[0], places[-1] + 1
            for at in places:
                before = sentences[max(first, at - self.options.context) : at]
                after = sentences[at + 1 : min(end, at + 1 + self.options.context)]
                found.append(Context(before, after))
        return found

    def batch(self, sentences: Sequence[Pieced], contexts: Sequence[Context] | None = None) -> PieceBatch:
        """The rows of a batch. `contexts` are those of `neighbours`, one a sentence; their words are not pooled."""
        lengths = np.array([len(sentence) for sentence in sentences], np.int64)
        width = max(1, int(lengths.max(initial=0)))
        waste = len(sentences) * width
        rows: list[tuple[Ids, Integers]] = []
        first_row = np.zeros(len(sentences), np.int64)
        for at, sentence in enumerate(sentences):
            if len(sentence):
                first_row[at] = len(rows)
                rows.extend(self._rows(sentence, contexts[at] if contexts else Context(), at * width, waste))
        batch = self._assembled(
            rows,
            first_row,
            waste,
            mask=torch.from_numpy(np.arange(width) < lengths[:, None]),
            keys=torch.tensor([sentence.key for sentence in sentences], dtype=torch.int64),
        )
        if self.vocabularies is None:
            return batch
        features = [sentence.features for sentence in sentences if sentence.features is not None]
        return replace(batch, **self.vocabularies.tensors(features, width))

    def _rows(self, sentence: Pieced, context: Context, first_slot: int, waste: int) -> list[tuple[Ids, Integers]]:
        """One sentence as rows of (ids, slots), without special tokens; one row if it fits."""
        counts, ids = sentence.counts, sentence.ids
        if self.options.pooling == "first":
            slots = np.full(len(ids), waste, np.int64)
            slots[np.cumsum(counts) - counts] = np.arange(first_slot, first_slot + len(counts))
        else:
            slots = np.repeat(np.arange(first_slot, first_slot + len(counts)), counts)
        free = self.room - len(ids)
        if free < 0:
            starts, owner = windows(counts, self.room)
            cuts = [slice(start, start + self.room) for start in starts.tolist()]
            return [(ids[cut], np.where(owner[cut] == k, slots[cut], waste)) for k, cut in enumerate(cuts)]
        if context.before or context.after:
            before, after = _nearest([part.ids for part in context.before], [part.ids for part in context.after], free)
            unread = np.full(free, waste, np.int64)
            slots = np.concatenate([unread[: len(before)], slots, unread[: len(after)]])
            ids = np.concatenate([before, ids, after])
        return [(ids, slots)]

    def _assembled(
        self, rows: list[tuple[Ids, Integers]], first_row: Integers, waste: int, mask: Tensor, keys: Tensor
    ) -> PieceBatch:
        """Rows between their special tokens, padded on the right."""
        frame = self.frame
        start = len(frame.before)
        end = start + np.array([[len(ids)] for ids, _ in rows], np.int64).reshape(-1, 1)  # [R, 1]
        whole = end + len(frame.after)
        columns = np.arange(whole.max(initial=0))
        inside = (columns >= start) & (columns < end)
        behind = end + np.arange(len(frame.after))
        ids = np.full(inside.shape, self.padding, np.int64)
        word = np.full(inside.shape, waste, np.int64)
        if rows:
            ids[:, :start] = frame.before
            ids[inside] = np.concatenate([ids for ids, _ in rows])
            word[inside] = np.concatenate([slots for _, slots in rows])
            np.put_along_axis(ids, behind, np.array([frame.after], np.int64), axis=1)
        types: NDArray[Any] | None = None
        if rows and any([*frame.types_before, frame.type_inside, *frame.types_after]):
            types = np.zeros(inside.shape, np.int64)
            types[:, :start] = frame.types_before
            types[inside] = frame.type_inside
            np.put_along_axis(types, behind, np.array([frame.types_after], np.int64), axis=1)
        cls = None
        if frame.cls is not None:
            cls = np.full(len(first_row), frame.cls)
            if frame.cls < 0 and rows:
                cls += whole[first_row, 0]
        return PieceBatch(
            ids=torch.from_numpy(ids),
            attention=torch.from_numpy((columns < whole).astype(np.int64)),
            types=None if types is None else torch.from_numpy(types),
            word=torch.from_numpy(word),
            mask=mask,
            row=torch.from_numpy(first_row),
            cls=None if cls is None else torch.from_numpy(cls),
            keys=keys,
        )


def _pieced(words: Sequence[str], known: Mapping[str, tuple[int, ...]]) -> Pieced:
    cut = [known[word] for word in words]
    counts = np.fromiter(map(len, cut), np.int32, len(cut))
    ids = np.fromiter(chain.from_iterable(cut), np.int32, int(counts.sum()))
    digest = blake2b("\x1f".join(words).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return Pieced(ids, counts, int.from_bytes(digest, "big", signed=True))


def windows(counts: Ids, room: int) -> tuple[Integers, Integers]:
    """Overlapping windows of `room` pieces over a sentence that has more, and who reads what.

    Returns the starts of the windows [K], ascending, and for each piece the window that it is read
    from [pieces]: the one in which its word is most central, the earlier of two. A word that fits
    into a window is wholly inside at least one; the pieces of a longer word are placed one by one,
    so that pooling still sees them all, each once.
    """
    ends = np.cumsum(counts, dtype=np.int64)
    begins = ends - counts
    last = int(ends[-1]) - room
    starts = np.append(np.arange(0, last, max(1, room // 2)), last)
    fits = counts <= room
    owner = _most_central(starts, room, begins + ends)
    cut = fits & ((begins < starts[owner]) | (ends > starts[owner] + room))
    if cut.any():  # words longer than the overlap: a window of their own, around them
        own = np.clip((begins + ends - room) // 2, 0, last)[cut]
        starts = np.unique(np.concatenate([starts, own]))
        owner = _most_central(starts, room, begins + ends)
    alone = _most_central(starts, room, 2 * np.arange(last + room) + 1)
    return starts, np.where(np.repeat(fits, counts), np.repeat(owner, counts), alone)


def _most_central(starts: Integers, room: int, begin_and_end: Integers) -> Integers:
    """The window whose centre is nearest to that of [begin, end), the earlier of two; given begin + end."""
    centres = 2 * starts + room
    return np.searchsorted(centres[:-1] + centres[1:], 2 * begin_and_end, side="left")


def _nearest(before: list[Ids], after: list[Ids], free: int) -> tuple[Ids, Ids]:
    """The nearest pieces on both sides that fit into `free` together; what one side leaves, the other takes."""
    left = np.concatenate([np.empty(0, np.int32), *before])
    right = np.concatenate([np.empty(0, np.int32), *after])
    of_left = min(len(left), max(free // 2, free - len(right)))
    return left[len(left) - of_left :], right[: free - of_left]
