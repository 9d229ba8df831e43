# Everything runs from .venv, which is made from requirements.lock. PYTHON= names another interpreter (3.11+).

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: venv check test browser demo bench bench-quality lock clean

venv: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=...") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	# The lock is complete. Left to resolve, an older pip looks at newer releases for a package named with extras.
	$(PIP) install --no-deps --require-hashes -r requirements.lock
	$(PIP) check
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest -q tests/house

test: check
	$(BIN)/python -m pytest -q -n 2 --dist worksteal --ignore=tests/house -m "not browser"

browser: $(STAMP)
	$(BIN)/python -m pytest -q -m browser tests/paths/test_browser.py

demo: $(STAMP)
	$(BIN)/memory demo

bench: $(STAMP)
	$(BIN)/python -m tests.bench
	$(BIN)/python -m tests.bench.gateway
	$(BIN)/python -m tests.bench.throttle
	$(BIN)/python -m tests.bench.overhead
	$(BIN)/python -m tests.bench.workers

bench-quality: $(STAMP)
	$(BIN)/python -m tests.bench.quality

lock:
	uv pip compile pyproject.toml --extra dev --generate-hashes --no-emit-index-url --no-emit-find-links \
		--universal --python-version 3.11 --no-header --no-annotate --quiet --output-file requirements.lock

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
