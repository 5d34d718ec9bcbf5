#!/usr/bin/python3
"""psgd demo: the table says that the spectra close in, the pictures are there, and a missing gnuplot is said."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

PSGD = os.path.join(os.path.abspath(sys.argv[2]), "psgd")


class Demo(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.chdir(self.folder.name)

    def test_spectra_close_in_on_one(self):
        done = subprocess.run([PSGD, "demo", "--out", "new/pictures"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = [line.split() for line in done.stdout.splitlines()]
        conditions = {}
        for row in rows:
            if len(row) == 9 and row[2] == "1":
                group = row[0]
                conditions[group] = [float(row[-1])]
            elif len(row) == 7 and row[0].isdigit():
                conditions[group].append(float(row[-1]))
        self.assertEqual(list(conditions), ["diag", "scan", "kron(tri,tri)", "tri", "dense"])
        for group, values in conditions.items():
            self.assertEqual(len(values), 5)
            self.assertLess(values[-1], values[0] / (500 if group in ("tri", "dense") else 10), group)
        self.assertIn("new/pictures/spectrum.svg", done.stdout)
        self.assertEqual(sorted(os.listdir("new/pictures")), ["spectrum.png", "spectrum.svg"])
        self.assertEqual(pathlib.Path("new/pictures/spectrum.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        text = xml.dom.minidom.parse("new/pictures/spectrum.svg").toxml()
        for word in ("kron(tri,tri)", "updates", "negative eigenvalues of PH"):
            self.assertIn(word, text)

    def test_missing_gnuplot(self):
        done = subprocess.run([PSGD, "demo"], capture_output=True, text=True, env={**os.environ, "PATH": "/nowhere"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("gnuplot-nox", done.stderr)
        self.assertEqual(os.listdir("."), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
