# make quickstart   train, evaluate, export and watch a policy heal (about 3 minutes)
# make test         the test suite
# Everything installs itself into .venv first; VENV=/elsewhere puts it elsewhere.

VENV ?= .venv
PYTHON ?= $(firstword $(shell command -v python3.11 python3.12 python3 2>/dev/null))
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check
export OMP_NUM_THREADS ?= 1

.PHONY: venv quickstart test packaging check format bench benchmark wheel clean help

help:
	@sed -n 's/^# //p' Makefile | head -3
	@echo "make check        format, lint, types, import contracts, tests"
	@echo "make bench        every speed figure -> bench/results.json"
	@echo "make benchmark    regenerate every published number (hours)"

venv: $(STAMP)

# torch comes first and by itself: a later resolver step then keeps the CPU build it finds.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q -c constraints.txt torch==2.13.0
	$(PIP) install -q -c constraints.txt -e ".[train,lab,dev]"
	touch $(STAMP)

quickstart: $(STAMP)
	$(BIN)/selfheal quickstart

test: $(STAMP)
	$(BIN)/python -m pytest -m "not packaging"

packaging: $(STAMP)
	$(BIN)/python -m pytest -m packaging tests/packaging

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports
	$(BIN)/python -m pytest

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)
	$(BIN)/python bench/run.py

benchmark: $(STAMP)
	$(BIN)/python bench/benchmark.py

wheel: $(STAMP)
	$(BIN)/python -m build --wheel --outdir dist .

clean:
	rm -rf dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
