#!/usr/bin/python3
"""clang compiles the library and the command without a warning. The whole build by clang, and its tests, are the preset clang."""
import concurrent.futures
import json
import pathlib
import shlex
import shutil
import subprocess
import sys

SOURCE, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
CACHE = (BUILD / "CMakeCache.txt").read_text()


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def compile_one(entry):
    words = shlex.split(entry["command"])
    keep, skipping = [], False
    for word in words[next(i for i, word in enumerate(words) if not word.startswith("-") and "ccache" not in word) + 1:]:
        if skipping:
            skipping = False
        elif word in ("-o", "-c"):
            skipping = word == "-o"
        else:
            keep.append(word)
    return subprocess.run(["clang", "-fsyntax-only", *keep, "-Wno-missing-field-initializers"], cwd=entry["directory"], capture_output=True, text=True)


def main():
    if not shutil.which("clang"):
        skip("clang is not installed")
    if "PSGD_SANITIZE:STRING=\n" not in CACHE or "PSGD_BLAS:STRING=none" in CACHE:
        skip("the sources are the same in every build")
    entries, seen = [], set()
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        # The types and instruction sets differ in what the preprocessor leaves, hardly in syntax.
        if entry["file"] not in seen and "/tests/" not in entry["file"]:
            seen.add(entry["file"])
            entries.append(entry)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        failed = [done.stderr for done in pool.map(compile_one, entries) if done.returncode]
    print(f"{len(entries)} sources")
    sys.exit("\n".join(failed[:5]) if failed else 0)


main()
