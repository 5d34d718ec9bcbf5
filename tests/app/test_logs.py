#!/usr/bin/python3
"""What runs log and reports read: the fit's own log, legends, health of every train run, evaluation on some batches."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else "build")


class Logs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = folder.name

    def psgd(self, *words):
        done = subprocess.run([os.path.join(BUILD, "psgd"), *map(str, words)], cwd=self.at, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def runs(self, page):
        with open(os.path.join(self.at, page)) as file:
            text = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', file.read(), re.S).group(1)
        return json.loads(text)["runs"]

    def test_a_report_reads_the_log_of_a_fit(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        numpy.save(os.path.join(self.at, "H.npy"), numpy.random.default_rng(0).normal(size=(30, 4, 3)))
        self.psgd("fit", "--group", "kron(tri,diag)", "--shape", "4x3", "--h", "H.npy", "--criterion", "fisher", "--dtype",
                  "f64", "--out", "out", "--report", "fit.jsonl")
        self.psgd("report", "fit.jsonl", "-o", "report.html", "--figure", "fit", "--metric", "fit criterion")
        run, = self.runs("report.html")
        with open(os.path.join(self.at, "fit.jsonl")) as file:
            lines = [json.loads(line) for line in file]
        curves = {(curve.get("split"), curve.get("tensor"), curve["name"]): curve for curve in run["curves"]}
        self.assertEqual(curves["fit", None, "criterion"]["step"], list(range(1, 31)))
        for got, line in zip(curves["fit", None, "criterion"]["value"], lines):
            self.assertAlmostEqual(got / line["criterion"], 1, places=6)
        self.assertAlmostEqual(curves[None, "Q2", "condition"]["value"][-1] / lines[-1]["conditions"][1], 1, places=6)
        self.assertTrue(os.path.getsize(os.path.join(self.at, "fit.svg")) > 0)

    def test_legends_are_method_group_and_learning_rate(self):
        train = ("train", "logistic", "--data", "digits", "--samples", 200, "--epochs", 1)
        self.psgd(*train, "--out", "runs/a", "--group", "scan", "--lr", 0.05)
        self.psgd(*train, "--out", "runs/b", "--optimizer", "adam")
        self.psgd(*train, "--out", "runs/c", "--optimizer", "adam", "--seed", 1)
        self.psgd(*train, "--out", "runs/d", "--optimizer", "sgd", "--name", "mine")
        self.psgd("report", "runs", "-o", "report.html")
        runs = self.runs("report.html")
        self.assertEqual([run["label"] for run in runs],
                         ["PSGD, Newton, scan, lr 0.05", "Adam, lr 0.001 (runs/b)", "Adam, lr 0.001 (runs/c)", "mine"])
        health = [curve for curve in runs[0]["curves"] if curve.get("tensor")]
        self.assertEqual({curve["name"] for curve in health}, {"updates", "skipped", "condition"})
        self.assertEqual({curve["group"] for curve in health}, {"scan"})

    def test_evaluation_on_some_batches(self):
        self.psgd("train", "logistic", "--data", "digits", "--samples", 200, "--epochs", 1, "--out", "run")
        every, all_of_them = self.psgd("eval", "run"), self.psgd("eval", "run", "--eval-batches", 100000)
        some = self.psgd("eval", "run", "--eval-batches", 1)
        self.assertEqual(every, all_of_them)
        self.assertNotEqual(every, some)
        text = ("train", "lm", "--data", "markov:50,4,40000,1", "--hidden", 4, "--epochs", 1, "--out")
        self.psgd(*text, "language")
        self.assertEqual(self.psgd("eval", "language"), self.psgd("eval", "language", "--eval-batches", 100000))
        self.assertNotEqual(self.psgd("eval", "language"), self.psgd("eval", "language", "--eval-batches", 1))

    def test_a_finished_run_says_so(self):
        self.psgd("train", "logistic", "--data", "digits", "--samples", 200, "--epochs", 1, "--out", "run")
        self.assertIn("has made all of its steps", self.psgd("resume", "run"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
