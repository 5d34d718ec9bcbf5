#!/usr/bin/python3
"""The blocks of the tutorials, of the README and of the pages for newcomers run: C programs, shell commands, Python."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
SANITIZED = "PSGD_SANITIZE:STRING=\n" not in (BUILD / "CMakeCache.txt").read_text()
ENVIRONMENT = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}", "PSGD_LIBRARY": str(BUILD / "libpsgd.so"),
               "PYTHONPATH": str(SOURCE / "python")}


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", (SOURCE / page).read_text(), re.S | re.M)


class Tutorials(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = pathlib.Path(folder.name)

    def run_in(self, *words, **options):
        done = subprocess.run(words, cwd=self.at, env=ENVIRONMENT, capture_output=True, text=True, **options)
        self.assertEqual(done.returncode, 0, f"{words[-1]}\n{done.stdout}{done.stderr}")
        self.assertNotRegex(done.stdout, r"(?i)\bnan\b", words[-1])
        return done.stdout

    def python(self, page, *modules):
        if SANITIZED:
            self.skipTest("a library with a sanitizer cannot be loaded by Python")
        for module in ("numpy", *modules):
            if not importlib.util.find_spec(module):
                self.skipTest(f"needs {module}")
        code = blocks(page, "python")
        self.assertGreater(len(code), 0)
        self.run_in(sys.executable, "-c", "\n".join(code))

    def test_c(self):
        programs = blocks("docs/tutorials/c.md", "c")
        self.assertEqual(len(programs), 2)
        for program in programs:
            (self.at / "program.c").write_text(program)
            sanitize = re.search(r"PSGD_SANITIZE:STRING=(.*)", (BUILD / "CMakeCache.txt").read_text()).group(1)
            flags = [f"-fsanitize={sanitize}"] if sanitize else []
            self.run_in("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", *flags, "-I", SOURCE / "include", "program.c",
                        "-o", "program", "-L", BUILD, "-lpsgd", "-lm", f"-Wl,-rpath,{BUILD}")
            self.run_in("./program")

    @unittest.skipUnless((BUILD / "psgd").exists(), "the command is not built")
    def test_command_line(self):
        for block in blocks("docs/tutorials/command-line.md", "sh"):
            self.run_in("sh", "-ec", block)
        self.assertTrue((self.at / "report.html").exists() and (self.at / "comparison" / "report.html").exists())

    def test_pytorch(self):
        self.python("docs/tutorials/pytorch.md", "torch")

    def test_scipy(self):
        self.python("docs/tutorials/scipy.md", "scipy")

    def test_migrating(self):
        self.python("docs/migrating.md", "torch")

    def test_readme(self):
        self.python("README.md", "torch")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
