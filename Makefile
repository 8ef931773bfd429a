# `make` sets everything up in .venv; `make demo` shows what Twinlens does; `make test` runs all tests.
PYTHON ?= python3
PIP_ARGS ?=
BIN := .venv/bin

.PHONY: all demo test lint bench clean browser
all: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Twinlens needs Python 3.11 or later; make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[torch,serve,nvidia,ray,dev]'
	touch $@

demo: .venv/ready
	$(BIN)/twinlens demo

# A real browser looks at the report: the one on this machine, Debian's, or the one Playwright brings.
browser: .venv/ready
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } \
	  || $(BIN)/playwright install chromium

test: .venv/ready browser
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/pytest

bench: .venv/ready
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv build dist
