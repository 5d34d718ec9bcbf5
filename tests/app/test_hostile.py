#!/usr/bin/python3
"""Files and names that were made to do harm: each gets one sentence and a status, and nothing else happens."""
import gzip
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

from hostile import Checkpoint

PSGD = os.path.join(os.path.abspath(sys.argv[2]), "psgd")
SANITIZED = "-asan" in os.path.basename(sys.argv[2].rstrip("/"))


def limit_memory():
    if not SANITIZED:  # which needs terabytes of addresses
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


def psgd(*words, **more):
    return subprocess.run([PSGD, *map(str, words)], capture_output=True, text=True, timeout=60, preexec_fn=limit_memory, **more)


class Hostile(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def refused(self, words, *command, **more):
        ran = psgd(*command, **more)
        self.assertIn(ran.returncode, (1, 2), (command, ran.returncode, ran.stdout[-300:], ran.stderr[-3000:]))
        self.assertEqual(ran.stderr.count("\n"), 1, ran.stderr[-3000:])
        self.assertIn(words, ran.stderr)
        return ran

    def accepted(self, *command, **more):
        ran = psgd(*command, **more)
        self.assertEqual(ran.returncode, 0, ran.stderr[-3000:])
        return ran

    def log(self, name="run", header=None, points=()):
        os.makedirs(self.path(name), exist_ok=True)
        lines = [{"kind": "header", "version": 1, "run": "r", "method": "m", "task": "t", "settings": {}, **(header or {})}]
        lines += points or [{"kind": "point", "step": i, "epoch": i, "seconds": i, "split": "train", "loss": 1 / i} for i in (1, 2)]
        with open(self.path(name, "metrics.jsonl"), "w", encoding="utf-8") as log:
            log.writelines(json.dumps(line) + "\n" for line in lines)
        return self.path(name)

    # --- output

    def test_a_report_goes_through_pipes_and_devices(self):
        run = self.log()
        page = self.accepted("report", run, "-o", "/dev/stdout").stdout
        self.assertTrue(page.startswith("<!doctype html>") and page.endswith("</html>\n"), page[-80:])
        self.assertTrue(os.path.exists("/dev/stdout") and os.path.islink("/dev/stdout"))
        os.mkfifo(self.path("pipe"))
        reader = subprocess.Popen(["cat", self.path("pipe")], stdout=subprocess.PIPE, text=True)
        self.accepted("report", run, "-o", self.path("pipe"))
        self.assertEqual(reader.communicate(timeout=20)[0], page)
        self.assertTrue(stat.S_ISFIFO(os.stat(self.path("pipe")).st_mode))
        self.accepted("report", run, "-o", "/dev/null")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))

    @unittest.skipUnless(shutil.which("gnuplot"), "no gnuplot")
    def test_data_in_figures_is_never_evaluated(self):
        harm = self.path("harm")
        evil = f"a`touch {harm}`b $(touch {harm}) \"`touch {harm}`\" '`touch {harm}`' \\'`touch {harm}`\n\"; system('touch {harm}') #"
        points = [{"kind": "point", "step": i, "epoch": i, "seconds": i, "split": evil, evil: 1 / i} for i in (1, 2)]
        first = self.log("one", {"run": evil, "method": evil, "task": evil, "settings": {evil: evil}}, points)
        second = self.log("two", {"run": evil + "2", "task": evil}, points)
        folder = self.path(f"o`touch harm`$(touch harm)'\"")
        os.mkdir(folder)
        ran = psgd("report", first, second, "--figure", os.path.join(folder, "figure"), cwd=self.folder)
        self.assertFalse(os.path.exists(harm), ran.stderr)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(sorted(os.listdir(folder)), ["figure.png", "figure.svg"])
        with open(os.path.join(folder, "figure.svg"), encoding="utf-8") as file:
            self.assertIn(f"a`touch {harm}`b", file.read())

    # --- logs

    def test_settings_of_a_log_must_be_an_object(self):
        for settings in ([1], [[]], "x", 3):
            self.refused("settings", "report", self.log(header={"defaults": settings}), "-o", self.path("page.html"))
            self.refused("settings", "report", self.log(header={"settings": settings}), "-o", self.path("page.html"))
        self.accepted("report", self.log(header={"settings": {"a": [1], "b": None}}), "-o", self.path("page.html"))

    def test_numbers_of_a_log_may_have_any_size(self):
        for number in (1e300, -1e300, 2.5):
            point = {"kind": "point", "step": number, "epoch": number, "seconds": number, "split": "s", "loss": number}
            self.accepted("report", self.log(header={"seed": number}, points=[point]), "-o", self.path("page.html"))

    # --- checkpoints

    def language(self):
        run = self.path("lm")
        self.accepted("train", "lm", "--data", "markov:20,4,400,1", "--hidden", 4, "--layers", 1, "--back", 5, "--batch", 2,
                      "--steps", 3, "--optimizer", "psgd-fisher", "--group", "scan", "--out", run)
        self.accepted("generate", run, "--words", 5)
        return run, Checkpoint(os.path.join(run, "checkpoint.psgd"))

    def test_sizes_in_a_checkpoint_are_checked(self):
        run, good = self.language()
        path = os.path.join(run, "checkpoint.psgd")
        whole = os.path.getsize(path)
        for name in good.sections:
            for size in (-1, -2**63, 2**63 - 1, 2**40, whole, 0):
                for total in (None, size):
                    good.write(path, total=total, sizes={name: size})
                    for verb in ("generate", "resume"):
                        self.refused("", verb, run)
        good.write(path)
        self.accepted("generate", run, "--words", 5)

    def test_settings_in_a_checkpoint_are_checked(self):
        run, _ = self.language()
        path = os.path.join(run, "checkpoint.psgd")
        shutil.copy(path, self.path("good"))
        for name, value in [("hidden", 10**6), ("hidden", -5), ("hidden", 2**63), ("layers", 1000), ("layers", 0),
                            ("dtype", "f64"), ("untied", "yes"), ("model", "mlp"), ("model", "x"), ("batch", 10**9),
                            ("back", 10**6), ("data", "nowhere")]:
            bad = Checkpoint(self.path("good"))
            bad.change_settings(**{name: value})
            bad.write(path)
            if name not in ("batch", "back", "data"):  # which writing text does not ask for
                self.refused("", "generate", run)
            self.refused("", "resume", run)

    def test_a_vocabulary_without_an_end_is_refused(self):
        run, _ = self.language()
        path = os.path.join(run, "checkpoint.psgd")
        shutil.copy(path, self.path("good"))
        for change in (lambda words: words[:-1], lambda words: b"x" * len(words), lambda words: b"", lambda words: b"one\0"):
            bad = Checkpoint(self.path("good"))
            bad.sections["vocabulary"] = change(bad.sections["vocabulary"])
            bad.write(path)
            self.refused("", "generate", run)

    def test_counters_of_no_run_are_refused(self):
        run, _ = self.language()
        path = os.path.join(run, "checkpoint.psgd")
        shutil.copy(path, self.path("good"))
        for index, values in {0: (-10**9, -1, 2**62), 1: (float("nan"), float("inf"), -1.0), 2: (float("nan"),),
                              7: (-1, 10**9), 8: (-1, 10**9)}.items():
            for value in values:
                bad = Checkpoint(self.path("good"))
                bad.progress[index] = value
                bad.write(path)
                for verb in ("generate", "resume"):
                    self.refused("damaged", verb, run, *(["--epochs", 2, "--steps", 6] if verb == "resume" else []))

    def test_a_gzip_bomb_is_no_checkpoint(self):
        os.mkdir(self.path("bomb"))
        with gzip.open(self.path("bomb", "checkpoint.psgd"), "wb", 9) as file:
            for _ in range(64):
                file.write(bytes(1 << 24))
        self.refused("not the checkpoint of a run", "generate", self.path("bomb"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
