#!/usr/bin/python3
"""psgd paper imagenet on small pictures made here: all methods, the same bits after kill -9, bad input."""
import ctypes
import ctypes.util
import functools
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE, BUILD = Path(sys.argv[1]), Path(sys.argv[2])
PSGD = str(BUILD / "psgd")
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1")
CLASSES, EACH = 6, 6
TURBO = ctypes.CDLL(ctypes.util.find_library("turbojpeg") or "libturbojpeg.so.0")
TURBO.tjInitCompress.restype = ctypes.c_void_p


@functools.cache
def jpeg(seed):
    """Noise of 32 x 32."""
    pixels = random.Random(seed).randbytes(3 * 32 * 32)
    made, size = ctypes.POINTER(ctypes.c_ubyte)(), ctypes.c_ulong(0)
    handle = ctypes.c_void_p(TURBO.tjInitCompress())
    assert TURBO.tjCompress2(handle, pixels, 32, 0, 32, 0, ctypes.byref(made), ctypes.byref(size), 2, 80, 0) == 0
    whole = bytes(made[:size.value])
    TURBO.tjFree(made)
    TURBO.tjDestroy(handle)
    return whole


def psgd(*words, fails=None, memory=None):
    limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory))) if memory else None
    done = subprocess.run([PSGD, *map(str, words)], capture_output=True, text=True, env=ENVIRONMENT, timeout=300,
                          preexec_fn=limit)
    if fails is None:
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr
    assert done.returncode == fails, (done.returncode, done.stdout, done.stderr)
    return [line for line in done.stderr.splitlines() if line.startswith("psgd: ")][-1]


def records(run):
    """The metrics of a run without what may differ between sessions."""
    kept = []
    for line in (run / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        for name in ("seconds", "cpu_seconds", "run", "settings", "defaults", "waited_seconds"):
            record.pop(name, None)
        kept.append(record)
    return kept


class ImageNet(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.at = Path(self.folder.name)
        self.data = self.at / "data"
        for split, each in (("train", EACH), ("val", 2)):
            for c in range(CLASSES):
                (self.data / split / f"n{c:08d}").mkdir(parents=True)
                for i in range(each):
                    self.picture(split, c, i).write_bytes(jpeg(100 * c + i + (50 if split == "val" else 0)))

    def tearDown(self):
        self.folder.cleanup()

    def picture(self, split, c, i):
        return self.data / split / f"n{c:08d}" / f"n{c:08d}_{i}.JPEG"

    def small(self, out, *more):
        return ["paper", "imagenet", "--data", self.data, "--size", "small", "--batch", 12, "--epochs", 2,
                "--log-every", 1, "--out", out, *more]

    def test_every_method_and_the_report(self):
        out = self.at / "out"
        said = psgd(*self.small(out))
        for name in ("adam", "batch-norm", "momentum", "fisher-scan", "newton-scan", "fisher-diag", "newton-diag"):
            self.assertRegex(said, rf"(?m)^{name} +6 +2.00 ")
            last = records(out / name)[-1]
            self.assertEqual(last["kind"], "final")
            self.assertEqual(last["passed_over"], 0)
            for metric in ("test_loss", "test_error", "test_top5_error"):
                self.assertIn(metric, last)
            rates = [r["lr"] for r in records(out / name) if "lr" in r]
            self.assertAlmostEqual(rates[1] / rates[0], 0.1)
        self.assertIn("needs about", said)
        self.assertIn("newton-scan", (out / "report.html").read_text())
        # What is done is done: the same command prints the same table.
        lines = [line for line in psgd(*self.small(out)).splitlines() if line.startswith("newton-scan")]
        self.assertIn(lines[0], said)

    def test_kill_and_resume_gives_the_same_bits(self):
        whole, cut = self.at / "whole", self.at / "cut"
        more = ["--methods", "batch-norm,newton-scan", "--epochs", 4, "--checkpoint-every", 2, "--random-crop",
                "--mirror"]
        psgd(*self.small(whole, *more))
        words = [PSGD, *map(str, self.small(cut, *more, "--decode-threads", 3))]
        for wait in (0.3, 0.25, 0.35):
            run = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
            deadline = time.time() + 60
            while not (cut / "batch-norm" / "checkpoint.psgd").exists() and time.time() < deadline:
                time.sleep(0.01)
            time.sleep(wait)
            run.send_signal(signal.SIGKILL)
            run.wait()
        psgd(*self.small(cut, *more))
        for name in ("batch-norm", "newton-scan"):
            self.assertEqual((whole / name / "weights.safetensors").read_bytes(),
                             (cut / name / "weights.safetensors").read_bytes())
            self.assertEqual(records(whole / name), records(cut / name))

    def test_unreadable_pictures_are_passed_over(self):
        self.picture("train", 1, 3).write_bytes(b"not a picture")
        self.picture("train", 4, 0).write_bytes(jpeg(400)[:300])
        out = self.at / "out"
        said = psgd(*self.small(out, "--methods", "momentum"))
        self.assertIn("2 images could not be read and were passed over; the first: ", said)
        self.assertEqual(records(out / "momentum")[-1]["passed_over"], 2)

    def test_a_run_of_jpegs_is_evaluated_on_other_data(self):
        run, table = self.at / "run", self.at / "table.csv"
        psgd("train", "mlp", "--data", f"images:{self.data}", "--height", 4, "--width", 4, "--resize", 4, "--cache", self.at / "pixels",
             "--hidden", 5, "--batch", 12, "--steps", 1, "--out", run)
        table.write_text("".join(f"{'0.5,' * 48}{i % CLASSES}\n" for i in range(60)))
        self.assertIn("test error", psgd("eval", run, "--data", f"csv:{table}"))
        said = psgd("eval", run, "--data", f"csv:{table}", "--height", 4, fails=2)
        self.assertIn("--height is for JPEGs", said)

    def test_an_empty_class(self):
        for i in range(EACH):
            self.picture("train", 2, i).unlink()
        said = psgd(*self.small(self.at / "out"), fails=1)
        self.assertRegex(said, r"the class folder .*n00000002 has no \.jpg or \.jpeg")

    def test_another_number_of_classes_than_the_checkpoint(self):
        out = self.at / "out"
        psgd(*self.small(out, "--methods", "momentum"))
        for split, each in (("train", EACH), ("val", 2)):
            (self.data / split / "n00000009").mkdir()
            for i in range(each):
                (self.data / split / "n00000009" / f"{i}.JPEG").write_bytes(jpeg(900 + i))
        said = psgd(*self.small(out, "--methods", "momentum", "--epochs", 3), fails=1)
        self.assertIn("number of classes", said)
        said = psgd(*self.small(out, "--methods", "momentum", "--batch", 10), fails=2)
        self.assertIn("was made with batch 12, not 10", said)

    @unittest.skipIf("sanitize" in subprocess.run(["nm", PSGD], capture_output=True, text=True).stdout
                     or b"__asan_init" in Path(PSGD).read_bytes(), "sanitizers need all the address space")
    def test_too_little_memory(self):
        words = ["paper", "imagenet", "--data", self.data, "--batch", 32, "--methods", "newton-scan", "--out",
                 self.at / "out"]
        said = psgd(*words, fails=1, memory=3 << 30)
        self.assertRegex(said, r"needs about \d+\.\d+ GB")

    def test_wrong_words(self):
        self.assertIn("did you mean newton-scan?", psgd(*self.small("x", "--methods", "newton-scam"), fails=2))
        self.assertIn("needs --data DIR", psgd("paper", "imagenet", fails=2))
        self.assertIn("--size is full or small", psgd("paper", "imagenet", "--data", "x", "--size", "big", fails=2))
        self.assertRegex(psgd("paper", "imagenet", "--data", self.at / "none", "--out", self.at / "out", fails=1),
                         re.escape(str(self.at / "none")))
        self.assertFalse((self.at / "out").exists(), "nothing is left behind")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
