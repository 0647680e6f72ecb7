"""Gold as spans, for the heads whose mentions have no gaps."""

from __future__ import annotations

from collections.abc import Mapping

from spanloom.document import Sentence, Span
from spanloom.errors import Tally


def gold_spans(sentence: Sentence, class_of: Mapping[str, int], lost: Tally) -> dict[Span, int]:
    """Start and end of each mention that is a span of its own, in their order, and its class.

    Of two types on the same words the first counts. What is left out is counted by reason.
    """
    gold: dict[Span, int] = {}
    order = sorted(dict.fromkeys(sentence.mentions), key=lambda each: (each.words, class_of.get(each.type, 0)))
    for mention in order:
        span = mention.words[0], mention.words[-1] + 1
        if mention.type not in class_of:
            reason = "entities of unknown types"
        elif span[1] - span[0] > len(mention.words):
            reason = "discontinuous entities"
        elif span in gold:
            reason = "second types of the same words"
        else:
            gold[span] = class_of[mention.type]
            continue
        lost.add(reason, sentence.covered(mention.words))
    return dict(sorted(gold.items()))
