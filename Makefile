# Everything runs in .venv, so nothing outside this folder is touched and a system Python that
# refuses pip (PEP 668) does not matter. Stamps in .venv make a second call install nothing.

VENV   := .venv
BIN    := $(VENV)/bin
LOWEST := .venv-lowest
# Names to try, newest first; `make PYTHON=/path/to/python3.12 test` decides by hand.
PYTHON ?= python3.13 python3.12 python3.11 python3

# Tests are spread over all cores (`make WORKERS=1 test`: not); each worker has one BLAS thread.
WORKERS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
ifneq ($(WORKERS),1)
SPREAD  := -n $(WORKERS) --dist worksteal
THREADS := env OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
endif

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test test-all test-lowest test-sdist test-dropin docs bench clean
.DEFAULT_GOAL := help

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.stamp-cli  ## fit the shipped table, impute its 16 missing values, write report.html
	@$(BIN)/eigengap demo --force

test: $(VENV)/.stamp-test  ## style, types, import rules, doctests, tests; numbers on other BLAS kernels too
	@$(CHECKS)

test-all: $(VENV)/.stamp-test  ## the same with slow cases; a case that cannot run fails
	@export EIGENGAP_REQUIRE_ALL=1; $(CHECKS)

test-lowest: $(LOWEST)/.stamp  ## tests with the oldest versions that pyproject.toml allows
	@$(THREADS) $(LOWEST)/bin/python -m pytest -q $(SPREAD)

test-sdist: $(VENV)/.stamp-uv  ## build the source archive and run its own tests in an empty folder
	@rm -rf build/sdist && $(BIN)/uv build -q --sdist --out-dir build/sdist
	@cd build/sdist && tar -xzf eigengap-*.tar.gz && $(MAKE) -C eigengap-*/ test

# Apart from `make test`: more than a minute on one core, most of it scikit-learn's sparse tables.
test-dropin: $(VENV)/.stamp-test  ## scikit-learn's own tests, with our classes in their place
	@$(THREADS) $(BIN)/python -m tests.dropin $(SPREAD)

docs: $(VENV)/.stamp-test $(VENV)/.stamp-docs  ## the pages, their code and links, every script of the gallery
	@$(THREADS) $(BIN)/python -m pytest -q $(SPREAD) tests/docs
	@$(BIN)/sphinx-build -W --keep-going -n -q docs docs/_build/html
	@echo "Wrote docs/_build/html/index.html"

bench: $(VENV)/.stamp-bench  ## side by side with other packages; writes benchmarks/results/ and the README
	@$(BIN)/python -m benchmarks
	@$(BIN)/python -m benchmarks.speed_table

clean:  ## remove .venv, caches and what the demo wrote
	@rm -rf $(VENV) $(LOWEST) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache \
	  .hypothesis breast_cancer_filled.csv report.html docs/_build docs/api.rst docs/auto_api docs/auto_gallery
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# NumPy's own annotations change with its versions, and with them what mypy says of ours: types are
# judged by the version that they were written for, as style is by pinned tools.
TYPED_WITH := 2.4
define TYPES
sh -c 'here=$$($(BIN)/python -c "import numpy; print(numpy.__version__)"); \
case $$here in $(TYPED_WITH).*) exec $(BIN)/mypy;; \
*) echo "not run: types are judged with numpy $(TYPED_WITH), here is $$here";; esac'
endef

# One step after another, each named, stopping at the first that fails.
define CHECKS
set -e; \
step() { printf '%-16s' "$$1"; shift; "$$@"; }; \
step 'ruff check'  $(BIN)/ruff check; \
step 'ruff format' $(BIN)/ruff format --check; \
step 'mypy'        $(TYPES); \
printf '%-16s' 'lint-imports'; \
if report=$$($(BIN)/lint-imports --no-logo 2>&1); \
then echo "$$report" | grep '^Contracts:'; else echo; echo "$$report"; exit 1; fi; \
step 'pytest' $(BIN)/python -c 'from tests.kernels import described; print(described())'; \
$(THREADS) $(BIN)/python -m pytest -q $(SPREAD); \
$(THREADS) $(BIN)/python -m tests.kernels $(SPREAD)
endef

# --- installing ------------------------------------------------------------------------------

$(VENV)/.stamp-cli:   EXTRAS := cli
$(VENV)/.stamp-test:  EXTRAS := all,test
$(VENV)/.stamp-docs:  EXTRAS := all,docs
$(VENV)/.stamp-bench: EXTRAS := all,bench

$(VENV)/.stamp-cli $(VENV)/.stamp-test $(VENV)/.stamp-docs $(VENV)/.stamp-bench: pyproject.toml | $(VENV)/.stamp-venv
	@echo "Installing eigengap[$(EXTRAS)] into $(VENV) (once; a minute or two) ..." >&2
	@$(BIN)/python -m pip install -qq --editable '.[$(EXTRAS)]'
	@touch $@ $(VENV)/.stamp-cli  # every set of extras holds those of the command line

# uv is asked where pip cannot: the lowest versions, an archive built apart.
$(VENV)/.stamp-uv: | $(VENV)/.stamp-venv
	@$(BIN)/python -m pip install -qq uv
	@touch $@

$(LOWEST)/.stamp: pyproject.toml | $(VENV)/.stamp-uv
	@echo "Installing the lowest versions into $(LOWEST) (once; a minute or two) ..." >&2
	@$(BIN)/uv venv -q --clear --python $(BIN)/python $(LOWEST)
	@$(BIN)/uv pip install -q --python $(LOWEST)/bin/python --resolution lowest-direct \
	  --editable '.[all,test]'
	@touch $@

$(VENV)/.stamp-venv:
	@if $(BIN)/python -m pip --version >/dev/null 2>&1; then touch $@; exit 0; fi; \
	novenv=; old=; \
	for name in $(PYTHON); do \
	  "$$name" -c '' >/dev/null 2>&1 || continue; \
	  if ! "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then old=$${old:-$$name}; \
	  elif ! "$$name" -c 'import ensurepip, venv' >/dev/null 2>&1; then novenv=$$name; \
	  else \
	    echo "Making $(VENV) with $$("$$name" --version) ..." >&2; \
	    "$$name" -m venv $(VENV) && touch $@; exit $$?; \
	  fi; \
	done; \
	if [ -n "$$novenv" ]; then \
	  echo "$$("$$novenv" --version) is here, but it cannot make a virtual environment." >&2; \
	  echo "On Debian and Ubuntu: sudo apt install python3-venv    Then run make again." >&2; \
	elif [ -n "$$old" ]; then \
	  echo "eigengap needs Python 3.11 or newer; found only $$("$$old" --version 2>&1)." >&2; \
	  echo "Install a newer one, or name it: make PYTHON=/path/to/python3.11 ..." >&2; \
	else \
	  echo "No Python found (tried: $(PYTHON)). eigengap needs Python 3.11 or newer." >&2; \
	fi; \
	exit 1
