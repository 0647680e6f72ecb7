"""The encoder: a language model, the pooling of its pieces into words, what else words are made of, a BiLSTM."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from spanloom.encoder.embeddings import FixedTable, WordEmbeddings, as_autocast
from spanloom.encoder.features import Vocabularies
from spanloom.encoder.options import EncoderOptions, Pooling
from spanloom.encoder.pieces import PieceBatch
from spanloom.encoder.words import Width, Words

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Encoder(nn.Module):
    """Pieces in, word vectors out, for any encoder of the transformers library."""

    def __init__(
        self, language_model: PreTrainedModel, options: EncoderOptions, vocabularies: Vocabularies | None = None
    ) -> None:
        super().__init__()
        if options.has_features and vocabularies is None:
            raise ValueError("these options need the vocabularies that they were fitted with")
        self.options, self.vocabularies = options, vocabularies
        self.language_model = language_model
        hidden = word = int(language_model.config.hidden_size)
        self.embeddings: WordEmbeddings | None = None
        if vocabularies is not None:
            self.embeddings = WordEmbeddings(options, vocabularies)
            word += self.embeddings.width
        self.lstm: nn.LSTM | None = None
        if options.lstm:
            self.lstm = nn.LSTM(word, options.lstm // 2, options.lstm_layers, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(options.dropout)
        self.width = Width(word=options.lstm or word, sentence=hidden)
        self.frozen = False
        # a pooler that could not be left out stays without gradients whatever else thaws
        self._trainable = [name for name, weight in language_model.named_parameters() if weight.requires_grad]
        self._takes_types = "token_type_ids" in inspect.signature(language_model.forward).parameters

    def forward(self, batch: PieceBatch) -> Words:
        """Rows of pieces [R, P] to words [B, N, d] and sentences [B, dg]."""
        n_sentences, n_words = batch.mask.shape
        spoken = batch.mask.any(1, keepdim=True)  # [B, 1]
        if len(batch.ids):
            pieces = self._read(batch)  # [R, P, h]
            vectors = pool(pieces, batch.word, n_sentences * n_words, self.options.pooling)
            vectors = vectors.view(n_sentences, n_words, -1)  # [B, N, h]
            if batch.cls is not None:
                sentence = pieces[batch.row, batch.cls].masked_fill(~spoken, 0)  # [B, h]
            else:
                sentence = vectors.sum(1) / batch.mask.sum(1, keepdim=True).clamp(min=1)
            if self.embeddings is not None:
                vectors = torch.cat([vectors, self.embeddings(batch)], -1)
            if self.lstm is not None:
                vectors = recur(self.lstm, vectors, batch.mask)
        else:  # not a word in the whole batch
            weight = next(self.language_model.parameters())
            vectors = weight.new_zeros(n_sentences, n_words, self.width.word)
            sentence = weight.new_zeros(n_sentences, self.width.sentence)
        return Words(self.dropout(vectors), batch.mask, self.dropout(sentence), batch.keys)

    def _read(self, batch: PieceBatch) -> Tensor:
        """The language model's vectors [R, P, h]."""
        types = {} if batch.types is None or not self._takes_types else {"token_type_ids": batch.types}
        deep = self.options.layers == "last4"
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            said = self.language_model(
                input_ids=batch.ids,
                attention_mask=batch.attention,
                output_hidden_states=deep,
                return_dict=True,
                **types,
            )
            last: Tensor = said.last_hidden_state
            return torch.stack(said.hidden_states[1:][-4:]).mean(0) if deep else last

    def fill(self, vectors: Tensor) -> None:
        """Takes the vectors of words [words, d] that came from a file."""
        assert self.embeddings is not None
        assert isinstance(self.embeddings.words, FixedTable)
        self.embeddings.words.fill(vectors)

    def freeze(self, on: bool) -> None:
        """Leaves the language model as it is, without its dropout, or lets it learn; what is on top learns always."""
        self.frozen = on
        for name in self._trainable:
            self.language_model.get_parameter(name).requires_grad_(not on)
        self.train(self.training)

    def train(self, mode: bool = True) -> Encoder:
        super().train(mode)
        if self.frozen:
            self.language_model.train(False)
        return self

    def language_parameters(self) -> Iterator[nn.Parameter]:
        """What trains at the encoder's learning rate, frozen or not."""
        return (self.language_model.get_parameter(name) for name in self._trainable)

    def added_parameters(self) -> Iterator[nn.Parameter]:
        """What trains at the head's learning rate: all that is not the language model, nor the vectors of a file."""
        added = (weight for name, weight in self.named_parameters() if not name.startswith("language_model."))
        return (weight for weight in added if weight.requires_grad)


def pool(pieces: Tensor, word: Tensor, slots: int, how: Pooling) -> Tensor:
    """Pieces [R, P, h], read into the slots that `word` [R, P] names, as word vectors [slots, h].

    A slot without a piece stays 0. Slot number `slots` takes what nobody reads and is dropped. Of a
    word's pieces, `first` expects the first alone in its slot.
    """
    flat, slot = pieces.flatten(0, 1), word.flatten()
    index = slot[:, None].expand_as(flat)
    out = flat.new_zeros(slots + 1, flat.shape[1])
    if how == "first":
        return out.index_add(0, slot, flat)[:slots]
    if how == "mean":
        return out.scatter_reduce(0, index, flat, "mean", include_self=False)[:slots]
    # not from 0: a maximum of exactly 0 would share its gradient with it, even with include_self=False
    most = out.fill_(-torch.inf).scatter_reduce(0, index, flat, "amax")[:slots]
    return most.masked_fill(most.isneginf(), 0)  # left in an empty slot, -inf would make NaN of later gradients


def recur(lstm: nn.LSTM, vectors: Tensor, mask: Tensor) -> Tensor:
    """A BiLSTM over words [B, N, h], each sentence to its own end; padding stays 0."""
    lengths = mask.sum(1).clamp(min=1).cpu()  # a packed sentence has a word; the mask takes it away again
    packed = pack_padded_sequence(as_autocast(vectors), lengths, batch_first=True, enforce_sorted=False)
    out, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=vectors.shape[1])
    return out.masked_fill(~mask[..., None], 0)
