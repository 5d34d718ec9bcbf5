# The front door. CMake does the building.
#
#   make          build/psgd and build/libpsgd.so
#   make demo     installs what is missing, builds, runs the main job on embedded data
#   make test     installs what is missing, builds, runs every check
#   make install  PREFIX=/usr/local

PREFIX ?= /usr/local
JOBS ?= $(shell nproc)

MAKEFLAGS += --no-print-directory

.PHONY: all deps demo test check format install clean

all: deps
	@cmake --preset release >/dev/null
	@cmake --build build -j $(JOBS)

deps:
	@scripts/install-packages build

demo: deps
	@cmake --preset release >/dev/null
	@echo "building, about a minute on two cores"
	@cmake --build build -j $(JOBS) >build/build.log 2>&1 || { cat build/build.log; exit 1; }
	@scripts/demo build

test:
	@scripts/install-packages test
	@scripts/check $(JOBS)

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

install: all
	@cmake --install build --prefix $(PREFIX)

clean:
	@rm -rf build build-asan demo
