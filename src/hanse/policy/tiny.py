"""The embedded default: a Llama of about 0.1 M parameters that reads characters."""

from __future__ import annotations

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from hanse.policy.parameters import Parameters
from hanse.policy.policy import Policy
from hanse.randomness import generator
from hanse.recipe.model import TinyPolicy

PAD, EOS = "<pad>", "<eos>"


def character_tokenizer(characters: str) -> PreTrainedTokenizerFast:
    """One token a character; saved and loaded like any other tokenizer."""
    vocabulary = {token: i for i, token in enumerate([PAD, EOS, *characters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=PAD))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, eos_token=EOS)


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


def tiny_policy(spec: TinyPolicy, characters: str, seed: int) -> Policy:
    """An untrained tiny policy with all parameters trainable, in float32."""
    tokenizer = character_tokenizer(characters)
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
