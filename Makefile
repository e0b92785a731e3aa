# Every target sets up what it needs. Repeated runs are fast: stamps in .make/ record completed steps.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .make

# Directories with Python code.
CODE := connect connectors worker rest sluice scripts tests benchmarks

.PHONY: help setup demo up down compiled test test-all test-share test-seconds unit check site dist release bench clean

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMPS)/services ## Create .venv, install everything, fetch Java, Kafka, and Spark

demo: setup ## Replicate a PostgreSQL shop into Spark tables with live changes, and verify the result
	$(BIN)/sluice demo

up: setup ## Start an embedded broker, database, and worker
	$(BIN)/sluice up

down: setup ## Stop the services that 'make up' started
	$(BIN)/sluice down

# Four processes, one file at a time each: most tests wait for services. Compiled before, because tests start hundreds of workers,
# and with PYTHONDONTWRITEBYTECODE each would compile its imports, and each of the four processes all tests.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest
PARALLEL := -n 4 --dist loadfile --no-loadscope-reorder

compiled: setup $(STAMPS)/test-services $(STAMPS)/assertions
	@$(BIN)/python -m compileall -q -j 0 $(CODE)

# pytest compiles tests in its own way and keeps the results. Once, or each of the four processes would compile all tests. A test
# that cannot be collected is reported by the run.
$(STAMPS)/assertions: $(STAMPS)/packages
	@echo "Compiling tests" >&2
	@for part in tests/unit "tests --ignore=tests/unit"; do $(PYTEST) --collect-only --all $$part > /dev/null & done; wait
	@touch $@

test: compiled ## Test each behavior once, with real brokers, databases, and Spark: 15 minutes on two cores
	$(PYTEST) $(PARALLEL)

test-all: compiled ## Run every test, also the long ones, in random order of files
	SLUICE_SEED=$${SLUICE_SEED:-$$RANDOM} SLUICE_EXAMPLES=$${SLUICE_EXAMPLES:-100} $(PYTEST) $(PARALLEL) --all

# As CI does after 'make test': consecutive numbers run all parts.
SHARE ?= $(shell git rev-list --count HEAD)

test-share: compiled ## Run a part of the long tests: make test-share SHARE=n
	$(PYTEST) $(PARALLEL) --share=$(SHARE) --durations=30

# One process per core, so that tests wait less for each other.
test-seconds: compiled ## Run every test and store what the tests of each file take in tests/seconds.json
	$(PYTEST) $(PARALLEL) -n 2 --all --record-seconds

unit: $(STAMPS)/packages ## Run the unit tests: no broker, no JVM, about two minutes
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" tests/unit

check: $(STAMPS)/packages ## Check formatting, types, imports, and structure
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_structure.py
	$(BIN)/python scripts/check_test_seconds.py

site: $(STAMPS)/packages ## Build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

dist: $(STAMPS)/packages ## Build wheel, sdist, SBOM, license report, and notes of unreleased changes into dist/
	$(BIN)/python scripts/build_release.py --unreleased

release: check ## The same for the version in pyproject.toml; refuses entries without a version in CHANGELOG.md
	$(BIN)/python scripts/build_release.py

bench: setup $(STAMPS)/test-services ## Run the benchmarks; each prints one JSON line
	$(BIN)/python -m benchmarks

clean: ## Remove .venv, caches, and build files (downloads stay in the user's cache)
	rm -rf $(VENV) $(STAMPS) build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

# Recreates a .venv without pip, which was interrupted or created while the venv module was incomplete.
$(STAMPS)/venv: scripts/create_venv.sh
	@mkdir -p $(STAMPS)
	@bash scripts/create_venv.sh "$(PYTHON)" "$(VENV)"
	@touch $@

$(STAMPS)/packages: $(STAMPS)/venv constraints.txt pyproject.toml
	@echo "Installing packages into $(VENV)" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all,dev]'
	@touch $@

$(STAMPS)/services: $(STAMPS)/packages sluice/embedded/jar_sets.py
	@$(BIN)/sluice setup
	@touch $@

# Servers that only tests start, fetched before, so that no test waits for a download.
$(STAMPS)/test-services: $(STAMPS)/services tests/support/jar_sets.py tests/support/chromium.py
	@$(BIN)/python -m tests.support.fetch
	@touch $@
