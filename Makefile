# The single entry for people and for continuous integration. `make help` lists what there is.
PYTHON ?= python3
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE ?= 1
TEST_MODEL := smollm2-135m-instruct-q4_1
DEMO_MODEL ?= qwen2.5-coder-0.5b-instruct-q4_k_m
SKIP_MODELS ?= $(DEMO_MODEL)
BENCH_MODELS = smollm2-135m-instruct-q4_1 $(DEMO_MODEL) qwen2.5-coder-1.5b-instruct-q4_k_m gemma-3-270m-q4_k_m

.PHONY: help setup run test test-rust test-python lint format bench bench-proxy bench-graph bench-engine bench-quality bench-serve bench-sessions bench-skip docs wheel exactness conformance kernels-sanitized ptx ptx-check device-check clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  make \1|/' | column -t -s '|'

setup:  ## Virtual environment, packages, release build
	@$(PYTHON) scripts/setup.py

run: setup  ## Engine and sidecar answer real questions (KEEP=1 leaves them running until Ctrl-C)
	@$(BIN)/zlrs models pull $(DEMO_MODEL)
	@$(BIN)/python examples/support_desk.py --model $(DEMO_MODEL) $(if $(KEEP),--keep)

test: setup  ## All tests of tiers T0 and T1
	@$(BIN)/zlrs models pull $(TEST_MODEL)
	@$(MAKE) --no-print-directory test-rust test-python

test-rust:
	@cargo test --release --locked --workspace --quiet

test-python:
	@$(BIN)/python -m pytest -q -m "not t2"

lint: setup  ## Formatting, lints, types, the stub against the binary; warnings are errors
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/python -m mypy.stubtest zlrs._core --mypy-config-file pyproject.toml --concise
	@cargo fmt --all --check
	@cargo clippy --release --locked --workspace --all-targets --quiet -- -D warnings

format:  ## Format everything
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .
	@cargo fmt --all

bench:  ## Every benchmark in its quick form, written to docs/benchmarks/ (nothing else should run)
	@$(MAKE) --no-print-directory bench-engine QUICK=1
	@$(MAKE) --no-print-directory bench-quality bench-serve bench-sessions bench-proxy bench-graph

bench-proxy: setup  ## The sidecar beside a bare relay, LiteLLM and Portkey (SOAK=20 adds a soak of 20 minutes)
	@$(BIN)/python benches/sidecar.py $(if $(SOAK),--soak $(SOAK))

bench-engine: setup  ## The engine beside llama.cpp, mistral.rs, candle (QUICK=1: ten minutes, else over an hour)
	@for model in $(BENCH_MODELS); do $(BIN)/zlrs models pull $$model || exit 1; done
	@cd benches && ../$(BIN)/python -m engine $(if $(QUICK),--quick)

bench-quality: setup  ## Perplexity and divergence beside llama.cpp's on the same files (eight minutes)
	@for model in $(BENCH_MODELS); do $(BIN)/zlrs models pull $$model || exit 1; done
	@cd benches && ../$(BIN)/python -m engine.quality

bench-serve: setup  ## Reuse, drafting, branches, cancels, clients beside llama-server (ENDURANCE=300: 100 clients)
	@$(BIN)/zlrs models pull $(DEMO_MODEL)
	@cd benches && ../$(BIN)/python -m serve --model $(DEMO_MODEL) $(if $(ENDURANCE),--endurance $(ENDURANCE))

bench-sessions: setup  ## A session's second turn, and a question computed while it is typed (three minutes)
	@$(BIN)/zlrs models pull $(DEMO_MODEL)
	@$(BIN)/python benches/sessions.py --model $(DEMO_MODEL)

bench-skip: setup  ## Leaving work out: harm beside saving, memory, speed (SKIP_MODELS='NAME...', PART='NAME...', DATA='FILE...')
	@for model in $(SKIP_MODELS); do \
	  $(BIN)/zlrs models pull $$model && \
	  (cd benches && ../$(BIN)/python -m skip --model $$model $(foreach part,$(PART),--part $(part)) \
	    $(if $(DATA),--data $(abspath $(DATA)))) || exit 1; done

bench-graph: setup  ## Figures of the decision graph over replayed traffic beside GPTCache and cachellm (twenty minutes; nothing else should run)
	@cd benches && ../$(BIN)/python -m graph

docs: setup  ## Regenerate the reference pages
	@$(BIN)/python scripts/generate_docs.py
	@ZLRS_WRITE_DOCS=1 cargo test --release --locked --quiet -p zlrs-wire --test catalogue >/dev/null

wheel: setup  ## Both distributions for publishing, in dist/
	@rm -rf dist
	@$(BIN)/python -m maturin build --profile dist --locked --quiet --out dist
	@cd proxy && ../$(BIN)/python -m hatchling build -d ../dist -t wheel
	@ls -l dist

exactness: setup  ## The long suites of exactness (tier T2)
	@$(BIN)/zlrs models pull $(TEST_MODEL)
	@$(BIN)/zlrs models pull $(DEMO_MODEL)
	@$(BIN)/python -m pytest -q -m t2 tests/exactness

conformance: setup  ## The long suites of the two protocols (tier T2)
	@$(BIN)/zlrs models pull $(DEMO_MODEL)
	@$(BIN)/python -m pytest -q -m t2 tests/conformance tests/faults
	@cargo test --release --locked --quiet -p zlrs-store -- --ignored
	@$(MAKE) --no-print-directory kernels-sanitized ptx-check

# The sanitizer's run time must be the first library of the process that opens the kernels.
kernels-sanitized:  ## The CUDA kernels on the host under AddressSanitizer and UBSan
	@ZLRS_SHIM_SANITIZE=1 ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="env LD_PRELOAD=$$($(CXX) -print-file-name=libasan.so)" \
	cargo test --release --locked --quiet -p zlrs-cuda -- --include-ignored --skip harm

ptx:  ## Compile the CUDA kernels to cuda/ptx (the compiler comes from the package index)
	@$(PYTHON) scripts/compile_ptx.py

ptx-check:  ## cuda/ptx is what the kernels compile to, and assembles for every capability
	@$(PYTHON) scripts/compile_ptx.py --check

device-check:  ## What the GPU does: kernels, exactness, speed, as JSON (minutes; says so where there is none)
	@$(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) scripts/device_check.py

clean:  ## Remove everything that was built here
	@rm -rf target .venv dist python/zlrs/_core*.so
