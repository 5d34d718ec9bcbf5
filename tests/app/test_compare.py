#!/usr/bin/python3
"""psgd compare as a user runs it, and runs that diverge or skip steps: nothing fails in silence."""
import json
import os
import signal
import statistics
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
SMALL = ["--data", "digits", "--samples", 300, "--batch", 20, "--epochs", 3, "--hidden", 8, "--log-every", 4]


def call(*words, code=0):
    done = subprocess.run([PSGD, *map(str, words)], capture_output=True, text=True, env=ENVIRONMENT, timeout=300)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def records(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def last_loss(run):
    """The mean training loss over the records of the last twentieth of the steps, computed apart."""
    points = [r for r in records(run) if r["kind"] == "point" and r["split"] == "train"]
    total, covered, sum_ = points[-1]["step"], 0, 0.0
    for i in range(len(points) - 1, -1, -1):
        if 20 * covered >= total:
            break
        own = points[i]["step"] - (points[i - 1]["step"] if i else 0)
        sum_, covered = sum_ + own * points[i]["loss"], covered + own
    return sum_ / covered


def write_npy(path, shape, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                     struct.pack(f"<{len(values)}f", *values))


class Compare(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory()
        cls.at = Path(cls.shared.name)
        cls.first = call(*cls.compare())

    @classmethod
    def tearDownClass(cls):
        cls.shared.cleanup()

    @classmethod
    def compare(cls, *more, out="out"):
        return ["compare", "mlp", *SMALL, "--out", cls.at / out, "--optimizers",
                "psgd-newton:lr=default,psgd:criterion=fisher:group=kron(tri,tri):lr=0.01,adam", "--lr",
                "0.001,0.01,1e9", "--seeds", 3, *more]

    def test_table_and_json_agree_with_the_logs(self):
        said = self.first.stdout.splitlines()
        found = json.loads((self.at / "out/compare.json").read_text())
        self.assertEqual([row["optimizer"] for row in found["optimizers"]],
                         ["psgd-newton:lr=default", "psgd:criterion=fisher:group=kron(tri,tri):lr=0.01", "adam"])
        for line, row in zip(said[1:], found["optimizers"]):
            self.assertTrue(line.startswith(row["optimizer"] + " "), line)
            losses = [last_loss(self.at / "out" / run["folder"]) for run in row["runs"]]
            self.assertEqual([run["seed"] for run in row["runs"]], ["0", "1", "2"])
            for run, loss in zip(row["runs"], losses):
                self.assertAlmostEqual(run["loss"], loss, places=7)
                final = records(self.at / "out" / run["folder"])[-1]
                self.assertAlmostEqual(run["test_error"], final["test_error"], places=7)
            words = line[len(row["optimizer"]):].split()
            self.assertAlmostEqual(float(words[1]), statistics.median(losses), places=4)
            self.assertEqual(words[0], row["lr"])
        adam = found["optimizers"][2]
        self.assertEqual([run["lr"] for run in adam["trials"]], ["0.001", "0.01", "1e9"])
        self.assertEqual([run["diverged"] for run in adam["trials"]], [False, False, True])
        best = min(adam["trials"][:2], key=lambda run: run["loss"])
        self.assertEqual({run["lr"] for run in adam["runs"]}, {best["lr"]})
        self.assertIn("best of 3 learning rates, of which 1 diverged", said[3])
        page = (self.at / "out/report.html").read_text()
        self.assertIn("adam, lr 0.01, seed 0", page)
        self.assertIn('"diverged":1', page)

    def test_all_settings_are_recorded(self):
        header = records(self.at / "out/adam-lr0.01-seed0")[0]
        self.assertEqual(header["settings"]["lr"], "0.01")
        for name, value in {"batch": None, "beta1": "0.9", "beta2": "0.999", "epsilon": "1e-8", "dtype": "f32"}.items():
            self.assertEqual(header["defaults"].get(name), value)
        self.assertNotIn("group", header["defaults"])
        header = records(self.at / "out/psgd-newton-lr-default-seed1")[0]
        self.assertEqual(header["seed"], "1")
        for name in ("lr", "group", "criterion", "step", "momentum", "init", "max-skipped"):
            self.assertIn(name, header["defaults"])
        self.assertEqual(header["defaults"]["criterion"], "newton")

    def test_a_second_time_repeats_nothing(self):
        logs = sorted(self.at.glob("out/*/metrics.jsonl"))
        before = [log.stat().st_mtime_ns for log in logs]
        again = call(*self.compare())
        self.assertEqual(self.first.stdout, again.stdout)
        self.assertEqual(before, [log.stat().st_mtime_ns for log in logs])
        refused = call(*self.compare("--hidden", 9), code=2)
        self.assertIn("other settings", refused.stderr)

    def test_the_same_flags_in_another_order_and_place_repeat_nothing(self):
        flags, name = ["--samples", 60, "--batch", 20], ["--optimizers", "adam:lr=0.1"]
        words = ["compare", "logistic", "--data", "digits", "--epochs", 1, *name]
        first = call(*words, *flags, "--out", self.at / "order")
        (self.at / "order").rename(self.at / "moved")
        again = call("compare", "logistic", *flags[2:], *flags[:2], *words[2:], "--out", f"{self.at}/./moved/")
        self.assertEqual(first.stdout.splitlines()[:2], again.stdout.splitlines()[:2])
        self.assertNotIn("epoch", again.stderr)
        said = call(*words, *flags, "--l2", 0.1, "--out", self.at / "moved", code=2).stderr
        self.assertIn("l2 was not given", said)
        self.assertIn("samples 60", call(*words, "--batch", 20, "--out", self.at / "moved", code=2).stderr)

    def test_interrupted_and_resumed(self):
        words = self.compare("--epochs", 40, "--optimizers", "adam:lr=0.01,sgd:lr=0.01", "--seeds", 2, out="cut")
        run = subprocess.Popen([PSGD, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=ENVIRONMENT)
        deadline = time.time() + 60
        while not list(self.at.glob("cut/*/metrics.jsonl")) and time.time() < deadline:
            time.sleep(0.01)
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 1)
        self.assertIn("the same command resumes", said)
        self.assertFalse((self.at / "cut/compare.json").exists())
        call(*words)
        found = json.loads((self.at / "cut/compare.json").read_text())
        self.assertEqual({run["steps"] for row in found["optimizers"] for run in row["runs"]}, {600})

    def test_every_learning_rate_diverges(self):
        said = call("compare", "mlp", *SMALL, "--out", self.at / "other", "--optimizers", "momentum", "--lr", "1e8,1e9",
                    "--seeds", 3).stdout
        self.assertIn("diverged on 1 of 1 seeds", said)

    def test_the_time_of_a_step_is_that_of_runs_that_did_not_diverge(self):
        words = ["compare", "logistic", "--data", "digits", "--samples", 60, "--batch", 20, "--epochs", 5, "--out",
                 self.at / "times", "--optimizers", "adam", "--seeds", 2]
        call(*words)
        for seed, step, more in ((0, 2, ',"diverged":1'), (1, 15, ',"test_loss":1')):  # as if seed 0 had diverged
            log = self.at / "times" / f"adam-seed{seed}" / "metrics.jsonl"
            lines = log.read_text().splitlines()[:-1]
            lines.append(f'{{"kind":"final","step":{step},"epoch":1,"seconds":3{more}}}')
            log.write_text("\n".join(lines) + "\n")
        self.assertRegex(call(*words).stdout, r"\nadam .* 3\.0 +200 +diverged on 1 of 2 seeds\n")

    def test_the_schedule_of_an_optimizer_takes_precedence_over_that_of_all(self):
        words = ["compare", "logistic", "--data", "digits", "--samples", 60, "--batch", 20, "--steps", 2, "--out", self.at / "falls",
                 "--lr-schedule", "cosine", "--lr-floor", 0.1]
        call(*words, "--optimizers", "adam,sgd:lr-end=0.001,momentum:lr-schedule=constant")
        for name, kept in (("adam", {"lr-schedule": "cosine", "lr-floor": "0.1"}), ("sgd-lr-end-0.001", {"lr-end": "0.001"}),
                           ("momentum-lr-schedule-constant", {"lr-schedule": "constant"})):
            settings = records(self.at / "falls" / f"{name}-seed0")[0]["settings"]
            self.assertEqual({word: value for word, value in settings.items() if word.startswith("lr-")}, kept)
        self.assertIn("--lr-every is for --lr-schedule step",
                      call(*words, "--optimizers", "adam,sgd:lr-schedule=constant:lr-every=9", code=2).stderr)

    def test_optimizers_of_like_names_have_folders_of_their_own(self):
        call("compare", "logistic", "--data", "digits", "--samples", 60, "--batch", 20, "--steps", 2, "--out", self.at / "signs",
             "--optimizers", "adam:lr=1e-1,adam:lr=1e+1")
        self.assertEqual(len([run for run in (self.at / "signs").iterdir() if run.is_dir()]), 2)

    def test_what_is_compared_is_the_same_for_all(self):
        for option in ("model=logistic", "data=xor", "optimizer=sgd", "seed=3", "out=elsewhere", "name=other"):
            said = call("compare", "mlp", *SMALL, "--out", self.at / "none", "--optimizers", "adam:" + option, code=2).stderr
            self.assertIn(option.split("=")[0] + " cannot differ between the optimizers", said)
        self.assertFalse((self.at / "none").exists())

    def test_wrong_use(self):
        for words, sentence in (([], "one MODEL"), (["mlp"], "--data"), (["mlp", *SMALL, "--lr", "0.1,x"], "'x'"),
                                (["mlp", *SMALL, "--optimizers", "adam,adam"], "twice"),
                                (["mlp", *SMALL, "--optimizers", "adm"], "did you mean adam?"),
                                (["mlp", *SMALL, "--optimizers", "adam,adm"], "adm: there is no method adm; did you mean adam?"),
                                (["mlp", *SMALL, "--optimizers", "adam,psgd:group=tri(2)"], "psgd:group=tri(2): "),
                                (["mlp", *SMALL, "--optimizers", "adam:lr"], "option=value"),
                                (["mlp", *SMALL, "--seeds", "0"], "--seeds"),
                                (["mlp", *SMALL, "--optimizer", "adam"], "did you mean --optimizers?")):
            with self.subTest(words=words):
                done = call("compare", *words, "--out", self.at / "none", code=2)
                self.assertIn(sentence, done.stderr)
                self.assertEqual(done.stderr.splitlines()[-1][:6], "psgd: ")
        self.assertFalse((self.at / "none").exists())

    def test_help_has_the_defaults_of_every_method(self):
        for verb in ("compare", "train", "minimize"):
            said = call(verb, "--help").stdout
            self.assertRegex(said, r"(?m)^  adamw +lr 0.001, decay 0.01$")
            self.assertRegex(said, r"(?m)^  psgd-newton +lr 0.08, warmup 20, .*criterion newton")
        self.assertIn("adamw", subprocess.run([PSGD, "--man"], capture_output=True, text=True, check=True).stdout)


class Silence(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.at = Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def test_divergence_ends_a_run_with_a_sentence(self):
        done = call("train", "mlp", *SMALL, "--optimizer", "sgd", "--lr", 1e6, "--out", self.at / "run", code=1)
        self.assertRegex(done.stderr, r"^psgd: the run diverged at step \d+: its loss is .*, and was .*; a smaller --lr")
        self.assertEqual(done.stderr.count("\n"), 1)
        log = records(self.at / "run")
        self.assertEqual((log[-1]["kind"], log[-1]["diverged"]), ("final", 1))
        self.assertFalse((self.at / "run/weights.safetensors").exists())
        # The run can be taken up from its last checkpoint with another step size.
        call("resume", self.at / "run", "--lr", 0.01)
        self.assertNotIn("diverged", records(self.at / "run")[-1])

    def test_a_validation_loss_that_is_not_finite_says_what_may_help(self):
        lines = call("train", "mlp", *SMALL, "--steps", 10, "--optimizer", "sgd", "--lr", 1e33, code=1).stderr.splitlines()
        self.assertRegex(lines[-1], r"^psgd: the run diverged at step 10: its test loss is not finite; a smaller --lr")

    def samples(self, bad):
        """60 samples of which these are so large that products overflow."""
        x = [3.4e38 if i in bad else ((i + j) % 7 - 3) / 8 for i in range(60) for j in range(64)]
        write_npy(self.at / "x.npy", (60, 64), x)
        write_npy(self.at / "y.npy", (60,), [float(i % 2) for i in range(60)])
        return ["train", "mlp", "--data", f"npy:{self.at}/x.npy,{self.at}/y.npy", "--batch", 6, "--epochs", 8, "--holdout", 0.02,
                "--optimizer", "momentum", "--lr", 0.001, "--out", self.at / "run"]

    def test_first_skipped_step_warns_and_the_run_ends(self):
        done = call(*self.samples(bad={12}))
        self.assertRegex(done.stderr, r"^psgd: warning: step \d+ was skipped: the gradient of W1 is not finite")
        self.assertEqual(done.stderr.count("warning"), 1)
        final = records(self.at / "run")[-1]
        self.assertGreaterEqual(final["skipped_steps"], 1)

    def test_too_many_skipped_steps_in_a_row_end_the_run(self):
        done = call(*self.samples(bad=set(range(60))), "--max-skipped", 5, code=1)
        lines = done.stderr.splitlines()
        self.assertIn("was skipped", lines[0])
        self.assertIn("6 steps in a row were skipped (option max-skipped is 5)", lines[1])
        self.assertEqual(len(lines), 2)
        self.assertEqual(records(self.at / "run")[-1]["diverged"], 1)

    def test_minimize_logs_its_run(self):
        run = self.at / "run"
        call("minimize", "wood", "--method", "adam", "--lr", 0.1, "--max-iterations", 50, "--out", run, code=1)
        log = records(run)
        self.assertEqual([r["step"] for r in log if r["kind"] == "point"], list(range(51)))
        self.assertEqual(log[1]["loss"], 19192)
        self.assertEqual(log[0]["defaults"]["beta2"], "0.999")
        self.assertEqual((log[-1]["kind"], log[-1]["diverged"], log[-1]["evaluations"]), ("final", 0, 50))
        self.assertEqual(log[-1]["value"], log[-2]["loss"])
        call("report", run, "-o", self.at / "page.html")

    def test_minimize_leaves_a_run_of_train_alone(self):
        run = self.at / "run"
        call("train", "logistic", "--data", "digits", "--samples", 60, "--batch", 20, "--epochs", 1, "--out", run)
        kept = (run / "metrics.jsonl").read_bytes()
        self.assertIn("give another folder", call("minimize", "wood", "--out", run, code=2).stderr)
        self.assertEqual((run / "metrics.jsonl").read_bytes(), kept)

    def test_minimize_has_one_method_or_a_table(self):
        for words, sentence in ((["--method", "adam", "--compare", "sgd"], "leave one out"), (["--compare="], "at least one")):
            self.assertIn(sentence, call("minimize", "wood", *words, code=2).stderr)

    def test_minimize_says_so(self):
        table = call("minimize", "rosenbrock", "--compare", "sgd:lr=1,lbfgs,adam").stdout.splitlines()
        self.assertTrue(table[1].endswith("diverged"), table[1])
        self.assertNotIn("nan", table[1])
        self.assertTrue(table[2].endswith(" converged"), table[2])
        self.assertTrue(table[3][-1].isdigit(), table[3])
        self.assertIn("diverged after 1 iterations", call("minimize", "rosenbrock", "--method", "sgd", "--lr", 1,
                                                          code=1).stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
