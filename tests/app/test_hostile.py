#!/usr/bin/python3
"""Files and names that were made to do harm: each gets one sentence and a status, and nothing else happens."""
import base64
import gzip
import json
import os
import pathlib
import resource
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from hostile import Checkpoint

PSGD = os.path.join(os.path.abspath(sys.argv[2]), "psgd")
JPEG = base64.b64decode(  # 16 x 16, grey
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABsSFBcUERsXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9VXVtqeJmBanGQc1tdhbWGkJ6jq62rZ4C8yb"
    "qmx5moq6T/wAALCAAQABABAREA/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIh"
    "MUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhI"
    "WGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/9oACAEBAAA/AG0U"
    "UV//2Q=="
)
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
        names = list(good.sections)
        for first, second in zip(names, names[1:]):  # sizes that add up to that of the file
            for far in (2**40, -2**40):
                lengths = {name: len(good.sections[name]) for name in (first, second)}
                good.write(path, sizes={first: lengths[first] + far, second: lengths[second] - far})
                for verb in ("generate", "resume"):
                    self.refused("truncated or damaged", verb, run)
        good.write(path)
        self.accepted("generate", run, "--words", 5)

    def test_sections_of_a_checkpoint_in_another_order_are_harmless(self):
        run, good = self.language()
        path = os.path.join(run, "checkpoint.psgd")
        names = list(good.sections)
        for k in range(1, len(names)):
            good.sections = {name: good.sections[name] for name in names[k:] + names[:k]}
            for padding in (b"", b"x", b"xx", b"xxxx"):  # arrays begin anywhere
                moved = Checkpoint.__new__(Checkpoint)
                moved.__dict__.update(good.__dict__, sections={**good.sections})
                moved.change_settings(out="run" + padding.decode())
                moved.write(path)
                ran = psgd("generate", run, "--words", 5)
                self.assertIn(ran.returncode, (0, 1), ran.stderr[-3000:])
                self.assertEqual(ran.stderr.count("\n"), ran.returncode, ran.stderr[-3000:])
                ran = psgd("resume", run)
                self.assertIn(ran.returncode, (0, 1), ran.stderr[-3000:])
                self.assertNotIn("runtime error", ran.stderr)

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
                              4: (float("nan"), -1.0), 8: (-1, 10**9), 9: (-1, 10**9)}.items():
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

    # --- data

    def test_numbers_that_f32_cannot_hold_are_refused(self):
        for number, row in (("1e39", 7), ("-1e39", 7), ("1e400", 7), ("nan", 7), ("inf", 7), ("nan", 0)):  # row 0 is no heading
            with open(self.path("table.csv"), "w", encoding="utf-8") as table:
                table.write("".join(f"{i},{number if i == row else i % 3},{i % 2}\n" for i in range(40)))
            self.refused(f"line {row + 1}", "train", "logistic", "--data", "csv:" + self.path("table.csv"), "--steps", 5)

    def test_weights_that_f32_cannot_hold_are_refused(self):
        run = self.path("run")
        self.accepted("train", "logistic", "--data", "digits", "--samples", 80, "--steps", 1, "--out", run, "--dtype", "f64")
        path = os.path.join(run, "weights.safetensors")
        with open(path, "rb") as file:
            whole = file.read()
        for value in (1e39, float("nan"), float("inf")):
            with open(path, "wb") as file:
                file.write(whole[:-8] + struct.pack("<d", value))
            self.refused("not finite", "eval", "logistic", "--data", "digits", "--samples", 80, "--weights", path)

    def images(self, bad):
        """A folder of images of which one is bad, and what training on it says."""
        for split in ("train", "test"):
            for kind in ("a", "b"):
                os.makedirs(self.path("images", split, kind), exist_ok=True)
                for i in range(4):
                    with open(self.path("images", split, kind, f"{i}.jpg"), "wb") as file:
                        file.write(JPEG)
        bad(self.path("images", "train", "a", "x.jpg"))
        return psgd("train", "logistic", "--data", "images:" + self.path("images"), "--height", 8, "--width", 8, "--steps", 3,
                    "--batch", 4)

    def test_a_jpeg_that_claims_too_much_is_passed_over(self):
        def claims(size):
            at = JPEG.index(b"\xff\xc0") + 5
            return JPEG[:at] + struct.pack(">HH", *size) + JPEG[at + 4:]
        scan = JPEG[JPEG.index(b"\xff\xda"):-2]
        for body in (claims((64264, 50183)), claims((65500, 65500)) + bytes(10**7), claims((3000, 3000)),
                     claims((8000, 8000)) + bytes(10**6) + scan * 4000, JPEG[:40], b""):
            began = time.monotonic()
            ran = self.images(lambda path: pathlib.Path(path).write_bytes(body))
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn("could not be read", ran.stdout + ran.stderr)
            self.assertLess(time.monotonic() - began, 30)

    def test_what_is_no_file_is_no_image(self):
        for make in (os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path), lambda path: os.symlink("nowhere", path)):
            ran = self.images(make)
            self.assertIn(ran.returncode, (0, 1), ran.stderr)
            path = self.path("images", "train", "a", "x.jpg")
            os.rmdir(path) if os.path.isdir(path) else os.unlink(path)

    # --- runs

    def small(self, out, *more, **how):
        return psgd("train", "logistic", "--data", "digits", "--samples", 80, "--steps", 6, "--optimizer", "sgd", "--out", out,
                    *more, **how)

    def test_a_run_that_could_not_begin_can_be_tried_again(self):
        run = self.path("new", "run")
        for limit in (0, 100, 500, 2000, 5000):
            def full():
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            ran = subprocess.run([PSGD, "train", "logistic", "--data", "digits", "--samples", "80", "--steps", "6", "--optimizer",
                                  "sgd", "--out", run], capture_output=True, text=True, preexec_fn=full)
            self.assertEqual(ran.returncode, 1, ran.stdout)
            self.assertFalse(os.path.exists(self.path("new")), ran.stderr)
        self.assertEqual(self.small(run).returncode, 0)
        for start in ("", '{"kind":"hea', '{"kind":"header","version":1'):
            shutil.rmtree(run)
            os.mkdir(run)
            with open(os.path.join(run, "metrics.jsonl"), "w", encoding="utf-8") as log:
                log.write(start)  # a kill in the middle of the first record
            self.assertEqual(self.small(run).returncode, 0)
        shutil.rmtree(run)
        os.mkdir(run)
        with open(os.path.join(run, "metrics.jsonl"), "w", encoding="utf-8") as log:
            log.write("my notes")
        self.assertEqual(self.small(run).returncode, 2)

    def test_a_log_that_is_no_file_is_not_waited_for(self):
        run = self.path("run")
        self.assertEqual(self.small(run).returncode, 0)
        log = os.path.join(run, "metrics.jsonl")
        for make in (os.mkfifo, lambda path: os.symlink("/dev/zero", path), os.mkdir):
            os.unlink(log)
            make(log)
            self.refused("not a file", "resume", run, "--steps", 8)
            new = self.path("new")
            os.mkdir(new)
            os.rename(log, os.path.join(new, "metrics.jsonl"))
            ran = self.small(new)
            self.assertIn(ran.returncode, (1, 2), ran.stderr)
            shutil.rmtree(new)
            open(log, "w", encoding="utf-8").close()

    def test_resuming_sweeps_what_a_kill_left(self):
        run = self.path("run")
        self.assertEqual(self.small(run, "--checkpoint-every", 2).returncode, 0)
        listing = sorted(os.listdir(run))
        for name in ("checkpoint.psgd.partial-0123456789abcdef", "weights.safetensors.partial-12345"):
            with open(os.path.join(run, name), "wb") as file:
                file.write(b"half")
        self.accepted("resume", run, "--steps", 8)
        self.assertEqual(sorted(os.listdir(run)), listing)

    def test_a_finished_experiment_stays_as_it_is(self):
        command = ("paper", "wikitext2", "--methods", "sgd,fisher-scan", "--epochs", 1, "--steps", 12, "--hidden", 4, "--batch", 40,
                   "--back", 20, "--out", self.path("paper"))
        def contents():
            found = {}
            for folder, _, names in os.walk(self.path("paper")):
                for name in names:
                    path = os.path.join(folder, name)
                    with open(path, "rb") as file:
                        found[folder, name] = file.read()
                    if name == "metrics.jsonl":  # nor is it evaluated, and its last record written, again
                        found[folder, "time"] = os.stat(path).st_mtime_ns
            return found
        self.accepted(*command)
        before = contents()
        self.accepted(*command)
        self.assertEqual(before, contents())

    def test_flags_of_another_experiment_are_refused(self):
        out = ("--out", self.path("paper"))
        for experiment, flag in {"wikitext2": ("--size", "small"), "imagenet": ("--hidden", "5"), "rosenbrock": ("--seed", "3")}.items():
            self.refused(f"psgd paper {experiment} has no flag {flag[0]}", "paper", experiment, *flag, *out)
        self.assertFalse(os.path.exists(self.path("paper")))

    def test_an_unknown_instruction_set_is_refused(self):
        command = ("train", "logistic", "--data", "digits", "--steps", 1)
        self.refused("PSGD_ISA", *command, env={**os.environ, "PSGD_ISA": "sse9"})
        self.accepted(*command, env={**os.environ, "PSGD_ISA": "portable"})

    def test_an_interrupt_has_one_status(self):
        commands = [("train", "lm", "--data", "markov:1000,8,200000,1", "--epochs", 50, "--out", self.path("train")),
                    ("paper", "wikitext2", "--methods", "sgd", "--epochs", 50, "--out", self.path("paper"))]
        for command in commands:
            running = subprocess.Popen([PSGD, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            log = self.path(*(("train",) if command[0] == "train" else ("paper", "sgd")), "checkpoint.psgd")
            for _ in range(300):
                if os.path.exists(log):
                    break
                time.sleep(0.1)
            time.sleep(0.5)
            running.send_signal(signal.SIGINT)
            running.communicate(timeout=60)
            self.assertEqual(running.returncode, 1, command)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
