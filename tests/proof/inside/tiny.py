"""Makes, offline, what a verl run needs: a random Qwen2 model of 120,000 weights, its tokenizer, and data.

    python tiny.py FOLDER

FOLDER/model holds the model, stored in bfloat16 as published checkpoints are, so that loading has to cast it up;
FOLDER/sft.parquet and FOLDER/rl.parquet hold 32 additions each. The same versions of torch and transformers make the
same files.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

VOCABULARY = 320
ROWS = 32
PADDING, START, END = SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}"
    "{% if m['role'] == 'assistant' %}{% generation %}{{ m['content'] + '<|im_end|>\n' }}{% endgeneration %}"
    "{% else %}{{ m['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def make_tokenizer(folder: Path) -> None:
    """A token a byte."""
    words = SPECIAL + sorted(pre_tokenizers.ByteLevel.alphabet())
    bytewise = Tokenizer(models.BPE(vocab={word: number for number, word in enumerate(words)}, merges=[]))
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    bytewise.add_special_tokens(SPECIAL)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytewise, eos_token=END, pad_token=PADDING, model_max_length=512
    )
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
    # transformers 5 writes a class name that transformers 4 does not know.
    change(folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")


def make_model(folder: Path) -> None:
    """Two layers. The weights are larger than usual, so that bfloat16 and float32 give visibly different losses."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=2,
        pad_token_id=0,
        initializer_range=0.2,
    )
    Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    # transformers 4 reads the one, transformers 5 the other.
    change(folder / "config.json", torch_dtype="bfloat16", dtype="bfloat16")


def make_data(folder: Path) -> None:
    """Additions, of different lengths."""
    sums = random.Random(0)  # noqa: S311
    conversations, prompts = [], []
    for index in range(ROWS):
        one, other = sums.randint(0, 99), sums.randint(0, 9 ** sums.randint(1, 5))
        question, answer = f"What is {one} plus {other}?", f"{one} + {other} = {one + other}. #### {one + other}"
        asked = {"role": "user", "content": question}
        told = {"role": "assistant", "content": answer}
        conversations.append({"messages": [asked, told], "prompt": question, "response": answer})
        prompts.append(
            {
                "data_source": "openai/gsm8k",
                "prompt": [asked],
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": str(one + other)},
                "extra_info": {"index": index, "split": "train"},
            }
        )
    for name, rows in {"sft": conversations, "rl": prompts}.items():
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / f"{name}.parquet")


def change(path: Path, **values: Any) -> None:
    """Set keys of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}, indent=1))


if __name__ == "__main__":
    out = Path(sys.argv[1])
    make_tokenizer(out / "model")
    make_model(out / "model")
    make_data(out)
