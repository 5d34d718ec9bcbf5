#!/usr/bin/python3
"""The shape of the repository: which folder may include which, the names of files, what the library exports and needs."""
import collections
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
    "comm": ["core"],
    "group": ["core", "la"],
    "precond": ["core", "la", "group"],
    "optim": ["core", "la", "comm", "group", "precond"],
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

# Files of one name are the same idea in two layers. A verb of the command (app/cli) may be named like what it runs, and a
# kernel (src/la/kernel) like the function that shares it out; these are the others.
SAME_IDEA = {
    "builtin": {"src/graph", "src/group/tree"},  # what the registry holds
    "ops": {"src/graph", "src/group"},  # the tables of what it holds
    "options": {"src/core", "src/precond", "src/optim"},  # how options are read, and the layers' tables of them
    "rows": {"src/core", "src/precond/update", "src/optim"},  # gradients of which few rows are nonzero
    "state": {"src/precond/update", "src/optim"},  # saved and loaded
    "tiles": {"src/group", "src/group/composite", "src/precond/update"},  # a matrix in tiles
    "pooling": {"src/graph/op", "src/la/kernel"},
    "recurrent": {"src/graph/op", "app/model"},
    "xmat": {"src/group/leaf", "src/la/fused", "src/la/kernel"},
}
MAX_SOURCES_IN_FOLDER = 25


def sources():
    return sorted([*(SOURCE / "src").rglob("*.[ch]"), *(SOURCE / "app").rglob("*.[ch]")])


def without_comments(path):
    return re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)


def names_in(library, *options):
    """The symbols that a library defines for others."""
    text = subprocess.run(["nm", "--defined-only", *options, str(BUILD / library)], capture_output=True, text=True,
                          check=True).stdout
    return [line.split()[-1] for line in text.splitlines() if re.match(r"[0-9a-f]+ [A-Z] ", line)]


class Repository(unittest.TestCase):
    def test_layers_include_only_those_above_them(self):
        self.assertGreater(len(sources()), 50)
        for path in sources():
            home, layer = path.relative_to(SOURCE).parts[:2]
            allowed = (LAYERS if home == "src" else ROOMS)[layer]
            for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.M):
                self.assertTrue((SOURCE / "src" / name).exists() or (SOURCE / "app" / name).exists(),
                                f"{path} includes {name}, which is not there")
                self.assertIn(name.split("/")[0], [layer, *allowed], f"{path} may not include {name}")

    def test_threads_are_started_in_few_places(self):
        starters = set()
        for path in sources():
            text = without_comments(path)
            if path.name != "openblas.c":  # tells that library's OpenMP to stay on one thread
                self.assertNotRegex(text, r"#\s*pragma\s+omp\s+(?!simd)|omp\.h|\bomp_", f"{path}: no OpenMP here")
            if "pthread_create" in text:
                starters.add(str(path.relative_to(SOURCE)))
        self.assertEqual(starters, {"src/la/pool.c", "src/comm/background.c", "app/data/image/image_queue.c"})

    def test_files_of_one_name_are_the_same_idea(self):
        folders = collections.defaultdict(set)
        for path in sources():
            folders[path.name].add(str(path.parent.relative_to(SOURCE)))
        for name, where in folders.items():
            where -= {"app/cli", "src/la/kernel"} if len(where) == 2 else set()
            if len(where) > 1:
                self.assertLessEqual(where, SAME_IDEA.get(name.split(".")[0], set()), f"{name} in {sorted(where)}")

    def test_folders_are_small_enough_to_read(self):
        count = collections.Counter(path.parent for path in sources() if path.suffix == ".c")
        for folder, files in count.items():
            self.assertLessEqual(files, MAX_SOURCES_IN_FOLDER, f"{folder} needs sub-folders")

    def test_sources_directly_in_a_layer_know_no_real(self):
        paths = [path for path in (SOURCE / "src").glob("*/*.c")]
        self.assertGreater(len(paths), 10)
        for path in paths:
            self.assertNotRegex(without_comments(path), r"\breal\b", f"{path} belongs in a sub-folder of its layer")

    def test_every_header_is_included(self):
        files = [path for folder in ("src", "app", "tests", "bench") for path in (SOURCE / folder).rglob("*.[ch]")]
        included = {name for path in files for name in re.findall(r'#\s*include\s+"([^"]+)"', path.read_text())}
        for header in [path for path in sources() if path.suffix == ".h"]:
            self.assertIn("/".join(header.relative_to(SOURCE).parts[1:]), included, f"nothing includes {header}")

    def test_every_script_is_mentioned(self):
        pages = [SOURCE / "Makefile", SOURCE / "CMakeLists.txt", *SOURCE.glob("*.md"), *SOURCE.glob("docs/**/*.md"),
                 *SOURCE.glob("tests/**/*.[csp]*"), *SOURCE.glob("cmake/*"), *SOURCE.glob("bench/*")]
        text = "".join(page.read_text() for page in pages if page.is_file())
        for path in [found for pattern in ("scripts/*", "cmake/*", "bench/*.[cp]*", "examples/*/")
                     for found in SOURCE.glob(pattern)]:
            name = path.name if path.suffix != ".c" else path.stem
            self.assertIn(name, text, f"nothing mentions {path}")

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
        pages = [*SOURCE.glob("*.md"), *(SOURCE / "docs").rglob("*.md")]
        self.assertGreater(len(pages), 4)
        for page in pages:
            text = page.read_text()
            for link, anchor in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", text):
                target = page.parent / link if link else page
                self.assertTrue(target.exists(), f"{page.name} links to {link}")
                if anchor:
                    titles = re.findall(r"^#+ (.*)$", target.read_text(), re.M)
                    anchors = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
                    self.assertIn(anchor, anchors, f"{page.name} links to {link}#{anchor}")
            for path in re.findall(r"`((?:src|app|tests|include|scripts|docs|examples|cmake|python)/[\w./*-]+)`", text):
                self.assertTrue(list(SOURCE.glob(path)), f"{page.name} speaks of {path}")

    @unittest.skipUnless((BUILD / "psgd").exists(), "the command is not built")
    def test_documents_name_every_verb_and_group(self):
        text = (SOURCE / "README.md").read_text()
        usage = subprocess.run([str(BUILD / "psgd"), "--help"], capture_output=True, text=True, check=True).stdout
        for verb in re.findall(r"^  (\w+) ", usage, re.M):
            self.assertIn(f"`psgd {verb}", text)
        groups = subprocess.run([str(BUILD / "psgd"), "group", "--list"], capture_output=True, text=True,
                                check=True).stdout
        text = (SOURCE / "docs" / "groups.md").read_text()
        for group in re.findall(r"^(\w+) ", groups, re.M):
            self.assertRegex(text, rf"`{group}[`(]")

    def test_only_public_names_are_exported(self):
        names = names_in("libpsgd.so", "-D")
        self.assertIn("psgd_precond_update", names)
        self.assertEqual([name for name in names if not re.match(r"psgd_[a-z]", name)], [])

    def test_the_archive_defines_names_with_our_prefix_only(self):
        names = names_in("libpsgd.a", "-g")
        self.assertIn("psgd_precond_update", names)
        self.assertEqual([name for name in names if not re.match(r"(__odr_asan\.)?psgd_", name)], [])

    def test_library_needs_libc_threads_and_a_blas_only(self):
        about = subprocess.run(["readelf", "-d", str(BUILD / "libpsgd.so")], capture_output=True, text=True,
                               check=True).stdout
        needed = re.findall(r"\(NEEDED\).*\[(\S+)\.so[.\d]*\]", about)
        self.assertIn("libc", needed)
        allowed = r"libc|libm|libpthread|ld-linux.*|lib(open|c)?blas|liblapacke?|lib[at]san|libubsan"
        self.assertEqual([name for name in needed if not re.fullmatch(allowed, name)], [])

    def test_library_has_an_soname(self):
        about = subprocess.run(["objdump", "-p", str(BUILD / "libpsgd.so")], capture_output=True, text=True,
                               check=True).stdout
        self.assertRegex(about, r"SONAME\s+libpsgd\.so\.\d+\n")

    def test_everything_that_allocates_is_in_the_sweep(self):
        """tests/app/test_allocations.c fails every allocation of all calls that make or load something."""
        text = "".join(without_comments(path) for path in (SOURCE / "include" / "psgd").glob("*.h"))
        makers = set(re.findall(r"\b(psgd_[a-z_]+_(?:create[a-z_]*|load|bind|finish|watch|tree)|psgd_minimize)\s*\(", text))
        self.assertGreater(len(makers), 12)
        swept = (SOURCE / "tests" / "app" / "test_allocations.c").read_text()
        self.assertEqual([name for name in sorted(makers) if name + "(" not in swept], [])

    def test_declared_functions_are_exported(self):
        text = "".join(without_comments(path) for path in (SOURCE / "include" / "psgd").glob("*.h"))
        declared = set(re.findall(r"\b(psgd_[a-z0-9_]+)\s*\((?!\s*\*)[^;{]*\)\s*;", text))
        declared -= set(re.findall(r"\(\s*\*\s*(psgd_[a-z0-9_]+)\s*\)", text))
        self.assertGreater(len(declared), 20)
        self.assertEqual(declared - set(names_in("libpsgd.so", "-D")), set())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
