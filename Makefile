# The front door. CMake does the building.
#
#   make            build/psgd, build/libpsgd.so and build/libpsgd.a; where packages are missing, it names them
#   make deps       installs the missing packages (Debian, Ubuntu); FOR=test or FOR=fuzz for those of the checks
#   make demo       installs missing packages, builds, runs the main jobs on synthetic data
#   make test       installs missing packages, builds, runs a slice of every check
#   make test-all   every test in every configuration
#   make fuzz       fuzzes every format and parser, a minute each; FUZZ_SECONDS=3600 for longer
#   make soak       kills training runs at random moments and compares what they come to; SOAK_KILLS=300
#   make mutants    puts known bugs into a copy of the sources, one at a time: a test must fail for each
#   make docs       build/site: the documentation as a site, by MkDocs from PyPI
#   make install    PREFIX=/usr/local

PREFIX ?= /usr/local
FOR ?= build
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
SOAK_KILLS ?= 300

MAKEFLAGS += --no-print-directory

.PHONY: all deps demo test test-all fuzz soak mutants format docs install clean

all:
	@scripts/install-packages build check
	@cmake --preset release >/dev/null
	@cmake --build build -j $(JOBS)

deps:
	@scripts/install-packages $(FOR)

demo: deps
	@cmake --preset release >/dev/null
	@echo "building and running: two to three minutes on two idle cores"
	@cmake --build build -j $(JOBS) >build/build.log 2>&1 || { cat build/build.log; exit 1; }
	@scripts/demo build

test:
	@scripts/install-packages test
	@scripts/check slice $(JOBS)

test-all:
	@scripts/install-packages test
	@scripts/check all $(JOBS)

fuzz:
	@scripts/install-packages fuzz check
	@scripts/fuzz $(FUZZ_SECONDS)

soak: all
	@scripts/soak build $(SOAK_KILLS)

mutants:
	@scripts/install-packages test check
	@scripts/mutants $(JOBS)

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

docs: all
	@scripts/docs build

install: all
	@cmake --install build --prefix $(PREFIX)

clean:
	@rm -rf build build-asan build-tsan build-noblas build-clang build-fuzz build-mutants build-python demo
