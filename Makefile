# Every target makes .venv and installs what it needs; a second run reuses it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps

.PHONY: demo test nightly lint bench clean

demo: $(STAMPS)/test
	$(BIN)/python -m tvm_neocpu.demo

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

# What takes too long for every change, or may find what no change made: whole networks, ONNX's other
# suites, examples that are drawn anew, 2,000 random graphs.
nightly: lint
	HYPOTHESIS_PROFILE=random $(BIN)/python -m pytest -n 2 -m 'slow or not slow'
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -n 2 tests/networks/test_fuzz.py tests/networks/test_fuzz_quantized.py

lint: $(STAMPS)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(STAMPS)/bench
	$(BIN)/python -m tvm_neocpu.bench resnet18 resnet50 mobilenet_v2

clean:
	rm -rf $(VENV) demo-out build dist

# One stamp per extra; a changed pyproject.toml installs again.
$(STAMPS)/%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	mkdir -p $(STAMPS)
	touch $@

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "needs Python 3.10 or later")'
	$(PYTHON) -m venv $(VENV)
