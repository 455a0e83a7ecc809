"""The embedded default: a Llama of about 0.1 M parameters that reads what its task is written in."""

from __future__ import annotations

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from hanse.policy.parameters import Parameters
from hanse.policy.policy import Policy
from hanse.randomness import generator
from hanse.recipe.model import TinyPolicy
from hanse.tasks.vocabulary import Vocabulary

PAD, EOS = "<pad>", "<eos>"


def tiny_tokenizer(vocabulary: Vocabulary) -> PreTrainedTokenizerFast:
    """One token a character, or a word; saved and loaded like any other tokenizer."""
    ids = {token: i for i, token in enumerate([PAD, EOS, *vocabulary.tokens])}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=PAD))
    if vocabulary.split == "characters":
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
        tokenizer.decoder = decoders.Fuse()
    else:  # without a decoder, tokens are joined by spaces
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=EOS, clean_up_tokenization_spaces=False
    )


def build_model(spec: TinyPolicy, vocabulary: int, seed: int) -> LlamaForCausalLM:
    """A fresh Llama whose weights depend on `seed` and the parameter's name alone."""
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=spec.hidden,
        intermediate_size=spec.intermediate,
        num_hidden_layers=spec.layers,
        num_attention_heads=spec.heads,
        num_key_value_heads=spec.heads,
        max_position_embeddings=spec.context,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                values = generator(seed, "init", name).normal(0, 0.02, tuple(parameter.shape))
                parameter.copy_(torch.from_numpy(values))
    return model


def tiny_policy(spec: TinyPolicy, vocabulary: Vocabulary, seed: int) -> Policy:
    """An untrained tiny policy with all parameters trainable, in float32."""
    tokenizer = tiny_tokenizer(vocabulary)
    model = build_model(spec, len(tokenizer), seed)
    model.eval()
    return Policy(
        model=model,
        tokenizer=tokenizer,
        parameters=Parameters(model),
        eos_ids=(1,),
        pad_id=0,
        context=spec.context,
    )
