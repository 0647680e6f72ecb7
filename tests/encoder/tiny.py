"""Tiny language models of every kind, with random weights and tokenizers trained on the spot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from tokenizers import normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

KINDS = ("bert", "roberta", "deberta-v2", "electra", "modernbert", "mpnet", "xlm-roberta")
LIMIT = 64
"""How many pieces each of them reads, special tokens included."""

TEXTS = (
    "The patient has severe pain in the left knee and in both shoulders .",
    "Interleukin-2 activates NF-kappa B in human T lymphocytes, about 12 % of them .",
    "Ångström wrote to Zoë in 北京 : unbelievably uncharacteristic behaviour !",
    "Aspirin was stopped because of muscle aches and fatigue ; IL-2 alpha gene expression .",
)

BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
MPNET = ("<s>", "<pad>", "</s>", "[UNK]", "<mask>")

SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
OWN: dict[str, dict[str, Any]] = {
    "bert": {"max_position_embeddings": LIMIT, "pad_token_id": 0},
    "roberta": {"max_position_embeddings": LIMIT + 2, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
    "deberta-v2": {
        "max_position_embeddings": LIMIT,
        "pad_token_id": 0,
        "position_biased_input": False,
        "type_vocab_size": 0,
        "relative_attention": True,
        "position_buckets": 16,
        "pos_att_type": ["p2c", "c2p"],
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
    },
    "electra": {"max_position_embeddings": LIMIT, "pad_token_id": 0, "embedding_size": 16},
    "modernbert": {
        "max_position_embeddings": LIMIT,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "cls_token_id": 2,
        "sep_token_id": 3,
        "global_attn_every_n_layers": 2,
        "local_attention": 16,
    },
    "mpnet": {"max_position_embeddings": LIMIT + 2, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
    "xlm-roberta": {"max_position_embeddings": LIMIT + 2, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
}


def save(kind: str, folder: Path, texts: Sequence[str] = TEXTS) -> Path:
    """Writes a language model of this kind and its tokenizer, trained on `texts`, into a folder."""
    tokenizer = _tokenizer(kind, texts)
    config: PreTrainedConfig = transformers.AutoConfig.for_model(kind, vocab_size=len(tokenizer), **SIZE, **OWN[kind])
    auto: Any = transformers.AutoModel
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model: PreTrainedModel = auto.from_config(config)
        for name, weight in model.named_parameters():  # far from 0, so that every piece and position matters
            if weight.ndim > 1 and "norm" not in name.lower():
                torch.nn.init.normal_(weight, std=0.2)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer(kind: str, texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """As the kind's own class builds it from a vocabulary; ModernBERT has no class of its own."""
    if kind in ("bert", "electra"):
        return transformers.BertTokenizer(vocab=_word_piece(texts, BERT))
    if kind == "mpnet":
        return transformers.MPNetTokenizer(vocab=_word_piece(texts, MPNET))
    if kind == "deberta-v2":
        return transformers.DebertaV2Tokenizer(vocab=_unigram(texts, BERT))
    if kind == "xlm-roberta":
        return transformers.XLMRobertaTokenizer(vocab=_unigram(texts, ROBERTA))
    if kind == "roberta":
        trained = json.loads(_byte_level(texts, ROBERTA).to_str())["model"]
        merges: Any = [tuple(merge) for merge in trained["merges"]]
        return transformers.RobertaTokenizer(vocab=trained["vocab"], merges=merges)
    trained = _byte_level(texts, BERT)
    trained.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", BERT.index("[CLS]")), ("[SEP]", BERT.index("[SEP]"))]
    )
    roles = {f"{token[1:-1].lower()}_token": token for token in BERT}
    return PreTrainedTokenizerFast(tokenizer_object=trained, **roles)


def _word_piece(texts: Sequence[str], specials: Sequence[str]) -> dict[str, int]:
    """Letters, and the first four of longer words. Trained vocabularies are not repeatable; counted ones are."""
    normalize, split = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    words = {word for text in texts for word, _ in split.pre_tokenize_str(normalize.normalize_str(text))}
    letters = sorted({letter for word in words for letter in word})
    starts = sorted({word[:4] for word in words if len(word) > 3})
    return {
        piece: id for id, piece in enumerate([*specials, *letters, *("##" + letter for letter in letters), *starts])
    }


def _byte_level(texts: Sequence[str], specials: Sequence[str]) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=360,
            special_tokens=list(specials),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return tokenizer


def _unigram(texts: Sequence[str], specials: Sequence[str]) -> list[tuple[str, float]]:
    """Letters, and short words. Trained vocabularies are not repeatable; counted ones are."""
    words = sorted({"▁" + word for text in texts for word in text.split()})
    letters = sorted({letter for word in words for letter in word})
    scored = {**dict.fromkeys(letters, -8.0), **{word: -6.0 - len(word) for word in words if len(word) < 8}}
    return [*((special, 0.0) for special in specials), *scored.items()]
