# Every target sets up what it needs. Repeated runs are instant: stamps in .make/ say what is done.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .make

# The folders that hold Python code, as far as they exist.
CODE := $(wildcard connect connectors worker rest sluice tests benchmarks)

.PHONY: help setup demo up down test check bench clean

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMPS)/parts ## Create .venv, install everything, fetch Java, Kafka and Spark parts

demo: setup ## Copy a PostgreSQL shop into Spark tables, with live changes, and prove it equal
	$(BIN)/sluice demo

up: setup ## Start an embedded broker, database and worker, for trying things out
	$(BIN)/sluice up

down: setup ## Stop what 'make up' started
	$(BIN)/sluice down

# In two processes, a file in one of them: most tests wait for real parts. In order, for the longest come first. Compiled before,
# for workers start by the hundred, and where PYTHONDONTWRITEBYTECODE is set each would compile what it imports.
test: setup ## Run every test, with the real broker, database and Spark
	$(BIN)/python -m compileall -q $(CODE)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

check: $(STAMPS)/packages ## Lint, formatting, types and the import rule
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup ## Run the benchmarks; each prints one JSON line
	$(BIN)/python -m benchmarks

clean: ## Remove .venv, caches and build leftovers (downloaded jars stay in the user's cache)
	rm -rf $(VENV) $(STAMPS) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

# A .venv without pip is one that was interrupted, or made while the venv module was incomplete: made again.
$(STAMPS)/venv: scripts/create_venv.sh
	@mkdir -p $(STAMPS)
	@bash scripts/create_venv.sh "$(PYTHON)" "$(VENV)"
	@touch $@

$(STAMPS)/packages: $(STAMPS)/venv constraints.txt pyproject.toml
	@echo "Installing packages into $(VENV)" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(STAMPS)/parts: $(STAMPS)/packages sluice/embedded/jarsets.py
	@$(BIN)/sluice setup
	@touch $@
