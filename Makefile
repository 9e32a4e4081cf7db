# make run    sets up what is needed and optimizes a shipped problem (a dry run where there is no GPU)
# make test   sets up and runs the tests
PYTHON ?= python3
PROBLEM ?= evals/problems/rms_norm_residual.py
ARGS ?=
PYTEST_ARGS ?=
BIN := .venv/bin

.PHONY: env env-dev run test gpu-test lint types layers wheel tables suite baselines clean

env:
	@$(PYTHON) setup_env.py

env-dev:
	@$(PYTHON) setup_env.py --dev

run: env
	$(BIN)/warpsmith optimize $(PROBLEM) --budget 12 --seconds 200 $(ARGS)

test: env-dev
	$(BIN)/python -m pytest -m "not gpu and not live" -n 2 --dist loadfile $(PYTEST_ARGS)

gpu-test: env-dev
	$(BIN)/python -m pytest -m gpu $(PYTEST_ARGS)

lint: env-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: env-dev
	mkdir -p .types && ln -sfn .. .types/warpsmith
	$(BIN)/mypy

layers: env-dev
	$(BIN)/lint-imports

# Builds the wheel, installs it apart from this folder and runs it where decoys of our folder names lie.
wheel: env-dev
	rm -rf build dist
	$(BIN)/python -m build --wheel --outdir dist .
	.ci/check_wheel dist/*.whl

tables: env-dev
	$(BIN)/python -m warpsmith.evals.tables

baselines: env
	$(BIN)/python -m warpsmith.evals.run_baselines

suite: env
	$(BIN)/python -m warpsmith.evals.run_suite

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
