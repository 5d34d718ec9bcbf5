#!/usr/bin/python3
"""psgd VERB --help: the examples run as they are and show no NaN, and every verb shows its own options only."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy
except ImportError:
    numpy = None

BUILD = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else "build")
PSGD = os.path.join(BUILD, "psgd")
VERBS = ["group", "fit", "minimize", "train", "compare", "resume", "eval", "paper", "paper rosenbrock", "paper wikitext2",
         "paper imagenet", "demo", "report", "generate", "bench"]


def help_of(*words):
    return subprocess.run([PSGD, *words, "--help"], capture_output=True, text=True, check=True).stdout


def in_lines(text):
    """Every option on a line of its own, however long."""
    return re.sub(r"\n {37}(?=\S)", " ", text)


def options_of(text):
    return re.findall(r"^  --([a-z0-9-]+) ", text, re.M)


class Help(unittest.TestCase):
    def test_every_verb_is_tested(self):
        usage = subprocess.run([PSGD, "--help"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(set(re.findall(r"^  (\w+) ", usage, re.M)), {verb.split()[0] for verb in VERBS})

    def test_no_option_is_shown_twice(self):
        for verb in VERBS:
            names = options_of(help_of(*verb.split()))
            self.assertEqual(len(names), len(set(names)), verb)

    def test_an_option_has_one_default(self):
        for verb in VERBS:
            for line in re.findall(r"^  --.*", in_lines(help_of(*verb.split())), re.M):
                self.assertLessEqual(line.count(" ["), 1, line)

    def test_options_fit_a_terminal(self):
        for verb in VERBS:
            for line in re.findall(r"^  --.*(?:\n {37}.*)*", help_of(*verb.split()), re.M):
                self.assertLessEqual(max(map(len, line.splitlines())), 100, line)
                self.assertNotRegex(line, r"(?m) $")

    def test_every_verb_has_an_example(self):
        for verb in VERBS:
            if verb != "paper imagenet":  # needs files
                self.assertIn("\nExamples:\n  psgd ", help_of(*verb.split()), verb)

    def test_what_help_says_is_so(self):
        source = os.path.abspath(sys.argv[1])
        named = re.findall(r"examples/\S+\.c\b", "".join(help_of(*verb.split()) for verb in VERBS))
        self.assertTrue(named)
        for path in named:
            self.assertTrue(os.path.isfile(os.path.join(source, path)), path)
        for verb in ("train", "compare", "resume"):
            self.assertRegex(in_lines(help_of(verb)), r"--lr-schedule [a-z|]+ .*\[cosine\]\n", verb)
        self.assertRegex(in_lines(help_of("minimize")), r"--lr-schedule [a-z|]+ .*\[constant\]\n")
        self.assertIn("0.25 up to 128, 0.07 up to 10,000, else 0.03", in_lines(help_of("train")))
        self.assertRegex(help_of("train"), r"csv:FILE +numbers .* label last; labels 0, 1, 2, ... are\n +classes")
        self.assertIn("PSGD_NUM_THREADS", help_of("bench"))
        for name in ("minimize", "gd", "psgd-newton", "psgd-fisher"):
            self.assertRegex(in_lines(help_of("minimize")), rf"--method NAME .*\b{name}\b")
        self.assertIn("[4x, at least 64 KB, as auto]", in_lines(help_of("group")))

    @unittest.skipUnless(numpy, "needs numpy")
    def test_every_example_runs(self):
        environment = {**os.environ, "PATH": BUILD + ":" + os.environ["PATH"]}
        count = 0
        for verb in VERBS:
            text = help_of(*verb.split())
            _, _, examples = text.partition("\nExamples:\n")
            with tempfile.TemporaryDirectory() as folder:
                rng = numpy.random.default_rng(0)
                v = rng.normal(size=(50, 64, 33)).astype("f4")
                for name, values in (("V", v), ("H", 3 * v), ("G", v[:2])):
                    numpy.save(os.path.join(folder, name + ".npy"), values)
                for command in examples.splitlines():
                    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
                    self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")
                    self.assertNotRegex(done.stdout + done.stderr, r"(?i)\bnan\b|\binf\b", command)
                    count += 1
        self.assertGreater(count, 20)

    def test_defaults_are_those_of_the_method_named(self):
        self.assertRegex(help_of("train"), r"(?m)^  --lr X +mu, the step size; psgd: larger up to 128 parameters\s+\[by\s+method\]$")
        self.assertIn("Defaults by method", help_of("train"))
        for method, rate in (("adam", "0.001"), ("lbfgs", "1")):
            said = help_of("train", "--optimizer", method)
            self.assertRegex(said, rf"(?m)^  --lr X +mu, the step size; psgd: larger up to 128 parameters\s+\[{rate}\]$")
            self.assertIn(f"Defaults are those of {method}.", said)
        self.assertIn("[newton]", help_of("train", "--optimizer", "psgd"))
        self.assertIn("[fisher]", help_of("train", "--optimizer", "psgd", "--criterion", "fisher"))
        self.assertIn("Defaults are those of momentum.", help_of("minimize", "--method", "momentum"))
        self.assertIn("by method", help_of("train", "--optimizer", "no-such-method"))

    def test_verbs_show_their_own_options(self):
        self.assertNotIn("lr", options_of(help_of("eval")))
        self.assertIn("data", options_of(help_of("eval")))
        self.assertEqual(set(options_of(help_of("paper", "rosenbrock"))), {"out", "search", "help"})
        language, images = (set(options_of(help_of("paper", name))) for name in ("wikitext2", "imagenet"))
        self.assertLessEqual({"dry-run", "eval-batches", "data"}, language & images)
        self.assertIn("hidden", language - images)
        self.assertIn("mirror", images - language)
        self.assertEqual(options_of(help_of("paper")), [])

    def test_flags_of_another_experiment_are_refused(self):
        done = subprocess.run([PSGD, "paper", "rosenbrock", "--hidden", "3"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("psgd paper rosenbrock has no flag --hidden", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
