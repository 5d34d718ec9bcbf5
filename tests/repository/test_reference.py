#!/usr/bin/python3
"""scripts/reference: a manual page for every function of the headers, and every option with the defaults of all methods."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
SCRIPT = SOURCE / "scripts" / "reference"


class Reference(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = pathlib.Path(folder.name)

    def test_every_function_has_a_manual_page(self):
        subprocess.run([SCRIPT, "man", self.at], check=True)
        names = subprocess.run(["nm", "-D", "--defined-only", BUILD / "libpsgd.so"], capture_output=True, text=True,
                               check=True).stdout
        exported = set(re.findall(r" T (psgd_\w+)", names))
        self.assertGreater(len(exported), 150)
        self.assertEqual(exported - {path.stem for path in self.at.glob("*.3")}, set())
        page = (self.at / "psgd_minimize.3").read_text()
        self.assertIn("psgd_status psgd_minimize(const psgd_context *context", page)
        self.assertIn("typedef struct psgd_result", page)
        self.assertIn("\\fBpsgd_check_gradient\\fR(3)", page)
        for path in self.at.glob("*.3"):
            alias = re.match(r"\.so man3/(\S+)$", path.read_text())
            if alias:
                self.assertTrue((self.at / alias.group(1)).exists(), path)

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_pages_format_without_warnings(self):
        subprocess.run([SCRIPT, "man", self.at], check=True)
        for path in sorted(self.at.glob("*.3")):
            if path.read_text().startswith(".so"):
                continue
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", path], capture_output=True, text=True)
            lines = [line for line in done.stderr.splitlines() if "can't break line" not in line]
            self.assertEqual((done.returncode, lines), (0, []), path)

    def test_options_have_the_defaults_of_every_method(self):
        if b"__asan_init" in (BUILD / "libpsgd.so").read_bytes():
            self.skipTest("a library with a sanitizer cannot be loaded here")
        subprocess.run([SCRIPT, "markdown", self.at, BUILD / "libpsgd.so"], check=True)
        page = (self.at / "options.md").read_text()
        self.assertRegex(page, r"(?m)^\| `beta2` \| number in \[0, 1\) \| 0\.999; rmsprop: 0\.99; kfac: 0\.95 \|")
        self.assertRegex(page, r"(?m)^\| `criterion` \| newton, fisher \| \w+; psgd-newton: newton")
        self.assertRegex(page, r"(?m)^\| `tolerance` \|")
        self.assertIn("psgd_status psgd_optimizer_step(", (self.at / "c-api.md").read_text())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
