"""What the two models of "Win-Win Cooperation: Bundling Sequence and Span Models for Named Entity Recognition" share.

SeqNER is `tagger.py`, SpanNER is `span.py`. Section 3: one recipe for all corpora; table 2: the longest span, the
batch and the language model of each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

BERT = "bert-large-cased"
BIOBERT = "monologg/biobert_v1.0_pubmed_pmc"
SCIBERT = "allenai/scibert_scivocab_cased"


class Row(NamedTuple):
    """A line of table 2."""

    longest: int
    batch: int
    encoder: str


TABLE_2 = {
    "ontonotes": Row(10, 12, BERT),
    "conll03": Row(5, 32, BERT),
    "conllpp": Row(5, 32, BERT),
    "conll04": Row(10, 2, BERT),
    "ace04": Row(10, 8, BERT),
    "ace05": Row(10, 8, BERT),
    "bc5cdr": Row(7, 16, BIOBERT),
    "ncbi": Row(7, 16, BIOBERT),
    "scierc": Row(8, 12, SCIBERT),
    "wnut16": Row(6, 32, BERT),
    "wnut17": Row(6, 24, BERT),
}


def recipe(row: Row) -> dict[str, Any]:
    """The options of encoder and training for a line of table 2."""
    return {
        "encoder.name": row.encoder,
        "encoder.pooling": "max",
        "encoder.dropout": 0.1,
        "training.epochs": 20,
        "training.batch": row.batch,
        "training.encoder_lr": 5e-5,
        "training.head_lr": 5e-5,
        "training.warmup": 0.1,
        "training.decay": 0.01,
        "training.clip": 1.0,
    }
