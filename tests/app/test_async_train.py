#!/usr/bin/python3
"""psgd train with --delay: the same bits in every run and after kill -9, for every kind of model."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BUILD = Path(sys.argv[2])
PSGD = str(BUILD / "psgd")

MODELS = {
    "lenet5": ["lenet5", "--data", "digits", "--samples", "400", "--batch", "16", "--steps", "20"],
    "carried state": ["lm", "--data", "markov:40,3,2000,1", "--hidden", "12", "--dropout", "0.3", "--steps", "20",
                      "--batch", "8"],
    "rows": ["lm", "--data", "markov:40,3,2000,1", "--hidden", "12", "--untied", "yes", "--row-gradients", "yes",
             "--steps", "20", "--batch", "8"],
    "lstm": ["lstm", "--data", "xor:8", "--samples", "400", "--hidden", "8", "--steps", "20"],
    "part of the batch": ["mlp", "--data", "digits", "--samples", "400", "--hidden", "16", "--hv-batch", "8", "--steps",
                          "20"],
    "micro-batches": ["mlp", "--data", "digits", "--samples", "400", "--hidden", "16", "--micro-batches", "4",
                      "--steps", "20"],
    "differences": ["mlp", "--data", "digits", "--samples", "400", "--hidden", "16", "--hv", "difference", "--steps",
                    "20"],
    "fisher": ["mlp", "--data", "digits", "--samples", "400", "--hidden", "16", "--optimizer", "psgd-fisher", "--steps",
               "20"],
}


def psgd(*words, threads=None):
    environment = dict(os.environ, **({"PSGD_NUM_THREADS": threads} if threads else {}))
    done = subprocess.run([PSGD, *map(str, words)], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(run):
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if line.get("split") == "train"]


class Delayed(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.at = Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def test_runs_have_the_same_bits_on_any_number_of_threads(self):
        for name, words in MODELS.items():
            with self.subTest(name):
                command = ["train", *words, "--delay", "3", "--update-every", "2", "--log-every", "5", "--out"]
                one, two = self.at / f"{name} 1", self.at / f"{name} 2"
                psgd(*command, one, "--workers", "1", threads="1")
                psgd(*command, two, "--workers", "2", "--worker-threads", "2", threads="2")
                self.assertEqual(losses(one), losses(two))
                self.assertEqual((one / "weights.safetensors").read_bytes(), (two / "weights.safetensors").read_bytes())

    def test_a_delay_makes_other_steps_that_learn_as_well(self):
        words = ["train", *MODELS["lenet5"], "--warmup", "0", "--update-every", "2", "--log-every", "5", "--out"]
        psgd(*words, self.at / "now")
        psgd(*words, self.at / "later", "--delay", "3")
        now, later = losses(self.at / "now"), losses(self.at / "later")
        self.assertNotEqual(now, later)
        self.assertLess(later[-1], 0.9 * later[0])

    def test_kill_and_resume_gives_the_same_bits(self):
        for name in ("lenet5", "carried state", "rows"):
            with self.subTest(name):
                command = ["train", *MODELS[name], "--delay", "4", "--update-every", "1", "--log-every", "5",
                           "--checkpoint-every", "1", "--out"]
                whole, cut = self.at / f"{name} whole", self.at / f"{name} cut"
                psgd(*command, whole)
                running = subprocess.Popen([PSGD, *map(str, [*command, cut])], stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL)
                limit = time.time() + 120
                while running.poll() is None and time.time() < limit:
                    if (cut / "metrics.jsonl").exists() and len(losses_of_partial(cut)) >= 1:
                        running.send_signal(signal.SIGKILL)
                        break
                    time.sleep(0.001)
                running.wait()
                psgd("resume", cut)
                self.assertEqual((whole / "weights.safetensors").read_bytes(), (cut / "weights.safetensors").read_bytes())

    def test_stopping_at_every_step_gives_the_same_bits(self):
        command = ["train", *MODELS["lenet5"], "--delay", "4", "--update-every", "2", "--lr-schedule", "constant"]
        whole, cut = self.at / "whole", self.at / "cut"
        psgd(*command, "--out", whole)
        psgd(*command, "--out", cut, "--steps", "1")
        for steps in (2, 3, 4, 7, 11, 20):
            psgd("resume", cut, "--steps", steps)
        self.assertEqual((whole / "weights.safetensors").read_bytes(), (cut / "weights.safetensors").read_bytes())


def losses_of_partial(run):
    """Of a log whose last line may not be whole."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [line for line in lines if '"split":"train"' in line]


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
