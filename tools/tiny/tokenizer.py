"""The byte-level BPE tokenizer of the bundled model: training it and writing its files."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "story"))
from chat import SMALL_TALK, SYSTEMS, WORDS, write_conversation  # noqa: E402
from generate import draw_setting, write_story  # noqa: E402

BEGIN, END_OF_TEXT, SYSTEM, USER, ASSISTANT, END = SPECIALS = (
    "<|begin|>",
    "<|endoftext|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|end|>",
)

# Splits words like Llama 3: contractions, words with one leading character, groups of up to three
# digits, punctuation, line ends, spaces.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

CHAT_TEMPLATE = (
    "{{- bos_token }}"
    "{%- for message in messages %}"
    "{%- if message['role'] not in ['system', 'user', 'assistant'] %}"
    "{{- raise_exception('incipit-tiny knows the roles system, user and assistant, not ' "
    "+ message['role']) }}"
    "{%- endif %}"
    "{{- '<|' + message['role'] + '|>' + message['content'] | trim + '<|end|>' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"
)


def corpus(rng: random.Random, stories: int):
    """Yields texts from which to learn merges: stories, conversations and some everyday English
    words."""
    for _ in range(stories):
        yield write_story(draw_setting(rng), rng)
    for _ in range(stories // 8):
        for turn in write_conversation(rng):
            if turn.content.isascii():
                yield turn.content
    for _ in range(stories // 100):
        yield from (*SMALL_TALK, *SYSTEMS, *(" " + word for word in WORDS))


def train_tokenizer(vocab_size: int, seed: int, stories: int = 8000) -> Tokenizer:
    """Learns the merges. The alphabet has all 256 bytes, so the tokenizer can encode any text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(random.Random(seed), stories), trainer)
    begin = tokenizer.token_to_id(BEGIN)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", pair=f"{BEGIN} $A {BEGIN} $B", special_tokens=[(BEGIN, begin)]
    )
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, context: int) -> None:
    """Writes tokenizer.json and tokenizer_config.json."""
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "add_bos_token": True,
        "add_eos_token": False,
        "bos_token": BEGIN,
        "eos_token": END_OF_TEXT,
        "pad_token": END_OF_TEXT,
        "added_tokens_decoder": {
            str(tokenizer.token_to_id(token)): {
                "content": token,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": True,
            }
            for token in SPECIALS
        },
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "model_max_length": context,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    text = json.dumps(config, indent=2, ensure_ascii=False)
    (folder / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")
