#!/bin/sh
# Sources are as clang-format leaves them (make format).
set -eu
cd "$1"
command -v clang-format >/dev/null || { echo "clang-format is not installed"; exit 77; }
git rev-parse --git-dir >/dev/null 2>&1 || { echo "not a clone"; exit 77; }
git ls-files '*.c' '*.h' | xargs clang-format --dry-run --Werror
