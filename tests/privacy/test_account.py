from __future__ import annotations

import json
import stat

import pytest

from hanse.errors import RecipeError, RunError
from hanse.privacy.account import Account, Terms
from hanse.privacy.guarantee import COVERED, NOT_COVERED, SEEDED, UNBOUNDED, statement
from hanse.recipe.privacy import PrivacySpec

pytest.importorskip("dp_accounting")
SPEC = PrivacySpec(enabled=True, epsilon=2.0)


def terms(steps: int = 20, spec: PrivacySpec = SPEC, **changes) -> Terms:
    return Terms.of(spec, **({"problems": 100, "expected": 10, "steps": steps, "whose": "a"} | changes))


def test_terms_spend_the_budget_exactly_over_the_whole_run():
    found = terms()
    assert found.rate == 0.1 and found.delta == pytest.approx(100**-1.1)
    assert 1.98 < found.epsilon(20) <= 2.0
    assert found.within(20) and not found.within(22)
    assert terms(spec=PrivacySpec(enabled=True, noise=3.0)).noise == 3.0


def test_terms_that_cannot_be_are_refused_by_field():
    with pytest.raises(RecipeError, match=r"grpo.prompts_per_step: client 'b' has 5 problems"):
        terms(problems=5, whose="client 'b'")
    with pytest.raises(RecipeError, match=r"privacy.epsilon: no noise"):
        terms(spec=PrivacySpec(enabled=True, epsilon=1e-3, delta=1e-12))


def test_charges_survive_and_the_key_is_for_the_owner_alone(tmp_path):
    account = Account.open(tmp_path / "private", terms(), 0, 3)
    assert account.charge("one", 5) and account.charge("two", 5)
    path = tmp_path / "private" / "client-0003.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = Account.open(tmp_path / "private", terms(), 0, 3)
    assert again.charges == {"one": 5, "two": 5}
    assert again.stream == account.stream and again.epsilon == account.epsilon > 0
    other = Account.open(tmp_path / "elsewhere", terms(), 0, 3)
    assert other.stream != account.stream


def test_a_charge_is_on_disk_before_it_is_granted(tmp_path):
    account = Account.open(tmp_path, terms(), 0, 0)
    account.charge("one", 5)
    lines = (tmp_path / "client-0000.jsonl").read_text().splitlines()
    assert json.loads(lines[-1]) == {"for": "one", "steps": 5}


def test_the_same_purpose_is_charged_once_and_the_budget_is_never_passed(tmp_path):
    account = Account.open(tmp_path, terms(), 0, 0)
    assert all(account.charge(f"round {i}", 5) for i in range(4))
    assert account.steps == 20
    assert not account.charge("round 4", 5)
    assert account.charge("round 3", 5) and account.steps == 20
    assert account.epsilon <= 2.0
    assert len((tmp_path / "client-0000.jsonl").read_text().splitlines()) == 5


def test_more_rounds_get_no_more_noise_and_no_more_budget(tmp_path):
    first = Account.open(tmp_path, terms(20), 0, 0)
    more = Account.open(tmp_path, terms(40), 0, 0)
    assert more.terms == first.terms != terms(40)


def test_a_line_cut_short_by_a_crash_is_no_charge(tmp_path):
    Account.open(tmp_path, terms(), 0, 0).charge("one", 5)
    path = tmp_path / "client-0000.jsonl"
    path.write_bytes(path.read_bytes() + b'{"for": "two", "st')
    account = Account.open(tmp_path, terms(), 0, 0)
    assert account.charges == {"one": 5}
    account.charge("three", 5)
    assert Account.open(tmp_path, terms(), 0, 0).charges == {"one": 5, "three": 5}


@pytest.mark.parametrize(
    "text", ["", "nonsense\n", "{}\n", "[]\n", '{"key": "00"}\n', '{"key": "zz", "noise": 1}\n']
)
def test_a_damaged_account_stops_the_client(tmp_path, text):
    (tmp_path / "client-0000.jsonl").write_text(text)
    with pytest.raises(RunError, match="is damaged"):
        Account.open(tmp_path, terms(), 0, 0)


@pytest.mark.parametrize("line", ["{}", '{"for": "x", "steps": -3}', '{"for": "x"}', "junk"])
def test_a_damaged_charge_stops_the_client(tmp_path, line):
    Account.open(tmp_path, terms(), 0, 0)
    path = tmp_path / "client-0000.jsonl"
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(RunError, match="is damaged"):
        Account.open(tmp_path, terms(), 0, 0)


def test_an_account_is_for_one_set_of_problems_and_one_recipe(tmp_path):
    Account.open(tmp_path, terms(binding="x"), 0, 0)
    with pytest.raises(RunError, match="other problems or another recipe"):
        Account.open(tmp_path, terms(binding="y"), 0, 0)
    assert (
        Account.in_memory(
            terms(binding="x", spec=PrivacySpec(enabled=True, noise=1.0, key="seed")), 0, 0
        ).stream
        != Account.in_memory(
            terms(binding="y", spec=PrivacySpec(enabled=True, noise=1.0, key="seed")), 0, 0
        ).stream
    )


def test_a_seeded_account_is_the_same_everywhere_and_guarantees_nothing():
    spec = PrivacySpec(enabled=True, epsilon=2.0, key="seed")
    a, b = (Account.in_memory(terms(spec=spec), 7, 1) for _ in range(2))
    assert a.stream == b.stream and a.terms.seeded
    assert statement({"a": {"epsilon": 2.0, "delta": 1e-3, "seeded": True}}, together=True) == SEEDED


def test_statements():
    spent = {"a": {"epsilon": 1.5, "delta": 1e-3, "seeded": False}}
    words = statement(spent, together=True)
    assert words.startswith(COVERED) and NOT_COVERED in words and words.endswith("a (1.5, 1.0e-03).")
    assert COVERED not in statement(spent, together=False)
    assert statement({"a": {"epsilon": None, "delta": 1e-3, "seeded": False}}, together=True) == UNBOUNDED
    assert statement({}, together=True) == UNBOUNDED


def test_a_delta_that_allows_publishing_a_problem_is_refused():
    with pytest.raises(RecipeError, match=r"privacy.delta: 0.01 allows publishing one of the 100 problems"):
        terms(spec=PrivacySpec(enabled=True, noise=1.0, delta=0.01))
    assert terms(spec=PrivacySpec(enabled=True, noise=1.0, delta=0.009)).delta == 0.009
    for problems in range(1, 30):  # the default never is
        terms(problems=problems, expected=1, spec=PrivacySpec(enabled=True, noise=1.0))
