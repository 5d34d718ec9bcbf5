"""What bench/battery reads of runs: curves, and the numbers of its tables."""
import json
import math
import statistics

FLOOR = 1e-12  # of a relative gap to a minimum
EARLY = 0.05   # of the steps: where a run must have begun to learn


def read_log(path):
    """Training points (step, epoch, seconds, loss) and the final record."""
    points, final = [], {}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == "final":
            final = record
        elif record["kind"] == "point" and record["split"] == "train":
            loss = record["loss"]
            points.append((record["step"], record["epoch"], record["seconds"], math.inf if loss is None else loss))
    return points, final


def read_functions(folder, minima, steps):
    """Many functions as one curve: the geometric mean of (f - min) / (f0 - min), at least FLOOR each. A function that
    diverged counts as 1 from there. Returns the curve and how many diverged."""
    sums, seconds, diverged = [0.0] * (steps + 1), [0.0] * (steps + 1), 0
    for name, minimum in minima.items():
        points, final = read_log(folder / name / "metrics.jsonl")
        at = dict((p[0], p) for p in points)
        first, last, clock = points[0][3], 1.0, 0.0
        gone = bool(final.get("diverged"))
        diverged += gone
        for step in range(steps + 1):
            if step in at:
                loss, clock = at[step][3], at[step][2]
                last = max((loss - minimum) / (first - minimum), FLOOR) if math.isfinite(loss) else 1.0
            if gone and step > points[-1][0]:
                last = 1.0
            sums[step] += math.log(max(last, FLOOR))
            seconds[step] += clock
    return [(k, k, seconds[k], math.exp(sums[k] / len(minima))) for k in range(1, steps + 1)], diverged


def smooth(points, share=0.05):
    """The trailing mean over this share of the steps, each point weighted with the steps that it is a mean of."""
    total, out = points[-1][0], []
    for i, (step, epoch, seconds, _) in enumerate(points):
        k, weight, value = i, 0.0, 0.0
        while k >= 0 and weight < share * total:
            own = points[k][0] - (points[k - 1][0] if k else 0)
            value, weight, k = value + own * points[k][3], weight + own, k - 1
        out.append((step, epoch, seconds, value / weight))
    return out


def early_loss(points):
    """The mean loss over the second half of the first EARLY of the steps: without the losses before a run has moved."""
    return at(smooth(points, EARLY / 2), EARLY * points[-1][0]) if points else None


def read_row(folder, optimizer, minima, steps):
    """All runs of an optimizer on a task."""
    found = json.loads((folder / "compare.json").read_text())["optimizers"][0]
    row = {"optimizer": optimizer, "lr": found["lr"], "runs": [], "trials": found["trials"]}
    for run in found["runs"]:
        where = folder / "runs" / run["folder"]
        if minima:
            points, diverged = read_functions(where, minima, steps)
            curve, test, share = points, None, 1
            early = at(points, EARLY * steps)
        else:
            points, final = read_log(where / "metrics.jsonl")
            diverged = run["diverged"]
            share = final.get("cpu_seconds", final["seconds"]) / final["seconds"] if final.get("seconds") else 1
            curve, early = smooth(points) if points else [], early_loss(points)
            test = next((final[key] for key in ("test_error", "test_perplexity", "test_loss") if key in final), None)
            row["test_name"] = next((key for key in ("test_error", "test_perplexity", "test_loss") if key in final),
                                    row.get("test_name"))
        curve = [(step, epoch, seconds * share, loss) for step, epoch, seconds, loss in curve]
        row["runs"].append({"curve": curve, "early": early, "diverged": int(diverged), "test": test,
                            "skipped": run.get("skipped", 0), "whole": bool(curve) and (bool(minima) or not diverged)})
    return row


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def judge(rows):
    """Adds to each row its numbers, relative to the final loss of tuned Adam."""
    for row in rows:
        good = [run for run in row["runs"] if run["whole"]]
        row["diverged"] = sum(run["diverged"] > 0 for run in row["runs"])
        row["loss"] = median([run["curve"][-1][3] for run in good])
        row["test"] = median([run["test"] for run in good])
        row["seconds"] = median([run["curve"][-1][2] for run in good])
        row["early"] = median([run["early"] for run in good])
    target = next((row["loss"] for row in rows if row["optimizer"] == "adam"), None)
    for row in rows:
        reached = [reach(run["curve"], target) for run in row["runs"]] if target is not None else []
        for place, key in enumerate(("steps_to", "epochs_to", "seconds_to")):
            costs = [point[place] if point else math.inf for point in reached]
            middle = statistics.median(costs) if costs else math.inf
            row[key] = middle if math.isfinite(middle) else None
    return rows


def at(curve, step):
    """The loss at the last point up to a step, or at the first one."""
    before = [point for point in curve if point[0] <= step]
    return (before[-1] if before else curve[0])[3]


def reach(curve, target):
    """The first point whose loss is the target or less."""
    return next((point for point in curve if point[3] <= target), None)
