#!/usr/bin/python3
"""psgd train, resume and eval as a user runs them: the same bits after kill -9, sentences for bad input."""
import gzip
import json
import os
import pty
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE, BUILD = Path(sys.argv[1]), Path(sys.argv[2])
PSGD = str(BUILD / "psgd")
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1")


def psgd(*words, fails=None, file_bytes=None):
    """What the command says; with file_bytes no file may grow beyond that, as on a disk that is full."""
    limit = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))) if file_bytes else None
    done = subprocess.run([PSGD, *map(str, words)], capture_output=True, text=True, env=ENVIRONMENT, timeout=300,
                          preexec_fn=limit)
    if fails is None:
        assert done.returncode == 0, done.stderr
        return done.stdout
    assert done.returncode == fails, (done.returncode, done.stdout, done.stderr)
    assert done.stderr.startswith("psgd: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def records(run):
    """The metrics of a run without what may differ between sessions: the clock, and the name of the folder."""
    kept = []
    for line in (run / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        for name in ("seconds", "cpu_seconds", "run", "settings", "defaults"):
            record.pop(name, None)
        kept.append(record)
    return kept


class Train(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.at = Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def small(self, out, *more):
        return ["train", "mlp", "--data", "digits", "--samples", 300, "--batch", 20, "--epochs", 4, "--hidden", 12,
                "--dropout", 0.2, "--group", "kron(tri,tri)", "--lr", 0.05, "--checkpoint-every", 7, "--log-every", 5,
                "--out", out, *more]

    def language(self, out, *more):
        return ["train", "lm", "--data", "markov:60,4,6000", "--batch", 5, "--back", 8, "--epochs", 2, "--hidden", 12,
                "--dropout", 0.1, "--group", "scan", "--lr", 0.05, "--checkpoint-every", 7, "--log-every", 5,
                "--lr-schedule", "plateau", "--out", out, *more]

    def test_models_without_classes(self):
        for name, words in {"factors": ["factors", "--data", "ratings:20,2", "--samples", 2000, "--hidden", 2],
                            "autoencoder": ["autoencoder", "--data", "digits", "--samples", 500, "--hidden", 4],
                            "oscillator": ["mlp", "--data", "oscillator", "--activation", "tanh", "--dtype", "f64"]}.items():
            with self.subTest(name):
                psgd("train", *words, "--optimizer", "adam", "--lr", 0.01, "--epochs", 8, "--out", self.at / name)
                points = [r for r in records(self.at / name) if r["kind"] == "point" and r["split"] == "train"]
                self.assertLess(points[-1]["loss"], 0.6 * points[0]["loss"])
                self.assertNotIn("test_error", records(self.at / name)[-1])

    def test_characters(self):
        text = self.at / "text.txt"
        text.write_text("one fish\n" * 80)
        psgd("train", "lm", "--data", f"chars:{text}", "--hidden", 24, "--layers", 1, "--batch", 4, "--back", 10,
             "--optimizer", "adam", "--lr", 0.03, "--epochs", 12, "--out", self.at / "run")
        self.assertLess(records(self.at / "run")[-1]["test_perplexity"], 1.5)
        said = psgd("generate", self.at / "run", "--words", 54, "--temperature", 0)
        self.assertEqual(said, "one fish\n" * 6)

    def test_kill_and_resume_gives_the_same_bits(self):
        for name, words in (("samples", self.small), ("text", self.language)):
            with self.subTest(name):
                (self.at / name).mkdir()
                self.kill_and_resume(words, self.at / name / "whole", self.at / name / "cut")

    def kill_and_resume(self, command, whole, cut):
        psgd(*command(whole))
        # Killed at moments that have nothing to do with its checkpoints.
        words = [PSGD, *map(str, command(cut))]
        for wait in (0.15, 0.1, 0.12):
            run = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
            deadline = time.time() + 60
            while not (cut / "checkpoint.psgd").exists() and time.time() < deadline:
                time.sleep(0.01)
            time.sleep(wait)
            run.send_signal(signal.SIGKILL)
            run.wait()
            words = [PSGD, "resume", str(cut)]
        psgd("resume", cut)
        self.assertEqual((whole / "weights.safetensors").read_bytes(), (cut / "weights.safetensors").read_bytes())
        self.assertEqual(records(whole), records(cut))
        self.assertEqual(psgd("eval", whole), psgd("eval", cut))

    def test_a_run_has_one_writer(self):
        words = [PSGD, "train", "mlp", "--data", "digits", "--samples", "300", "--epochs", "100", "--out", str(self.at / "run")]
        run = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
        deadline = time.time() + 60
        while not (self.at / "run" / "checkpoint.psgd").exists() and time.time() < deadline:
            time.sleep(0.001)
        run.send_signal(signal.SIGSTOP)
        self.assertIn("another process is writing", psgd("resume", self.at / "run", fails=1))
        run.send_signal(signal.SIGCONT)
        self.assertEqual(run.wait(), 0)
        psgd("resume", self.at / "run", "--epochs", 101)

    def test_data_that_have_changed_are_noticed(self):
        rows = [f"{a},{b},{int(a * b > 0)}\n" for a in range(-9, 10) for b in range(-9, 10)]
        table, run, compared = self.at / "table.csv", self.at / "run", self.at / "compared"
        comparison = ["compare", "mlp", "--data", f"csv:{table}", "--epochs", 1, "--optimizers", "adam", "--out", compared]
        table.write_text("".join(rows))
        psgd("train", "mlp", "--data", f"csv:{table}", "--epochs", 1, "--out", run)
        psgd(*comparison)
        psgd(*comparison)  # finished before
        psgd("resume", run, "--epochs", 2)
        table.write_text("".join(rows[:-9]))
        for words in (["resume", run, "--epochs", 3], ["eval", run], comparison):
            done = subprocess.run([PSGD, *map(str, words)], capture_output=True, text=True, env=ENVIRONMENT)
            self.assertEqual(done.returncode, 1)
            self.assertIn("has changed since the checkpoint", done.stderr)
        psgd("resume", run, "--epochs", 3, "--data", f"csv:{table}")
        psgd("eval", run)

    def test_the_log_says_how_many_classes(self):
        psgd(*self.small(self.at / "run", "--steps", 1))
        header = json.loads((self.at / "run" / "metrics.jsonl").read_text().splitlines()[0])
        self.assertEqual(header["settings"]["classes"], "10")

    def test_weights_go_round(self):
        run = self.at / "run"
        psgd(*self.small(run, "--steps", 10))
        of_run = psgd("eval", run)
        of_file = psgd("eval", "mlp", "--hidden", 12, "--data", "digits", "--weights", run / "weights.safetensors")
        self.assertEqual(of_run, of_file)
        psgd(*self.small(self.at / "more", "--steps", 1, "--lr", 0, "--weights", run / "weights.safetensors"))
        self.assertEqual(of_run, psgd("eval", self.at / "more"))
        bytes_ = (run / "weights.safetensors").read_bytes()
        length = struct.unpack("<Q", bytes_[:8])[0]
        header = json.loads(bytes_[8:8 + length])
        self.assertEqual(header["W1"]["shape"], [12, 785])
        self.assertEqual(len(bytes_), 8 + length + 4 * (12 * 785 + 10 * 13))

    def test_damaged_weights_are_refused(self):
        run, bad = self.at / "run", self.at / "bad.safetensors"
        psgd(*self.small(run, "--steps", 1))
        good = (run / "weights.safetensors").read_bytes()
        words = ["eval", "mlp", "--hidden", 12, "--data", "digits", "--samples", 50, "--batch", 10, "--weights", bad]
        for content, sentence in ((good[:-1], "truncated or damaged"), (good[:5], "not a safetensors file"),
                                  (b"\xff" * 100, "not a safetensors file"),
                                  (good.replace(b'"W2"', b'"X2"'), "has no tensor W2"),
                                  (good.replace(b"[12,785]", b"[12,784]"), "not of shape [12, 785]")):
            bad.write_bytes(content)
            self.assertIn(sentence, psgd(*words, fails=1))

    def test_damaged_checkpoints_are_refused(self):
        run = self.at / "run"
        psgd(*self.small(run, "--steps", 3))
        file = run / "checkpoint.psgd"
        good = file.read_bytes()
        for content, sentence in ((good[:-9], "truncated or damaged"), (good[:3], "not the checkpoint"), (b"", ""),
                                  (good[:2000] + bytes([good[2000] ^ 1]) + good[2001:], "checksum"),
                                  (b"x" * 4000, "not the checkpoint of a run")):
            file.write_bytes(content)
            self.assertIn(sentence, psgd("resume", run, fails=1))
            self.assertEqual(file.read_bytes(), content)
        file.write_bytes(good)
        self.assertIn("another", psgd("resume", run, "--hidden", 13, fails=1))
        psgd("resume", run, "--steps", 6)

    def test_a_full_disk_is_told_and_loses_nothing(self):
        whole, run = self.at / "whole", self.at / "run"
        words = ["train", "mlp", "--data", "xor:8", "--samples", 60, "--batch", 20, "--group", "kron(tri,tri)",
                 "--checkpoint-every", 7, "--lr-schedule", "constant"]
        psgd(*words, "--out", whole, "--steps", 12)
        psgd(*words, "--out", run, "--steps", 5)
        kept = (run / "checkpoint.psgd").read_bytes()
        # No room for the checkpoint, then not even for a record.
        self.assertIn("checkpoint.psgd: ", psgd("resume", run, "--steps", 12, fails=1, file_bytes=len(kept) // 2))
        self.assertIn("metrics.jsonl", psgd("resume", run, "--steps", 12, "--log-every", 1, fails=1, file_bytes=100))
        self.assertEqual((run / "checkpoint.psgd").read_bytes(), kept)
        self.assertEqual(sorted(f.name for f in run.iterdir()),
                         ["checkpoint.psgd", "metrics.jsonl", "weights.safetensors"])
        # The folder can be used again once there is room, and nothing shows.
        psgd("resume", run, "--steps", 12)
        self.assertEqual((whole / "weights.safetensors").read_bytes(), (run / "weights.safetensors").read_bytes())
        self.assertIn("cannot write", psgd(*words, "--out", self.at / "new", fails=1, file_bytes=1000))
        self.assertFalse((self.at / "new").exists())

    def test_steps_alone_are_not_cut_by_the_default_epochs(self):
        common = ["train", "mlp", "--data", "digits", "--samples", 100, "--batch", 20, "--hidden", 4, "--steps", 70]
        psgd(*common, "--out", self.at / "steps")  # an epoch has five
        psgd(*common, "--epochs", 3, "--out", self.at / "both")
        self.assertEqual(records(self.at / "steps")[-1]["step"], 70)
        self.assertEqual(records(self.at / "both")[-1]["step"], 15)

    def test_a_finished_run_says_so(self):
        run = self.at / "run"
        psgd("train", "logistic", "--data", "digits", "--samples", 60, "--batch", 20, "--epochs", 2, "--out", run)
        kept = (run / "metrics.jsonl").read_bytes()
        for words in ([], ["--epochs", 1], ["--steps", 3]):
            self.assertIn("has made all of its steps, 6;", psgd("resume", run, *words))
        self.assertEqual((run / "metrics.jsonl").read_bytes(), kept)
        self.assertIn("epoch 3", psgd("resume", run, "--epochs", 3))
        first, after = (json.loads(text.splitlines()[0]) for text in (kept, (run / "metrics.jsonl").read_bytes()))
        first["settings"]["epochs"], first["defaults"]["total"] = "3", "9"  # steps of the cosine
        self.assertEqual(after, first)

    def test_a_finished_run_says_which_limit_it_has_reached(self):
        for limits, more, said in ((["--steps", 2], ["--epochs", 3], "2; --steps with more"),
                                   (["--epochs", 1, "--steps", 9], ["--steps", 99], "3; --epochs with more"),
                                   (["--epochs", 1], ["--steps", 3], "3; --epochs and --steps with more"),
                                   (["--epochs", 1], [], "3; --epochs with more")):
            run = self.at / "-".join(map(str, limits + more))
            psgd("train", "logistic", "--data", "digits", "--samples", 60, "--batch", 20, *limits, "--out", run)
            self.assertIn("has made all of its steps, " + said, psgd("resume", run, *more))

    def test_a_run_resumes_in_its_own_folder(self):
        for name, epochs in (("run", 1), ("other", 2)):
            psgd("train", "logistic", "--data", "digits", "--samples", 60, "--batch", 20, "--epochs", epochs, "--out", self.at / name)
        kept = [(self.at / "other" / name).read_bytes() for name in ("metrics.jsonl", "checkpoint.psgd")]
        self.assertIn("leave out --out", psgd("resume", self.at / "run", "--epochs", 3, "--out", self.at / "other", fails=2))
        self.assertEqual([(self.at / "other" / name).read_bytes() for name in ("metrics.jsonl", "checkpoint.psgd")], kept)
        psgd("resume", self.at / "run", "--epochs", 3, "--out", f"{self.at}/other/../run/")

    def test_a_run_resumes_with_another_schedule(self):
        words = ["train", "logistic", "--data", "digits", "--samples", 60, "--batch", 20, "--epochs", 1]
        for old, new, kept in ((["schedule", "step", "every", 2], ["schedule", "cosine"], {"schedule": "cosine"}),
                               (["schedule", "step", "every", 2], ["schedule", "step", "factor", 0.5],
                                {"schedule": "step", "every": "2", "factor": "0.5"}),
                               (["floor", 0.1], ["end", 0.001], {"end": "0.001"}),
                               (["end", 0.001], ["schedule", "constant"], {"schedule": "constant"}),
                               (["epochs", 2, "factor", 0.5], ["schedule", "plateau"],
                                {"schedule": "plateau", "factor": "0.5"}),
                               (["schedule", "step", "every", 2, "factor", 0.5], ["epochs", 1],
                                {"epochs": "1", "factor": "0.5"})):
            old, new = ([f"--lr-{word}" if i % 2 == 0 else word for i, word in enumerate(each)] for each in (old, new))
            run = self.at / "-".join(map(str, old + new))
            psgd(*words, *old, "--out", run)
            psgd("resume", run, "--epochs", 2, *new)
            settings = json.loads((run / "metrics.jsonl").read_text().splitlines()[0])["settings"]
            self.assertEqual({name[3:]: value for name, value in settings.items() if name.startswith("lr-")}, kept)
            psgd("resume", run, "--epochs", 3)
        self.assertIn("--lr-floor is for --lr-schedule cosine", psgd("resume", run, "--lr-schedule", "step", "--lr-floor", 0.1, fails=2))

    def test_validation_samples_are_held_out_of_training(self):
        run = self.at / "run"
        words = ["train", "logistic", "--data", "digits", "--samples", 200, "--batch", 20, "--epochs", 3]
        said = psgd(*words, "--validation", 0.25, "--dry-run")
        self.assertIn("150 training, 50 validation and ", said)
        psgd(*words, "--validation", 0.25, "--out", run)
        records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        points = [r for r in records if r["kind"] == "point" and r["split"] != "train"]
        self.assertEqual([(p["split"], p["step"]) for p in points], [("valid", 7), ("valid", 14), ("valid", 21)])
        final = records[-1]
        self.assertEqual(final["valid_loss"], points[-1]["loss"])
        self.assertNotEqual(final["valid_loss"], final["test_loss"])
        self.assertAlmostEqual(50 * final["valid_error"], round(50 * final["valid_error"]), places=9)
        self.assertIn("validation loss", psgd("eval", run))
        self.assertIn("less than a batch", psgd(*words, "--validation", 0.95, fails=2))
        # A learning rate is chosen by them: the one with the lowest validation error.
        psgd("compare", "logistic", *words[2:], "--validation", 0.25, "--optimizers", "sgd", "--lr", "1e-6,0.1", "--out",
             self.at / "c")
        row = json.loads((self.at / "c" / "compare.json").read_text())["optimizers"][0]
        self.assertEqual(row["lr"], min(row["trials"], key=lambda trial: trial["valid_error"])["lr"])

    def test_without_classes_a_learning_rate_is_chosen_by_the_validation_loss(self):
        draw = random.Random(2)
        rows = [[draw.gauss(0, 1) for _ in range(20)] for _ in range(60)]
        table = self.at / "table.csv"
        table.write_text("".join(f"{','.join(f'{x:.3f}' for x in row)},{row[0] + draw.gauss(0, 1):.3f}\n" for row in rows))
        out = self.at / "comparison"  # the larger step fits the noise of the training samples
        psgd("compare", "mlp", "--data", f"csv:{table}", "--batch", 10, "--epochs", 60, "--validation", 0.3, "--optimizers", "adam",
             "--lr", "0.01,0.1", "--out", out)
        row = json.loads((out / "compare.json").read_text())["optimizers"][0]
        self.assertEqual(row["lr"], min(row["trials"], key=lambda trial: trial["valid_loss"])["lr"])
        self.assertNotEqual(row["lr"], min(row["trials"], key=lambda trial: trial["loss"])["lr"])

    def test_kfac_goes_on_as_if_never_stopped(self):
        words = ["train", "lenet5", "--data", "digits", "--samples", 60, "--batch", 20, "--optimizer", "kfac",
                 "--damping", 0.01, "--lr-schedule", "constant"]
        psgd(*words, "--steps", 6, "--out", self.at / "whole")
        psgd(*words, "--steps", 4, "--out", self.at / "cut")
        psgd("resume", self.at / "cut", "--steps", 6)
        self.assertEqual((self.at / "whole" / "weights.safetensors").read_bytes(),
                         (self.at / "cut" / "weights.safetensors").read_bytes())

    def test_progress_on_a_terminal_is_a_bar(self):
        ours, theirs = pty.openpty()
        words = [PSGD, *map(str, self.small(self.at / "run", "--epochs", 100000))]
        training = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=theirs, env=ENVIRONMENT)
        os.close(theirs)
        said, deadline = b"", time.time() + 60
        while b" s left" not in said and time.time() < deadline:
            said += os.read(ours, 1000)
        training.send_signal(signal.SIGINT)
        self.assertEqual(training.wait(60), 1)
        os.close(ours)
        self.assertRegex(said.decode(), r"\rstep \d+ of \d+ \[#*\.*\] loss [\d.]+, [\d.]+/s, \d+ s left")

    def test_interrupt_saves_and_says_how_to_resume(self):
        for name, words in (("samples", self.small), ("text", self.language)):
            with self.subTest(name):
                self.interrupt(words, self.at / name)

    def interrupt(self, command, run):
        words = [PSGD, *map(str, command(run, "--epochs", 100000))]
        training = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=ENVIRONMENT)
        deadline = time.time() + 60
        while not (run / "checkpoint.psgd").exists() and time.time() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
        training.send_signal(signal.SIGINT)
        said, _ = training.communicate(timeout=60)
        self.assertEqual(training.returncode, 1)
        self.assertIn(f"resume with: psgd resume {run}", said)
        steps = int(said.split("stopped after step ")[1].split(";")[0])
        psgd("resume", run, "--steps", steps, "--epochs", 100000)
        ends = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([(end["step"], "test_loss" in end) for end in ends if end["kind"] == "final"], [(steps, True)])
        psgd("resume", run, "--steps", steps + 2, "--epochs", 100000)

    def test_dry_run_describes_and_writes_nothing(self):
        said = psgd("train", "lenet5", "--data", "digits", "--samples", 100, "--group", "kron(tri,tri)", "--dry-run",
                    "--out", self.at / "run")
        for words in ("[6, 26]", "[16, 151]", "[120, 257]", "[84, 121]", "[10, 85]", "44,426", "flops", "bytes",
                      "120 x 120, 257 x 257"):
            self.assertIn(words, said)
        self.assertFalse((self.at / "run").exists())

    def test_a_language_model_is_trained_like_any_other(self):
        run = self.at / "run"
        said = psgd(*self.language(run, "--dry-run", "--untied", "yes"))
        for words in ("6000 training, 750 validation and 750 test words, a vocabulary of 60", "embedding [60, 13]",
                      "row-sparse", "60 x 60, 13 x 13", "lstm2    [48, 25]", "decoder  [60, 13]", "flops"):
            self.assertIn(words, said)
        self.assertFalse(run.exists())
        self.assertRegex(psgd(*self.language(run)), r"epoch 2: training loss \S+, valid loss \S+, perplexity ")
        self.assertEqual(sorted(f.name for f in run.iterdir()),
                         ["checkpoint.psgd", "metrics.jsonl", "weights.safetensors"])
        final = records(run)[-1]
        said = psgd("eval", run)
        self.assertIn(f"test perplexity {final['test_perplexity']:.2f}\n", said)
        of_file = psgd("eval", "lm", "--data", "markov:60,4,6000", "--hidden", 12, "--batch", 5, "--back", 8,
                       "--weights", run / "weights.safetensors")
        self.assertEqual(said.splitlines()[1:], of_file.splitlines()[1:])  # of the best weights, not the last
        text = psgd("generate", run, "--words", 20, "--seed", 3)
        self.assertEqual(text, psgd("generate", run, "--words", 20, "--seed", 3))
        self.assertIn("has no words to write", psgd("generate", self.trained(self.at / "mlp"), fails=2))
        self.assertIn("is a text, for psgd train lm", psgd("train", "mlp", "--data", "markov", fails=2))
        self.assertIn("takes --data text:DIR", psgd("train", "lm", "--data", "digits", fails=2))
        for option, value in (("samples", 9), ("validation", 0.3), ("regression", "yes")):
            self.assertIn(f"--{option} is for labelled samples",
                          psgd("train", "lm", "--data", "markov", f"--{option}", value, fails=2))
        self.assertIn("vocabulary", psgd("resume", run, "--data", "markov:61,4,6000", "--epochs", 3, fails=1))

    def trained(self, run):
        psgd(*self.small(run, "--steps", 1))
        return run

    def test_every_way_of_hv_and_optimizer_trains_a_language_model(self):
        base = ["train", "lm", "--data", "markov:40,4,2000", "--batch", 5, "--back", 8, "--hidden", 8, "--steps", 4]
        for more in (["--hv", "difference"], ["--hv-batch", 2, "--update-every", 2], ["--pairs", 2, "--dtype", "f64"],
                     ["--optimizer", "lbfgs"], ["--optimizer", "newton-cg"], ["--optimizer", "kfac", "--damping", 0.01],
                     ["--optimizer", "psgd-fisher", "--untied", "yes", "--group", "scaw", "--rows", "lazy"],
                     ["--untied", "yes", "--optimizer", "adam", "--l2", 1e-4], ["--lr-end", 0.001, "--epochs", 2]):
            self.assertIn("perplexity", psgd(*base, "--lr", 0.01, *more))

    def test_a_text_is_resumed_where_the_paper_left_it(self):
        data = self.at / "data"
        data.mkdir()
        for name, count in (("train", 700), ("valid", 60), ("test", 60)):
            (data / f"{name}.txt").write_text("".join(f"a b{i % 7} c{i % 5}\n" for i in range(count)))
        words = ["paper", "wikitext2", "--data", data, "--methods", "sgd,newton-scan", "--hidden", 8, "--batch", 5,
                 "--back", 8, "--out", self.at / "out"]
        psgd(*words, "--steps", 9)
        said = psgd("resume", self.at / "out" / "newton-scan", "--steps", 14)
        self.assertIn("perplexity", said)
        again = psgd(*words, "--steps", 14)
        self.assertRegex(again, r"(?m)^newton-scan +14 ")
        self.assertRegex(again, r"(?m)^sgd +14 ")
        self.assertIn("was made with hidden 8, not 9", psgd(*words, "--hidden", 9, fails=2))
        self.assertIn("--rows exact is for --untied", psgd(*words, "--rows", "exact", fails=2))

    def test_a_dry_run_of_the_paper_shows_its_settings(self):
        said = psgd("paper", "wikitext2", "--methods", "sgd,momentum,adam,newton-scan", "--update-anneal", 100,
                    "--update-floor", 0.1, "--dry-run", "--out", self.at / "out")
        blocks = {block.split("\n")[0]: block for block in said.split("\n\n")}
        self.assertEqual(list(blocks), ["sgd", "momentum", "adam", "newton-scan"])
        self.assertIn("momentum 0.9, clip-gradient 0.25", blocks["momentum"])
        self.assertIn("epsilon 1e-6, epsilon-inside yes", blocks["adam"])
        self.assertIn("update-anneal 100, update-floor 0.1", blocks["newton-scan"])
        self.assertNotIn("update-anneal", blocks["sgd"])
        self.assertNotIn("embedding-dropout", said)
        self.assertFalse((self.at / "out").exists())

    def test_every_optimizer_and_way_of_hv_trains(self):
        base = ["train", "logistic", "--data", "digits", "--samples", 200, "--batch", 50, "--epochs", 2]
        for method in ("sgd", "momentum", "adam", "rmsprop", "lbfgs", "psgd-fisher", "psgd-newton"):
            self.assertIn("epoch 2", psgd(*base, "--optimizer", method, "--lr", 0.01))
        self.assertIn("epoch 2", psgd(*base, "--hv", "difference", "--lr", 0.01))
        self.assertIn("epoch 2", psgd(*base, "--hv-batch", 10, "--update-every", 3, "--lr", 0.01))
        self.assertIn("epoch 2", psgd(*base, "--pairs", 2, "--dtype", "f64", "--lr", 0.01))

    def test_the_example_of_a_model_of_ones_own_learns(self):
        done = subprocess.run([BUILD / "examples" / "example_own_model"], capture_output=True, text=True, check=True,
                              env=ENVIRONMENT, timeout=300)
        losses = [float(line.split()[-1]) for line in done.stdout.splitlines()]
        self.assertEqual(len(losses), 5)
        self.assertLess(losses[-1], 0.1)

    def test_the_example_of_an_op_of_ones_own_agrees_with_differences(self):
        done = subprocess.run([BUILD / "examples" / "example_own_op"], capture_output=True, text=True, check=True,
                              env=ENVIRONMENT, timeout=300)
        numbers = re.findall(r"v: (\S+), by differences (\S+)\n", done.stdout)[0]
        self.assertEqual(*numbers)
        self.assertLess(float(done.stdout.split()[-1]), 1e-8)

    def test_sequences_train(self):
        for model, data in (("rnn", "xor:12"), ("lstm", "adding:12")):
            said = psgd("train", model, "--data", data, "--samples", 100, "--batch", 50, "--epochs", 1, "--hidden", 5)
            self.assertIn("epoch 1", said)

    def test_wrong_use_is_told(self):
        for words, sentence in ((["lenett", "--data", "digits"], "did you mean lenet5?"),
                                (["mlp"], "needs --data"),
                                (["mlp", "--data", "digit"], "did you mean digits?"),
                                (["mlp", "--data", "idx"], "needs an argument: idx:DIR"),
                                (["mlp", "--data", "digits", "--btach", "3"], "did you mean --batch?"),
                                (["mlp", "--data", "digits", "--batch", "0"], "at least 1"),
                                (["mlp", "--data", "digits", "--samples", "10"], "a batch of 64 is more than the 10"),
                                (["rnn", "--data", "digits"], "rnn takes sequences"),
                                (["mlp", "--data", "digits", "--optimizer", "adm"], "adam"),
                                (["mlp", "--data", "xor:x"], "length of sequences"),
                                (["mlp", "--data", "digits", "--hv-batch", "65"], "at most the batch of 64"),
                                (["mlp", "--data", "digits", "--group", "tru"], "tru"),
                                (["lenet5", "--data", "digits", "--dropout", 0.5],
                                 "--dropout is not an option of the model lenet5, which takes --l2\n"),
                                (["lstm", "--data", "xor:5", "--layers", 2], "of the model lstm, which takes --l2, --hidden\n"),
                                (["lm", "--data", "markov", "--normalise", "yes"], "of the model lm, which takes --l2, --hidden"),
                                (["mlp", "--data", "digits", "--regression", "yes"], "those of digits are classes"),
                                (["lm", "--data", "markov", "--height", 20], "--height is for JPEGs, not for a text"),
                                *((["mlp", "--data", "xor:5", *jpegs], f"{jpegs[0]} is for JPEGs") for jpegs in (
                                    ("--height", 20), ("--resize", 40), ("--mirror", "yes"), ("--cache", "pixels"))),
                                *((["mlp", "--data", "logit", *schedules], f"{schedules[0]} is for --lr-schedule") for schedules in (
                                    ("--lr-every", 9), ("--lr-factor", 0.5, "--lr-schedule", "constant"),
                                    ("--lr-floor", 0.1, "--lr-schedule", "step"))),
                                *((["mlp", "--data", "logit", *schedules], "both say how lr falls") for schedules in (
                                    ("--lr-end", 0.001, "--lr-epochs", 2), ("--lr-end", 0.001, "--lr-schedule", "plateau"),
                                    ("--lr-epochs", 2, "--lr-schedule", "cosine"), ("--lr-epochs", 2, "--lr-every", 7),
                                    ("--lr-epochs", 2, "--lr-floor", 0.1), ("--lr-end", 0.001, "--lr-floor", 0.1),
                                    ("--lr-end", 0.001, "--lr-factor", 0.5)))):
            self.assertIn(sentence, psgd("train", *words, fails=2))
        for schedule in (["--lr-end", 0.001], ["--lr-epochs", 2, "--lr-factor", 0.5]):
            self.assertIn("lr-schedule step", psgd("train", "mlp", "--data", "logit", *schedule, "--lr-schedule", "step",
                                                   "--dry-run"))
        self.assertIn("lr 0.08", psgd("train", "logistic", "--data", "logit", "--hidden", 30, "--dropout", "0.0", "--dry-run"))
        run = self.at / "run"
        psgd(*self.small(run, "--steps", 1))
        self.assertIn("there is a run in", psgd(*self.small(run), fails=2))

    def idx(self, name, modes, body, packed=False):
        content = struct.pack(">HBB", 0, 8, len(modes)) + b"".join(struct.pack(">I", m) for m in modes) + body
        path = self.at / (name + (".gz" if packed else ""))
        path.write_bytes(gzip.compress(content) if packed else content)
        return path

    def test_idx_files(self):
        for part, packed in (("train", False), ("t10k", True)):
            self.idx(part + "-images-idx3-ubyte", [20, 4, 5], bytes(i % 251 for i in range(400)), packed)
            self.idx(part + "-labels-idx1-ubyte", [20], bytes(i % 3 for i in range(20)), packed)
        words = ["train", "logistic", "--data", f"idx:{self.at}", "--batch", 10, "--epochs", 1]
        self.assertIn("samples of [1, 4, 5]", psgd(*words, "--dry-run"))
        psgd(*words)
        self.idx("t10k-labels-idx1-ubyte", [20], bytes(i % 5 for i in range(20)), True)
        self.assertIn("the test samples have 5 classes", psgd(*words, fails=1))
        self.idx("t10k-labels-idx1-ubyte", [20], bytes(i % 3 for i in range(20)), True)
        images = self.at / "train-images-idx3-ubyte"
        good = images.read_bytes()
        for content, sentence in ((good[:-1], "truncated or damaged"), (good[:6], "not an IDX file"),
                                  (b"\x00\x00\x0d" + good[3:], "not an IDX file")):
            images.write_bytes(content)
            self.assertIn(sentence, psgd(*words, fails=1))
        images.write_bytes(good)
        self.idx("train-labels-idx1-ubyte", [19], bytes(19))
        self.assertIn("20 images for train and 19 labels", psgd(*words, fails=1))
        packed = self.at / "t10k-labels-idx1-ubyte.gz"
        self.idx("train-labels-idx1-ubyte", [20], bytes(i % 3 for i in range(20)))
        packed.write_bytes(packed.read_bytes()[:-6])
        self.assertIn("t10k-labels", psgd(*words, fails=1))
        packed.unlink()
        self.assertIn("neither t10k-labels-idx1-ubyte nor", psgd(*words, fails=1))

    def test_mistakes_are_told_with_what_would_do(self):
        nowhere = self.at / "nowhere"
        for verb in ("resume", "eval", "generate"):
            self.assertIn(f"{nowhere} is not the folder of a run: it has no checkpoint.psgd", psgd(verb, nowhere, fails=1))
        self.assertIn("there is no model 'mpl'; models are logistic, mlp", psgd("train", "mpl", "--data", "xor", fails=2))
        self.assertIn("; methods are psgd, sgd", psgd("train", "mlp", "--data", "xor", "--optimizer", "foo", fails=2))
        self.assertIn("15 x 15 with --size small", psgd("train", "alexnet", "--data", "digits", fails=2))
        self.assertIn("2 dimensions\n", psgd("train", "lenet5", "--data", "xor", fails=2))
        self.assertIn("1 dimension\n", psgd("train", "lenet5", "--data", "logit", fails=2))
        self.assertIn("group as below, lr 0.5\n", psgd("train", "logistic", "--data", "logit", "--lr", 0.5, "--dry-run"))

    def test_csv_files(self):
        table = self.at / "table.csv"
        words = ["train", "logistic", "--data", f"csv:{table}", "--batch", 10, "--epochs", 1]
        table.write_text("a,b,label\n" + "".join(f"{i},{-i}.5,{i % 2}\n" for i in range(40)))
        self.assertIn("2 classes, samples of [2]", psgd(*words, "--dry-run"))
        psgd(*words)
        table.write_text("".join(f"{i / 40},{i % 3},{i / 10}\n" for i in range(40)))  # y is a number
        self.assertIn("regression, 1 output, samples of [2]", psgd(*words, "--dry-run"))
        self.assertNotIn("error", psgd(*words, "--optimizer", "sgd", "--lr", 0.01))
        table.write_text("".join(f"{i},{i % 3},{100 + 100 * (i % 2)}\n" for i in range(40)))
        gaps = "labels go up to 200 but only 2 of the 201 classes occur"
        self.assertIn(gaps, psgd(*words, "--dry-run"))
        self.assertIn(gaps, psgd(*words, "--steps", 1))
        self.assertIn("--regression yes", psgd(*words, "--dry-run"))
        self.assertIn("regression, 1 output, samples of [2]", psgd(*words, "--regression", "yes", "--dry-run"))
        self.assertIn("has 36 training samples, not 37", psgd(*words, "--samples", 37, fails=2))
        psgd(*words, "--samples", 20, "--out", self.at / "few")  # two batches of 10
        self.assertEqual(records(self.at / "few")[-1]["step"], 2)
        run = self.at / "regression"
        trained = psgd(*words, "--regression", "yes", "--out", run)
        self.assertNotIn("error", trained + psgd("eval", run) + psgd("resume", run, "--epochs", 2))
        self.assertIn("a batch of 50 is more than the 36 training samples", psgd(*words, "--batch", 50, fails=2))
        self.assertIn("; --batch 36 or fewer", psgd(*words, "--batch", 50, fails=2))
        table.write_text("\ufeff1,2,0\n" * 20)
        self.assertIn("line 2, column 1: '\ufeff1' is not a number", psgd(*words, fails=1))
        for content, sentence in (("1,2,0\n1,2\n", "line 2 has 2 values; expected 3"),
                                  ("1,2,0\n1,x,0\n", "line 2, column 2: 'x' is not a number\n"),
                                  ("1,2,0\n1,2,A\n", "line 2, column 3: 'A' is not a number; labels are numbers, 0, 1"),
                                  ("1,,1\n1,2,0\n", "line 1, column 2 is empty"),
                                  ("x,2,1\n1,2,0\n", "line 1, column 1: 'x' is not a number"),
                                  ("1,5;2,5;0\n", "line 1 has both ',' and ';'; fields are separated by commas"),
                                  ("a;b;c\n1,5;2,5;0\n", "line 2 has both ',' and ';'"),
                                  ("", "no line of values"), ("1,2,0\n1,nan,0\n", "line 2, column 2: 'nan' is not finite")):
            table.write_text(content)
            self.assertIn(sentence, psgd(*words, fails=1))

    def test_npy_files(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no numpy")
        x, y = self.at / "x.npy", self.at / "y.npy"
        words = ["train", "lenet5", "--data", f"npy:{x},{y}", "--batch", 10, "--epochs", 1]
        numpy.save(x, numpy.random.default_rng(1).random((40, 2, 20, 20), dtype=numpy.float32))
        numpy.save(y, numpy.arange(40, dtype=numpy.float32) % 4)
        self.assertIn("4 classes, samples of [2, 20, 20]", psgd(*words, "--dry-run"))
        psgd(*words)
        numpy.save(y, numpy.arange(39, dtype=numpy.float32) % 4)
        self.assertIn("40 samples", psgd(*words, fails=1))

    def test_folders_of_pictures(self):
        data = Path(os.environ.get("PSGD_DATA", SOURCE.parent / "shared" / "data")) / "imagenet-sample"
        words = ["train", "logistic", "--data", f"images:{self.at}", "--batch", 4, "--epochs", 1, "--holdout", 0.5]
        self.assertIn("no class folders", psgd(*words, fails=1))
        (self.at / "a").mkdir()
        self.assertIn("has no .jpg or .jpeg", psgd(*words, fails=1))
        if not data.is_dir():
            self.skipTest("no pictures at PSGD_DATA")
        for i, folder in enumerate(sorted(data.iterdir())[:8]):
            (self.at / "ab"[i % 2]).mkdir(exist_ok=True)
            for file in folder.iterdir():
                (self.at / "ab"[i % 2] / file.name).write_bytes(file.read_bytes())
        self.assertIn("2 classes, samples of [3, 32, 32]", psgd(*words, "--dry-run"))
        psgd(*words)
        first = next((self.at / "a").iterdir())
        first.write_bytes(first.read_bytes()[:100])
        said = psgd(*words)
        self.assertIn("1 images could not be read and were passed over", said)
        self.assertIn(first.name, said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
