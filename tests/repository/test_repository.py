#!/usr/bin/python3
"""The shape of the repository: which folder may include which, headers that stand alone, what the library exports."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:3])

# A layer may include itself and these. The order is that of ARCHITECTURE.md.
LAYERS = {
    "core": [],
    "la": ["core"],
    "group": ["core", "la"],
    "precond": ["core", "la", "group"],
    "optim": ["core", "la", "group", "precond"],
    "graph": ["core", "la"],
}
# Of the library the command may include the public headers, and core.
ROOMS = {
    "problem": ["core"],
    "data": ["core"],
    "model": ["core"],
    "report": ["core", "data"],
    "train": ["core", "data", "model", "report", "problem"],
    "paper": ["core", "data", "model", "report", "problem", "train"],
    "cli": ["core", "data", "model", "report", "problem", "train", "paper"],
}
# What the command still includes of the library's inside, until the public interface has it.
OPEN = {("app", name) for name in ("la/array/normal.h", "la/eigen.h", "optim/optim.h", "precond/precond.h", "graph/graph.h",
                                   "optim/minimize.h", "la/kernel/stream.h", "la/la.h", "la/parallel.h")}


def sources():
    return sorted([*(SOURCE / "src").rglob("*.[ch]"), *(SOURCE / "app").rglob("*.[ch]")])


class Repository(unittest.TestCase):
    def test_layers_include_only_those_above_them(self):
        self.assertGreater(len(sources()), 50)
        for path in sources():
            home, layer = path.relative_to(SOURCE).parts[:2]
            allowed = (LAYERS if home == "src" else ROOMS)[layer]
            for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.M):
                self.assertTrue((SOURCE / "src" / name).exists() or (SOURCE / "app" / name).exists(),
                                f"{path} includes {name}, which is not there")
                if (home, name) in OPEN:
                    continue
                self.assertIn(name.split("/")[0], [layer, *allowed], f"{path} may not include {name}")

    def test_threads_are_started_in_la_only(self):
        for path in sources():
            if path.is_relative_to(SOURCE / "src" / "la"):
                continue
            self.assertNotRegex(path.read_text(), r"#\s*pragma\s+omp", f"{path}: OpenMP pragmas belong in src/la")

    def test_public_headers_compile_alone_and_as_cxx(self):
        headers = sorted((SOURCE / "include" / "psgd").glob("*.h"))
        self.assertGreater(len(headers), 4)
        flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", str(SOURCE / "include")]
        with tempfile.TemporaryDirectory() as folder:
            for compiler, standard, suffix in (("gcc", "c11", "c"), ("g++", "c++11", "cc")):
                for header in headers:
                    unit = pathlib.Path(folder, "unit." + suffix)
                    unit.write_text(f"#include <psgd/{header.name}>\n#include <psgd/{header.name}>\n")
                    done = subprocess.run([compiler, f"-std={standard}", *flags, str(unit)], capture_output=True,
                                          text=True)
                    self.assertEqual(done.returncode, 0, f"{header.name} with {compiler}: {done.stderr}")

    def test_documents_name_what_is_there(self):
        pages = [*SOURCE.glob("*.md"), *(SOURCE / "docs").glob("*.md")]
        self.assertGreater(len(pages), 4)
        for page in pages:
            text = page.read_text()
            for link in re.findall(r"\]\(([^)#]+)\)", text):
                if not link.startswith("http"):
                    self.assertTrue((page.parent / link).exists(), f"{page.name} links to {link}")
            for path in re.findall(r"`((?:src|app|tests|include|scripts|docs|examples|cmake|python)/[\w./*-]+)`", text):
                self.assertTrue(list(SOURCE.glob(path)), f"{page.name} speaks of {path}")

    def test_the_readme_names_every_verb_and_group(self):
        text = (SOURCE / "README.md").read_text()
        usage = subprocess.run([str(BUILD / "psgd"), "--help"], capture_output=True, text=True, check=True).stdout
        for verb in re.findall(r"^  (\w+) ", usage, re.M):
            self.assertIn(f"`psgd {verb}", text)
        groups = subprocess.run([str(BUILD / "psgd"), "group", "--list"], capture_output=True, text=True,
                                check=True).stdout
        for group in re.findall(r"^(\w+) ", groups, re.M):
            self.assertRegex(text, rf"`{group}[`(]")

    def test_only_public_names_are_exported(self):
        names = subprocess.run(["nm", "-D", "--defined-only", str(BUILD / "libpsgd.so")], capture_output=True, text=True,
                               check=True).stdout.split("\n")
        names = [line.split()[-1] for line in names if line]
        self.assertIn("psgd_precond_update", names)
        self.assertEqual([name for name in names if not re.match(r"psgd_[a-z]", name)], [])

    def test_library_has_an_soname(self):
        about = subprocess.run(["objdump", "-p", str(BUILD / "libpsgd.so")], capture_output=True, text=True,
                               check=True).stdout
        self.assertRegex(about, r"SONAME\s+libpsgd\.so\.\d+\n")

    def test_declared_functions_are_exported(self):
        text = "".join(path.read_text() for path in (SOURCE / "include" / "psgd").glob("*.h"))
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        declared = set(re.findall(r"\b(psgd_[a-z0-9_]+)\s*\((?!\s*\*)[^;{]*\)\s*;", text))
        declared -= set(re.findall(r"\(\s*\*\s*(psgd_[a-z0-9_]+)\s*\)", text))
        names = subprocess.run(["nm", "-D", "--defined-only", str(BUILD / "libpsgd.so")], capture_output=True, text=True,
                               check=True).stdout
        exported = set(re.findall(r"\b(psgd_[a-z0-9_]+)$", names, re.M))
        self.assertGreater(len(declared), 20)
        self.assertEqual(declared - exported, set())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
