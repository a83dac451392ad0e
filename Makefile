# The only entry: `make help` lists what there is. Every target sets up what it needs, on a machine that has only Python 3.11 and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo kubectl test pages explore lint format bench bench-quick conformance clean

help:            ## what can be made here
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | sort | awk -F'\t' '{printf "  make %-14s %s\n", $$1, $$2}'

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Fairway needs Python 3.11 or newer; '$(PYTHON)' is older. Try: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

setup: $(READY)  ## the virtual environment in .venv

demo: $(READY)   ## quota, waiting, preemption and the way back: real jobs, live in the terminal
	@$(BIN)/python examples/demo.py

test: $(READY)   ## all tests; gets or builds kubectl where there is none
	KUBECTL="$$(tools/kubectl/get)" $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --ignore tests/pages

pages: $(READY)  ## run every command of README, docs and help texts as it is written
	KUBECTL="$$(tools/kubectl/get)" $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal tests/pages

explore: $(READY) ## the property tests with new examples, and more of them
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -k "propert or fuzz or stateful"

kubectl: $(READY) ## get or build kubectl, and say where it is
	@tools/kubectl/get

lint: $(READY)   ## style, types and the direction of imports
	$(BIN)/ruff check src tests bench examples tools
	$(BIN)/ruff format --check src tests bench examples tools
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## put the sources into shape
	$(BIN)/ruff check --fix src tests bench examples tools
	$(BIN)/ruff format src tests bench examples tools

bench: $(READY)  ## one table: time, memory and whether each goal is met (about twelve minutes)
	$(BIN)/python -m bench

bench-quick: $(READY) ## the same table at a tenth of the size, without goals
	$(BIN)/python -m bench --quick

conformance: $(READY) ## replay the recorded decisions of Kueue
	$(BIN)/python -m fairway.testing.conformance tests/conformance/data/*.jsonl.gz

clean:           ## remove what was set up and built
	rm -rf $(VENV) .venv-go .bench .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
