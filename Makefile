# SPDX-License-Identifier: MIT
# The front door: what people type. The build itself is CMakeLists.txt.
#
#   make            build the program (build/hearth), the library, the examples and the tests
#   make demo       install what is needed, build the program; a model answers in memory and in less than it has weights
#                   (DEMO_MODEL=FILE DEMO_PROMPT=TEXT DEMO_TOKENS=N)
#   make test       install what is needed, build, run all tests
#   make test-cross  the kernels on 64-bit ARM, compiled and emulated here (cmake/aarch64.cmake says what it needs)
#   make test-arm   all tests on 64-bit ARM, the same way; fetches Debian's ARM libraries into build-arm
#                   (CPUS=cortex-a76: on one processor of three; CTEST="-R NAME": some tests; QUICK=1: what .ci/run runs)
#   make cross TARGET=x86_64-windows  the program for another system, in build-cross (docs/ports.md)
#   make dist       archives of the program for all systems, with their sums, in build-cross/dist
#   make test-port TARGET=aarch64-linux-musl  that program in an emulator: the same texts as the one for this machine?
#                   (TESTS=1: and the tests in C; REGEX=NAME: some of them)
#   make test-windows  that with the program for Windows, under Wine, and the tests in C
#   make bench-dense  Hearth beside llama.cpp on a dense 7B file (needs Node, npm, 9 GB of disk and 10 GB of memory)
#   make bench-sparse Hearth on a sparse 7B file beside llama.cpp on a dense one (the same, 10 GB of disk)
#   make bench-streaming  a sparse 7B pack with half and a quarter of its neurons in memory (the same, 10 GB of disk)
#   make bench-device  best of 4 with a device beside the CPU, shared by time and in fixed parts (Node, 10 GB of disk)
#   make bench-drafts  how much faster drafted tokens make answers (needs Node; BENCH_ARGS="--models FILE,...")
#   make bench-batch  what a token costs with 1 to 32 sequences in a step; draws docs/batch.svg (needs Node, 5 GB of disk)
#                   (each takes BENCH_ARGS="OPTIONS"; BENCH_ARGS=--help tells them)
#   make bench-serve  hearth serve with 1 to 16 clients, BENCH_ARGS="--model FILE [--peer LLAMA-SERVER]" (needs Node)
#   make bench-mixed  how long four decoding sequences wait while a prompt of 2,000 tokens enters beside them
#                   (MODEL=FILE; CHUNK=N prompt tokens at a time)
#   make check-device  on a machine with a GPU: the tests on it, the same texts, its speed (DEVICE=0; results in
#                   device-results/)
#   make check-budget  hold the program to random budgets (ROUNDS=100, SEED=1, MODELS="FILE..." besides those here)
#   make check-budget-300  the same with 300 of them
#   make check-soak  random sessions with random budgets for MINUTES=30 (SEED=1): the same bits, and no growth
#   make check-serve-soak  random clients against hearth serve, built with the address sanitizer, for MINUTES=30 (SEED=1; needs Node)
#   make bench-forecast  forecasts beside what comes of them, at five budgets: BENCH_ARGS="--models FILE,FILE"
#   make bench-quality  perplexity, divergence, recall with fewer neurons and fewer bits; writes docs/quality.md (needs Node,
#                   HEARTH_TEST_DATA; BENCH_ARGS="--model FILE" has another model beside those in models/)
#   make evidence   measures again what the pages quote and writes docs/evidence.md: short ones, or NAMES="dense batch" or all
#                   (needs Node; NAMES=page only writes the page)
#   make studies    writes docs/studies.md again: forecasts for models and machines that are not here
#   make speed-memory  draws docs/speed-memory.svg, README.md's picture, of bench/speed-memory.json and forecasts (needs Node)
#   make bench-versions  this version and another in turn: BENCH_ARGS="--old PROGRAM --dense FILE --sparse FILE"
#   make bench-kernels  single kernels beside this machine's limits, BENCH_ARGS=FILTER picks some
#   make check-schemas  what a model says under 220 JSON schemas, judged by the Python package jsonschema
#                   (PYTHON=..., with jsonschema[format])
#   make check-fit  models larger than a memory cgroup run in it and are not killed (root; MODELS="FILE ...", else it
#                   makes two, 8 GB of disk; CAGE=BYTES, ROUNDS=N)
#   make check-page  the web page of hearth serve in a headless Chromium (needs Node; CHROMIUM=PROGRAM; PAGE_ARGS="--shots
#                   FOLDER" keeps pictures); skipped where there is none
#   make check-clients  the packages of OpenAI and Anthropic for Python and JavaScript against hearth serve (MODEL=FILE, one
#                   that was trained to chat; needs Python, Node and the package registries)
#   make install    install program, library, header, man pages and completions (PREFIX, DESTDIR)
#   make uninstall  remove what make install installed
#   make format     format the code; make check looks at format, layering, circles, symbols and headers
#   make clean      remove build/

BUILD  ?= build
PREFIX ?= /usr/local
CMAKE  ?= cmake
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
# Tests at once: some wait for storage, or for time to pass.
TESTS_AT_ONCE = $(shell expr $(JOBS) + 1)

DEMO_MODEL  ?= models/smollm2-135m-sparse.gguf
DEMO_PROMPT ?= What is photosynthesis?
DEMO_TOKENS ?= 120
export DEMO_MODEL DEMO_PROMPT DEMO_TOKENS # recipes take them from the shell, whatever characters they have

GENERATOR := $(if $(shell command -v ninja 2>/dev/null),-G Ninja)

.PHONY: check-device
.PHONY: all configure deps demo test test-cross test-arm test-port test-windows cross dist check check-budget check-budget-300 check-soak check-serve-soak check-schemas check-fit check-clients check-page format install uninstall clean
.PHONY: bench-dense bench-batch bench-drafts bench-serve bench-mixed bench-versions bench-kernels bench-sparse bench-streaming bench-device bench-forecast bench-quality evidence studies speed-memory

all: configure
	@$(CMAKE) --build $(BUILD) --parallel $(JOBS)

# Once, until it succeeds; afterwards CMake notices by itself when its files change.
configure: $(BUILD)/.configured

$(BUILD)/.configured:
	$(CMAKE) -S . -B $(BUILD) $(GENERATOR) -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX='$(PREFIX)'
	@touch $@

deps:
	@scripts/install-deps.sh

# The program alone: the tests are three times as much to build.
demo: deps
	@$(MAKE) --no-print-directory configure
	@$(CMAKE) --build $(BUILD) --parallel $(JOBS) --target hearth-cli
	@test -f "$$DEMO_MODEL" || { echo "make demo: $$DEMO_MODEL is not there; give another model: make demo DEMO_MODEL=file.gguf" >&2; exit 1; }
	@scripts/demo.sh $(BUILD)/hearth "$$DEMO_MODEL" "$$DEMO_PROMPT" "$$DEMO_TOKENS"

test: deps
	@$(MAKE) --no-print-directory all
	cd $(BUILD) && ctest --output-on-failure --parallel $(TESTS_AT_ONCE)

check-device:
	@$(MAKE) --no-print-directory all
	@scripts/check-device.sh $(BUILD)

test-cross:
	$(CMAKE) -S . -B $(BUILD)-aarch64 $(GENERATOR) -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -DHEARTH_KERNELS_ONLY=ON
	$(CMAKE) --build $(BUILD)-aarch64 --parallel $(JOBS)
	cd $(BUILD)-aarch64 && ctest --output-on-failure --parallel $(JOBS)

test-arm:
	@JOBS=$(JOBS) CPUS='$(CPUS)' CTEST='$(CTEST)' QUICK=$(QUICK) scripts/test-arm.sh $(BUILD)-arm

cross:
	JOBS=$(JOBS) scripts/cross.sh $(or $(TARGET),x86_64-linux-musl) $(BUILD)-cross

dist:
	JOBS=$(JOBS) scripts/dist.sh $(BUILD)-cross

test-port: all
	JOBS=$(JOBS) TESTS=$(TESTS) HEARTH=$(BUILD)/hearth scripts/test-port.sh $(or $(TARGET),x86_64-linux-musl) $(BUILD)-cross $(REGEX)

test-windows:
	@$(MAKE) --no-print-directory test-port TARGET=x86_64-windows TESTS=$(or $(TESTS),1)

check-schemas: all
	@HEARTH_GENERATED=$(BUILD)/generated.txt $(BUILD)/tests/test_schema
	@$(or $(PYTHON),python3) tools/oracle/make_grammars.py --check $(BUILD)/generated.txt

# 77: skipped
check-fit: all
	@tests/cli/check_fit.sh $(BUILD)/hearth $(MODELS) || [ $$? -eq 77 ]

check-page: all
	@CHROMIUM='$(CHROMIUM)' node tests/cli/check_page.mjs $(BUILD)/hearth $(PAGE_ARGS) || [ $$? -eq 77 ]

check-clients: all
	@tests/clients/check_clients.sh $(BUILD)/hearth $(MODEL) || [ $$? -eq 77 ]

bench-serve: all
	@node bench/serve.mjs --hearth $(BUILD)/hearth $(BENCH_ARGS)

bench-sparse: all
	@node bench/sparse.mjs --hearth $(BUILD)/hearth $(BENCH_ARGS)

# CASE=half, quarter, prompt or ablation picks one.
bench-streaming: all
	@node bench/streaming.mjs --hearth $(BUILD)/hearth $(if $(CASE),--case $(CASE)) $(BENCH_ARGS)

bench-device: all
	@node bench/device.mjs --hearth $(BUILD)/hearth $(BENCH_ARGS)

bench-forecast: all
	@node bench/forecast.mjs --hearth $(BUILD)/hearth $(BENCH_ARGS)

bench-dense: all
	@node bench/dense.mjs --hearth $(BUILD)/hearth $(BENCH_ARGS)

bench-batch: all
	@node bench/batch.mjs --hearth $(BUILD)/hearth $(BENCH_ARGS)

bench-drafts: all
	@node bench/drafts.mjs --hearth $(BUILD)/hearth $(BENCH_ARGS)

bench-quality: all
	@node bench/quality.mjs --hearth $(BUILD)/hearth $(BENCH_ARGS)

evidence: all
	@node bench/evidence.mjs $(NAMES)

studies: all
	@bench/studies.sh $(BUILD)/hearth

speed-memory: all
	@node bench/speed-memory.mjs --hearth $(BUILD)/hearth

# Each chunk's time alone, the longest gap beside it, and whether all texts are those of separate runs.
bench-mixed: all
	@$(BUILD)/tests/mixed_gap $(or $(MODEL),$(DEMO_MODEL)) $(or $(CHUNK),512) 2000

# Models of all kinds that stream: the shipped ones, small synthetic ones, and packs of them.
BUDGET_PRESETS = tiny-dense tiny-turbosparse tiny-turbosparse-moe tiny-turbosparse-pack tiny-relullama tiny-opt \
                 tiny-falcon tiny-qwen3-moe
check-budget-300:
	@$(MAKE) --no-print-directory check-budget ROUNDS=300
BUDGET_MODELS = for preset in $(BUDGET_PRESETS); do $(BUILD)/hearth synth $$preset $$dir/$$preset.gguf >/dev/null; done; \
	$(BUILD)/hearth profile $$dir/tiny-turbosparse.gguf -f README.md -o $$dir/profile >/dev/null; \
	$(BUILD)/hearth pack $$dir/tiny-turbosparse.gguf $$dir/profiled.gguf --profile $$dir/profile >/dev/null
check-soak: all
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; $(BUDGET_MODELS); \
	$(BUILD)/tests/check_soak $(or $(MINUTES),30) $(or $(SEED),1) $$dir/*.gguf models/*.gguf $(MODELS)
check-serve-soak:
	$(CMAKE) --preset asan
	$(CMAKE) --build --preset asan --parallel $(JOBS) --target hearth-cli
	@node tests/cli/check_serve_soak.mjs build-asan/hearth $(or $(MODEL),$(DEMO_MODEL)) $(or $(MINUTES),30) $(or $(SEED),1) || [ $$? -eq 77 ]
check-budget: all
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; $(BUDGET_MODELS); \
	$(BUILD)/tests/check_budget $(BUILD)/hearth $(or $(ROUNDS),100) $(or $(SEED),1) $$dir/*.gguf models/*.gguf $(MODELS)

bench-versions: all
	@node bench/versions.mjs --hearth $(BUILD)/hearth $(BENCH_ARGS)

bench-kernels: all
	@$(BUILD)/tests/checkkernels --bench $(BENCH_ARGS)

check:
	scripts/check-format.sh
	scripts/check-includes.sh
	scripts/check-headers.sh
	scripts/check-circles.sh $(BUILD)
	scripts/check-symbols.sh $(BUILD)/libhearth.a

format:
	scripts/check-format.sh --fix

# What is installed, and none of the tests.
install: configure
	@$(CMAKE) --build $(BUILD) --parallel $(JOBS) --target installed
	DESTDIR='$(DESTDIR)' $(CMAKE) --install $(BUILD) --prefix '$(PREFIX)'

# What the last make install has put there, and folders that are empty then, but not bin, lib and their like.
uninstall:
	@scripts/uninstall.sh '$(BUILD)/install_manifest.txt' '$(DESTDIR)' '$(PREFIX)'

clean:
	rm -rf $(BUILD)
