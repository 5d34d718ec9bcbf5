"""Half precision for bench/pytorch: parameters in bf16, and Newton's products in bf16 by exact derivatives and by differences."""
import statistics

import psgd.torch
import torch
import torch_methods
import torch_picture
from torch_tasks import DATA, Transformer

STEPS = 500


class HalfParameters(Transformer):
    def build(self):
        return super().build().bfloat16()


class Autocast(Transformer):
    def loss(self):
        with torch.autocast("cpu", torch.bfloat16):
            return super().loss()


def newton(hv):
    return lambda task, rate: torch_methods.Closure(task, psgd.torch.PSGD(task.net, criterion="newton", hv=hv))


ROWS = {
    "Fisher, f32": ("#e39a2d", Transformer, torch_methods.fisher),
    "Fisher, bf16 parameters": ("#b08968", HalfParameters, torch_methods.fisher),
    "Newton, f32, exact": ("#e0483e", Transformer, newton("exact")),
    "Newton, f32, differences": ("#9b6bd3", Transformer, newton("difference")),
    "Newton, bf16 autocast, exact": ("#3b82d0", Autocast, newton("exact")),
    "Newton, bf16 autocast, differences": ("#2fa36b", Autocast, newton("difference")),
}


def measure(kept, run, options):
    """Row -> its runs, one a seed."""
    steps = max(20, round(STEPS * options.steps))
    if not (DATA / Transformer.folder).exists():
        return {}
    found = {}
    for title, (_, kind, make) in ROWS.items():
        for seed in range(options.seeds):
            print(f"half precision: {title}, seed {seed}", flush=True)
            key = f"half/{title}/{seed}/{steps}"
            found.setdefault(title, []).append(kept.get(key, lambda: run(kind, make, None, seed, steps)))
    return found


def table(found):
    def cell(values):
        return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"

    lines = ["| | final loss | test loss |", "|---|---|---|"]
    for title, runs in found.items():
        lines.append(f"| {title} | {cell([r['loss'] for r in runs])} | {cell([r['score'] for r in runs])} |")
    return lines


def draw(path, found):
    parts = torch_picture.legend({title: ROWS[title][0] for title in found}, per_line=3)
    curves = [(ROWS[title][0], torch_picture.mean_curve(runs, 0)) for title, runs in found.items()]
    parts += torch_picture.panel(70, 90, 620, 260, "transformer on Tiny Shakespeare: training loss", "steps", curves)
    torch_picture.save(path, 720, 400, parts)
