import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.errors import RecipeError
from hanse.recipe.tasks import FileTask
from hanse.tasks.build import build_task
from hanse.tasks.problem import split_of
from hanse.tasks.rows import problem_id, split_key, task_from_rows

SPLITS = ("train", "validation", "held_out")


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def numbered(n, **more):
    return [{"prompt": f"question {i}", "answer": str(i), "level": i % 3, **more} for i in range(n)]


def by_prompt(task):
    return {str(p.prompt): (split, p) for split in SPLITS for p in task.problems(split)}


def refusal(spec):
    with pytest.raises(RecipeError) as caught:
        build_task(spec)
    return caught.value


def test_rows_become_problems(tmp_path):
    task = build_task(FileTask(type="jsonl", path=write(tmp_path / "a.jsonl", numbered(200))))
    problems = by_prompt(task)
    assert len(problems) == 200
    split, problem = problems["question 7"]
    assert split == split_of("question 7", 0.1, 0.1)
    assert (problem.answer, problem.metadata) == ("7", {"level": 1})
    assert [r.name for r in task.default_rewards] == ["exact"]
    assert task.name == "jsonl"


def test_ids_do_not_depend_on_the_place_in_the_file(tmp_path):
    rows = numbered(100)
    one = build_task(FileTask(type="jsonl", path=write(tmp_path / "a.jsonl", rows)))
    two = build_task(FileTask(type="jsonl", path=write(tmp_path / "b.jsonl", rows[::-1])))
    assert {p.id for p in one.problems("train")} == {p.id for p in two.problems("train")}


def test_parquet_equals_jsonl(tmp_path):
    rows = numbered(120)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    lines = build_task(FileTask(type="jsonl", path=write(tmp_path / "a.jsonl", rows)))
    table = build_task(FileTask(type="parquet", path=str(tmp_path / "a.parquet")))
    assert all(lines.problems(split) == table.problems(split) for split in SPLITS)


def test_a_folder_is_read_in_the_order_of_names(tmp_path):
    write(tmp_path / "b.jsonl", numbered(200)[100:])
    write(tmp_path / "a.jsonl", numbered(200)[:100])
    folder = build_task(FileTask(type="jsonl", path=str(tmp_path), limit=150))
    assert set(by_prompt(folder)) == {f"question {i}" for i in range(150)}


def test_held_out_file_wins_over_training_rows(tmp_path):
    train, held_out = numbered(100), [*numbered(105)[95:], {"prompt": "question 99", "answer": "again"}]
    task = build_task(
        FileTask(
            type="jsonl",
            path=write(tmp_path / "a.jsonl", train),
            held_out_path=write(tmp_path / "b.jsonl", held_out),
            validation_fraction=0.3,
        )
    )
    assert [p.prompt for p in task.problems("held_out")] == [f"question {i}" for i in range(95, 105)]
    assert all(split_of(str(p.prompt), 0.0, 0.3) == "validation" for p in task.problems("validation"))
    assert len(task.problems("train")) + len(task.problems("validation")) == 95


def test_of_equal_prompts_the_first_is_kept(tmp_path):
    rows = [*numbered(100), {"prompt": "question 3", "answer": "other"}]
    problems = by_prompt(build_task(FileTask(type="jsonl", path=write(tmp_path / "a.jsonl", rows))))
    assert problems["question 3"][1].answer == "3"


ROLES, TEXTS = st.sampled_from(["user", "system"]), st.sampled_from(["", "a", "b", "c d", "é", "7"])
MESSAGES = st.builds(lambda role, text: {"role": role, "content": text}, ROLES, TEXTS)
PROMPTS = st.one_of(TEXTS, st.lists(MESSAGES, min_size=1, max_size=2))


@settings(max_examples=60, deadline=None)
@given(train=st.lists(PROMPTS, max_size=12), held_out=st.none() | st.lists(PROMPTS, min_size=1, max_size=8))
def test_no_prompt_is_in_two_splits(train, held_out):
    def rows(prompts):
        return [(f"row {i}", {"prompt": prompt, "answer": "x"}) for i, prompt in enumerate(prompts)]

    spec = FileTask(type="jsonl", path="x", held_out_fraction=0.3, validation_fraction=0.3)
    try:
        task = task_from_rows(spec, rows(train), None if held_out is None else rows(held_out), "f")
    except RecipeError as error:
        assert "distinct problems" in error.problem
        return
    keys = [{split_key(p.prompt) for p in task.problems(split)} for split in SPLITS]
    assert keys[0].isdisjoint(keys[1] | keys[2]) and keys[1].isdisjoint(keys[2])
    ids = [p.id for split in SPLITS for p in task.problems(split)]
    assert len(ids) == len(set(ids))
    assert {problem_id(p) for p in train if split_key(p) not in keys[2]} <= set(ids)


class TestPrompts:
    def one(self, tmp_path, row, **fields):
        rows = [{**row, "n": i} for i in range(1)]
        filler = write(tmp_path / "h.jsonl", [{**row, **{k: "other" for k, v in row.items() if v == "Q"}}])
        if "template" not in fields and isinstance(row.get("prompt"), list):
            filler = write(tmp_path / "h.jsonl", [{**row, "prompt": "held out"}])
            fields.setdefault("chat", True)
        spec = FileTask(
            type="jsonl", path=write(tmp_path / "a.jsonl", rows), held_out_path=filler,
            validation_fraction=0, **fields,
        )  # fmt: skip
        return build_task(spec).problems("train")[0]

    def test_plain(self, tmp_path):
        assert self.one(tmp_path, {"prompt": "Q", "answer": 3}).prompt == "Q"

    def test_numbers_are_answers(self, tmp_path):
        assert self.one(tmp_path, {"prompt": "Q", "answer": 3}).answer == "3"
        assert self.one(tmp_path, {"prompt": "Q", "answer": 0.5}).answer == "0.5"
        assert self.one(tmp_path, {"prompt": "Q", "answer": None}).answer is None

    def test_chat_wraps_strings(self, tmp_path):
        problem = self.one(tmp_path, {"prompt": "Q", "answer": "1"}, chat=True, system_prompt="S")
        assert problem.prompt == [{"role": "system", "content": "S"}, {"role": "user", "content": "Q"}]

    def test_messages_stay_and_get_a_system_prompt_once(self, tmp_path):
        user, system = {"role": "user", "content": "U"}, {"role": "system", "content": "own"}
        wanted = {"role": "system", "content": "S"}
        assert self.one(tmp_path, {"prompt": [user], "answer": "1"}, system_prompt="S").prompt == [
            wanted,
            user,
        ]
        prompt = [system, user]
        assert self.one(tmp_path, {"prompt": prompt, "answer": "1"}, system_prompt="S").prompt == prompt

    def test_template_and_metadata(self, tmp_path):
        row = {"question": "Q", "solution": "so \\boxed{4}", "level": "Level 3"}
        problem = self.one(
            tmp_path, row, template="{question}\nAnswer:", answer="solution", answer_format="boxed"
        )
        assert (problem.prompt, problem.answer) == ("Q\nAnswer:", "4")
        assert problem.metadata == {**row, "n": 0}

    def test_no_answer_wanted(self, tmp_path):
        assert self.one(tmp_path, {"prompt": "Q"}, answer="").answer is None

    def test_gsm8k_brings_the_reward_math(self, tmp_path):
        rows = [{"question": f"q{i}", "answer": f"because\n#### {i}"} for i in range(100)]
        spec = FileTask(
            type="jsonl", path=write(tmp_path / "a.jsonl", rows), prompt="question", answer_format="gsm8k"
        )
        task = build_task(spec)
        assert task.problems("train")[0].answer == task.problems("train")[0].prompt[1:]
        assert [r.name for r in task.default_rewards] == ["math"]


class TestRefusals:
    def test_missing_file_says_where_it_looked(self):
        error = refusal(FileTask(type="jsonl", path="nowhere.jsonl"))
        assert error.field == "task.path" and "nowhere.jsonl does not exist" in error.problem

    def test_missing_held_out_file(self, tmp_path):
        path = write(tmp_path / "a.jsonl", numbered(3))
        assert refusal(FileTask(type="jsonl", path=path, held_out_path="no")).field == "task.held_out_path"

    def test_bad_json_names_the_line(self, tmp_path):
        (tmp_path / "a.jsonl").write_text('{"prompt": "a", "answer": "b"}\n\n{"prompt": \n')
        error = refusal(FileTask(type="jsonl", path=str(tmp_path / "a.jsonl")))
        assert error.field == "task.path"
        assert "a.jsonl, line 3 is not JSON (Expecting value, column 11)" in error.problem

    def test_deep_json(self, tmp_path):
        (tmp_path / "a.jsonl").write_text("[" * 100_000)
        assert "line 1 is not JSON" in refusal(FileTask(type="jsonl", path=str(tmp_path / "a.jsonl"))).problem

    def test_json_that_is_no_object(self, tmp_path):
        (tmp_path / "a.jsonl").write_text("[1]\n")
        assert "JSON list, not an object" in refusal(FileTask(type="jsonl", path=str(tmp_path))).problem

    def test_not_utf8(self, tmp_path):
        (tmp_path / "a.jsonl").write_bytes(b'{"prompt": "\xff"}')
        assert "cannot be read" in refusal(FileTask(type="jsonl", path=str(tmp_path))).problem

    def test_not_parquet(self, tmp_path):
        (tmp_path / "a.parquet").write_text("{}")
        error = refusal(FileTask(type="parquet", path=str(tmp_path / "a.parquet")))
        assert error.field == "task.path" and 'task.type = "jsonl"' in error.remedy

    def test_empty_folder(self, tmp_path):
        assert "no *.parquet" in refusal(FileTask(type="parquet", path=str(tmp_path))).problem

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"prompt": "question"}, "task.prompt"),
            ({"answer": "solution"}, "task.answer"),
            ({"template": "{question}"}, "task.template"),
        ],
    )
    def test_missing_column_names_those_that_exist(self, tmp_path, fields, field):
        error = refusal(FileTask(type="jsonl", path=write(tmp_path / "a.jsonl", numbered(3)), **fields))
        assert error.field == field
        assert "a.jsonl, line 1" in error.problem and "'prompt', 'answer', 'level'" in error.problem

    @pytest.mark.parametrize("template", ["{prompt", "{}", "{prompt.x}", "{prompt[x]}"])
    def test_bad_template(self, tmp_path, template):
        path = write(tmp_path / "a.jsonl", numbered(3))
        assert refusal(FileTask(type="jsonl", path=path, template=template)).field == "task.template"

    @pytest.mark.parametrize("prompt", [3, None, [], ["text"], [{"role": "user"}], {"role": "user"}])
    def test_wrong_type_of_prompt(self, tmp_path, prompt):
        path = write(tmp_path / "a.jsonl", [{"prompt": prompt, "answer": "1"}])
        assert refusal(FileTask(type="jsonl", path=path)).field == "task.prompt"

    def test_wrong_type_of_answer(self, tmp_path):
        path = write(tmp_path / "a.jsonl", [{"prompt": "q", "answer": ["1"]}])
        assert refusal(FileTask(type="jsonl", path=path)).field == "task.answer"

    def test_answer_without_its_mark(self, tmp_path):
        path = write(tmp_path / "a.jsonl", [{"prompt": "q", "answer": "5"}])
        assert refusal(FileTask(type="jsonl", path=path, answer_format="gsm8k")).field == "task.answer_format"

    def test_system_prompt_without_chat(self, tmp_path):
        path = write(tmp_path / "a.jsonl", numbered(3))
        assert refusal(FileTask(type="jsonl", path=path, system_prompt="S")).field == "task.system_prompt"

    def test_nothing_held_out(self, tmp_path):
        path = write(tmp_path / "a.jsonl", [{"prompt": "0", "answer": "1"}])
        error = refusal(FileTask(type="jsonl", path=path, held_out_fraction=0.01))
        assert error.field in ("task.held_out_fraction", "task") and "1 distinct problem" in error.problem

    def test_empty_held_out_file(self, tmp_path):
        path, empty = write(tmp_path / "a.jsonl", numbered(9)), write(tmp_path / "e.jsonl", [])
        assert refusal(FileTask(type="jsonl", path=path, held_out_path=empty)).field == "task.held_out_path"


def test_half_of_a_surrogate_pair_is_refused_by_line_and_column(tmp_path):
    rows = numbered(30)
    rows[6]["answer"] = "\ud800"
    error = refusal(FileTask(type="jsonl", path=write(tmp_path / "a.jsonl", rows)))
    assert error.field == "task.path"
    assert f"{tmp_path / 'a.jsonl'}, line 7, column 'answer'" in error.problem
    assert str(error).isascii()
    rows[6] |= {"answer": "6", "\udfff": [1]}
    error = refusal(FileTask(type="jsonl", path=write(tmp_path / "a.jsonl", rows)))
    assert "line 7, column '\\udfff'" in error.problem


def test_escaped_characters_of_two_halves_are_fine(tmp_path):
    rows = [*numbered(100), {"prompt": "\U0001f600?", "answer": "é"}]
    path = write(tmp_path / "a.jsonl", rows)
    assert "\\ud83d\\ude00" in (tmp_path / "a.jsonl").read_text()
    assert "\U0001f600?" in by_prompt(build_task(FileTask(type="jsonl", path=path)))
