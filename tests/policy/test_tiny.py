from __future__ import annotations

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from hanse.policy.tiny import tiny_policy, tiny_tokenizer
from hanse.recipe.model import TinyPolicy
from hanse.tasks.vocabulary import Vocabulary

SUMS = Vocabulary(tuple("0123456789+="), "characters")


def test_the_default_has_about_a_tenth_of_a_million_parameters():
    policy = tiny_policy(TinyPolicy(), SUMS, 0)
    assert 100_000 < policy.parameters.numel < 200_000
    assert policy.parameters.dtype == torch.float32
    assert (policy.pad_id, policy.eos_ids, policy.context) == (0, (1,), 128)


def test_weights_depend_on_the_seed_alone():
    torch.manual_seed(1)
    first = tiny_policy(TinyPolicy(), SUMS, 0).parameters.sha256()
    torch.manual_seed(2)
    torch.rand(7)
    assert tiny_policy(TinyPolicy(), SUMS, 0).parameters.sha256() == first
    assert tiny_policy(TinyPolicy(), SUMS, 1).parameters.sha256() != first


def test_a_deeper_policy_begins_with_the_same_layers():
    shallow = tiny_policy(TinyPolicy(layers=1), SUMS, 0).parameters
    deep = tiny_policy(TinyPolicy(layers=3), SUMS, 0).parameters
    deep_views = deep.views(deep.cast)
    for name, tensor in shallow.views(shallow.cast).items():
        assert torch.equal(tensor, deep_views[name])


def test_text_goes_through_the_tokenizer_and_back():
    policy = tiny_policy(TinyPolicy(), SUMS, 0)
    ids = policy.encode("12+34=46")
    assert ids == (3, 4, 12, 5, 6, 13, 6, 8)
    assert policy.decode([ids, [3, 1], [0, 4, 0]]) == ["12+34=46", "1", "2"]
    assert policy.encode("") == ()


def test_encoding_is_remembered():
    policy = tiny_policy(TinyPolicy(), SUMS, 0)
    assert policy.encode("1+1=") is policy.encode("1+1=")


def test_tokenizer_and_model_load_with_transformers(tmp_path):
    policy = tiny_policy(TinyPolicy(layers=1), SUMS, 3)
    policy.model.save_pretrained(tmp_path)
    policy.tokenizer.save_pretrained(tmp_path)
    tokenizer, model = (
        AutoTokenizer.from_pretrained(tmp_path),
        AutoModelForCausalLM.from_pretrained(tmp_path),
    )
    assert tokenizer("9+9=")["input_ids"] == list(policy.encode("9+9="))
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 1)
    ids = torch.tensor([policy.encode("9+9=")])
    with torch.no_grad():
        assert torch.equal(model(input_ids=ids).logits, policy.model(input_ids=ids).logits)


def test_unknown_characters_become_padding_and_do_not_crash():
    assert tiny_tokenizer(Vocabulary(("a", "b"), "characters"))("aXb")["input_ids"] == [2, 0, 3]


WORDS = Vocabulary(("<think>", "</think>", "12", "1", "2", "+", ";"), "words")


def test_words_go_through_the_tokenizer_and_back():
    policy = tiny_policy(TinyPolicy(layers=1), WORDS, 0)
    ids = policy.encode("<think> 12 + 2 ; 1 </think>")
    assert ids == (2, 4, 7, 6, 8, 5, 3)
    assert policy.encode("<think>  12\n+ 2 ;1") == (2, 4, 7, 6, 0)
    assert policy.decode([ids, [*ids[:3], 1], [0, 5, 0]]) == [
        "<think> 12 + 2 ; 1 </think>",
        "<think> 12 +",
        "1",
    ]


def test_a_tokenizer_of_words_loads_with_transformers(tmp_path):
    words = tiny_tokenizer(Vocabulary((*WORDS.tokens, ".", ",", "n't"), "words"))
    words.save_pretrained(tmp_path)
    tiny_policy(TinyPolicy(layers=1), WORDS, 0).model.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = "<think> 12 . 1 , 2 n't </think>"
    assert loaded(text)["input_ids"] == words(text)["input_ids"] == [2, 4, 9, 5, 10, 6, 11, 3]
    assert loaded.decode([2, 4, 9, 5, 10, 6, 11, 3, 1], skip_special_tokens=True) == text
    assert (loaded.pad_token_id, loaded.eos_token_id) == (0, 1)
