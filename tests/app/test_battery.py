#!/usr/bin/python3
"""What bench/battery makes of runs, on runs made up here."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE, BUILD = Path(sys.argv[1]), Path(sys.argv[2])
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "bench"))
import battery_page  # noqa: E402
import battery_runs  # noqa: E402


def row(name, *losses, diverged=0, lr="0.1", trials=()):
    """A run for each list of losses, at steps 10, 20, .. and twice as many seconds."""
    runs = [{"curve": [(10 * k, k, 20.0 * k, loss) for k, loss in enumerate(own, 1)], "early": own[0],
             "diverged": int(i < diverged), "test": own[-1] + 1, "skipped": 0, "whole": i >= diverged}
            for i, own in enumerate(losses)]
    return {"optimizer": name, "lr": lr, "runs": runs, "trials": list(trials)}


class Battery(unittest.TestCase):
    def test_smoothing_weighs_points_by_their_steps(self):
        # 100 steps, so the window has 20: the last point is a mean of 5 steps, the one before of 15, the one before of 40.
        points = [(40, 1, 1, 4.0), (80, 2, 2, 3.0), (95, 3, 3, 2.0), (100, 4, 4, 1.0)]
        smooth = battery_runs.smooth(points, 0.2)
        self.assertEqual([p[0] for p in smooth], [40, 80, 95, 100])
        self.assertAlmostEqual(smooth[3][3], (5 * 1 + 15 * 2) / 20)
        self.assertAlmostEqual(smooth[2][3], (15 * 2 + 40 * 3) / 55)
        self.assertAlmostEqual(smooth[0][3], 4)

    def test_early_loss_leaves_out_the_start(self):
        points = [(k, k, k, 1000.0 if k <= 5 else float(k)) for k in range(1, 201)]
        self.assertAlmostEqual(battery_runs.early_loss(points), (6 + 7 + 8 + 9 + 10) / 5)
        self.assertIsNone(battery_runs.early_loss([]))

    def test_rows_are_judged_by_tuned_adam(self):
        rows = battery_runs.judge([
            row("psgd-newton", [3, 1, 0.5, 0.4], [3, 2, 1, 0.4], [3, 2, 1, 0.3]),
            row("psgd-fisher", [3, 2, 2, 2], [3, 0.1, 0.1, 0.1], [3, 2, 2, 2]),
            row("momentum", [9, 2, 2, 2], [3, 2, 1, 0.9], [3, 1, 1, 1], diverged=1),
            row("adam", [3, 2, 1.5, 1], [3, 2, 1.5, 1.1], [3, 2, 1.5, 0.9])])
        newton, fisher, sgd, adam = rows
        self.assertEqual((adam["loss"], adam["epochs_to"], adam["seconds_to"]), (1, 4, 80.0))
        self.assertEqual((newton["loss"], newton["epochs_to"], newton["steps_to"]), (0.4, 3, 30))
        self.assertIsNone(fisher["epochs_to"])  # one of three seeds gets there
        self.assertEqual((sgd["diverged"], sgd["loss"]), (1, 0.95))
        self.assertEqual(newton["early"], 3)
        said = battery_page.verdict({"task": rows})
        self.assertIn("`psgd-newton` with defaults, 1 tasks: at tuned Adam's final loss in fewer epochs on 1", said)
        self.assertIn("`psgd-fisher` with defaults, 1 tasks: at tuned Adam's final loss in fewer epochs on 0", said)
        ratios = battery_page.profile({"task": rows}, "steps_to")
        self.assertEqual(ratios["psgd-newton"], [1])
        self.assertAlmostEqual(ratios["adam"][0], 40 / 30)
        self.assertEqual(ratios["psgd-fisher"], [float("inf")])

    def test_functions_become_one_curve(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            # f goes 8, 4, 2 above its minimum 1, so 7, 3, 1; g stops at its minimum after a step; h diverges.
            for name, losses, diverged in (("f", [8, 4, 2], 0), ("g", [5, 0], 0), ("h", [2, 1e6], 1)):
                (folder / name).mkdir()
                lines = [{"kind": "header"}] + [{"kind": "point", "split": "train", "step": k, "epoch": k, "seconds": k,
                                                 "loss": loss} for k, loss in enumerate(losses)]
                lines.append({"kind": "final", "step": len(losses) - 1, "diverged": diverged})
                (folder / name / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
            curve, diverged = battery_runs.read_functions(folder, {"f": 1, "g": 0, "h": 0}, 2)
        self.assertEqual(diverged, 1)
        self.assertEqual([point[0] for point in curve], [1, 2])
        self.assertAlmostEqual(curve[1][3], ((1 / 7) * 1e-12 * 1) ** (1 / 3), places=9)
        self.assertEqual(curve[1][2], 2 + 1 + 1)

    def test_page_and_picture(self):
        rows = battery_runs.judge([row("psgd-newton", [3, 1, 0.5]), row("adam", [3, 2, 1])])
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "battery.md"
            about = {"one": "a task", "two": "another", "three": "a third"}
            battery_page.write(page, {"one": rows, "two": []}, about, ["two"], {"three": "no data"}, "0.1,0.2", 3,
                               str(BUILD / "psgd"))
            text, picture = page.read_text(), page.with_suffix(".svg").read_text()
        self.assertIn("| psgd-newton | 0.1 | 0.5 |", text)
        self.assertIn("run only at the end: `two`", text)
        self.assertIn("Skipped: no data.", text)
        self.assertTrue(picture.startswith("<svg") and picture.rstrip().endswith("</svg>"))

    def test_what_is_missing_is_skipped_with_a_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([SOURCE / "bench/battery", "--psgd", BUILD / "psgd", "--cache", folder, "--page", "--out",
                                   Path(folder) / "page.md", "--data", "/nowhere"], capture_output=True, text=True, check=True)
            self.assertIn("mlp: skipped, there is no /nowhere/mnist", done.stderr)
            self.assertIn("alexnet: skipped, no --cifar DIR", done.stderr)
            self.assertNotIn("xor: skipped", done.stderr)
            self.assertIn("Skipped: there is no /nowhere/mnist.", (Path(folder) / "page.md").read_text())
        done = subprocess.run([SOURCE / "bench/battery", "--task", "nothing"], capture_output=True, text=True, check=False)
        self.assertIn("there is no task nothing", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
