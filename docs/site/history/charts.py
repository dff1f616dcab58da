"""Charts of the performance page, from the files beside this one: one file a run, with its date, machine and command."""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

here = Path(__file__).parent


def run(name):
    return json.loads((here / f"{name}.json").read_text())


diffusion, panel = run("2026-11-29-epyc-diffusion"), run("2026-11-22-h200-panel")
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))

rows = [row for row in diffusion["rows"] if row["cores"] == 1]
both = {(row["problem"], row["cells"]): row["speed_up"] for row in diffusion["rows"] if row["cores"] == 2}
place = np.arange(len(rows))[::-1]
left.barh(place + 0.2, [row["speed_up"] for row in rows], 0.38, color="#235ca0", label="one core")
left.barh(place - 0.2, [both[row["problem"], row["cells"]] for row in rows], 0.38, color="#8fb4e0", label="two cores")
left.axvline(1, color="0.4", linewidth=0.8, linestyle="--")
left.set_yticks(place, [f"{row['problem']}, {row['cells']}" for row in rows])
left.set(title=f"diffusion: hypre's time / isobar's, {diffusion['date']}", xlabel="speed-up")
left.legend()

for name, milliseconds in panel["milliseconds"].items():
    right.loglog(panel["unknowns"], milliseconds, "o-", markersize=4, label=name)
right.set_xticks(panel["unknowns"], panel["grids"], fontsize=8)
right.minorticks_off()
right.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
right.set(title=f"the pressure equation on one H200, {panel['date']}", ylabel="ms", ylim=(0.1, 150), xlim=(1.5e6, 5e7))
right.legend(loc="upper left", fontsize=8)
figure.savefig("charts.png")
for each in (diffusion, panel):
    print(f"{each['date']}: {each['machine']}; {each['source']}")
