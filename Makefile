# The everyday commands. PRESET names one of CMakePresets.json: release, debug, asan-ubsan, tsan.
PRESET ?= release
BUILD  := build/$(PRESET)
JOBS   ?= $(shell nproc)

.PHONY: all deps build run test bench fmt lint clean

all: build

# What is not asked for is off: the build folder would remember what was asked for before.
CMAKE_ARGS ?=
OPTIONS    := -DPICCHIO_BENCH=OFF -DPICCHIO_WERROR=OFF
TARGET     := all

# Installs the Debian packages that are missing. The sanitizers are clang's, as the fuzzer is.
deps:
	@scripts/deps $(if $(filter asan-ubsan,$(PRESET)),--ci)

build: deps
	@cmake --preset $(PRESET) --log-level=WARNING $(OPTIONS) $(CMAKE_ARGS)
	@cmake --build $(BUILD) -j $(JOBS) --target $(TARGET)

# A page of text from the model that comes with the sources.
run: TARGET := picchio
run: build
	$(BUILD)/picchio run models/demo -p "Once upon a time" -n 400 --seed 7

test: build
	@ctest --test-dir $(BUILD) -j $(JOBS) --output-on-failure

# Programs that measure: products by instruction set, quantisers, the demo model whole.
bench:
	@scripts/deps --bench
	@$(MAKE) --no-print-directory build CMAKE_ARGS=-DPICCHIO_BENCH=ON
	@$(BUILD)/src/format/quantize_bench
	@$(BUILD)/picchio bench kernels
	@$(BUILD)/picchio run models/demo -p "Once upon a time" -n 1000 --ignore-eos --temp 0 --stats >/dev/null

# Formats every source in place.
fmt:
	@scripts/deps --ci
	@git ls-files '*.cc' '*.h' ':!third_party/*' | xargs clang-format -i

# clang-tidy over what changed since BASE (a commit, or "all"; four hours older than HEAD unless said otherwise).
# By the debug build's commands; nothing is built for it.
lint:
	@scripts/deps --ci
	@cmake --preset debug --log-level=WARNING
	@scripts/lint build/debug $(BASE)

clean:
	@rm -rf build
