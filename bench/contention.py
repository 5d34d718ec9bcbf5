#!/usr/bin/python3
"""How much slower steps are on a busy machine: alone, next to one and next to four processes that keep a core busy.

    cmake --build build --target psgd_command bench_language bench_alexnet && bench/contention.py build [rounds [name ...]]

The time of a step is the difference between a long and a short run, divided by the steps between them, so that starting up
does not count; the table has the median of the rounds and, for the busy machine, its ratio to the time alone. The competing
processes have the same priority as the run. On two cores a ratio of 1.5 next to one of them and of 3 next to four is what
fair shares of the cores would give; the library aims at 1.9 and 5 at most. Run it on an otherwise idle machine. Names
are those of the first column.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

SPINNERS = (0, 1, 4)
RUNS = {  # command as a function of the steps, short, long
    "lenet5": (lambda n: ["psgd", "train", "lenet5", "--data", "digits", "--steps", str(n)], 20, 320),
    "language": (lambda n: ["bench_language", str(n)], 1, 2),
    "alexnet-16": (lambda n: ["bench_alexnet", "16", str(n), "gradient"], 1, 7),
    "alexnet-128": (lambda n: ["bench_alexnet", "128", str(n), "gradient"], 1, 3),
}


def seconds(build, words, folder):
    begin = time.monotonic()
    subprocess.run([os.path.join(build, words[0]), *words[1:]], check=True, cwd=folder, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def step_time(build, name, spinners, rounds):
    command, short, long = RUNS[name]
    rivals = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(spinners)]
    try:
        times = []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                extra = seconds(build, command(long), folder)
            with tempfile.TemporaryDirectory() as folder:
                extra -= seconds(build, command(short), folder)
            times.append(extra / (long - short))
        return statistics.median(times)
    finally:
        for rival in rivals:
            rival.kill()
            rival.wait()


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    print(f"{'':12}  {'alone, ms':>10}" + "".join(f"  {f'next to {n}':>10}" for n in SPINNERS[1:]))
    for name in sys.argv[3:] or RUNS:
        alone, *busy = [step_time(build, name, n, rounds) for n in SPINNERS]
        print(f"{name:12}  {1000 * alone:10.2f}" + "".join(f"  {f'{t / alone:.2f} x':>10}" for t in busy), flush=True)


if __name__ == "__main__":
    main()
