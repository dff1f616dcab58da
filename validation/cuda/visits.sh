#!/usr/bin/env bash
# How often a card should visit each coarse grid of diffusion's multigrid: iterations, and the least setup and solve of several runs
# in ms, for visits from [1] (a V-cycle, what a card does now) to [2, 2] (what a processor does); then what each step takes.
#
#   cargo build --release -p isobar-cli && mkdir -p .carry && cp target/release/isobar .carry/
#   bash validation/cuda/visits.sh [DEVICE [RUNS]]        # ISOBAR=.carry/isobar, cuda, 4
set -uo pipefail
isobar=${ISOBAR:-.carry/isobar} device=${1:-cuda} runs=${2:-4}
ms='function ms(t, u) { return u == "s" ? 1e3 * t : u == "µs" ? t / 1e3 : t }'
printf '%-11s %-8s %-7s %10s %9s %9s\n' case visits sweeps iterations setup solve
for case in norne aquifer bubbles_3d; do
    for cycle in '[1] 1' '[1,2] 1' '[2] 1' '[2,2] 1' '[1,3] 1' '[1] 2' '[1,2] 2'; do
        read -r visits sweeps <<< "$cycle"
        for _ in $(seq "$runs"); do
            "$isobar" solve "cases/$case.toml" --device "$device" --set "solver.multigrid.visits=$visits" \
                --set "solver.multigrid.pre=$sweeps" --set "solver.multigrid.post=$sweeps" 2>&1
        done | awk -v row="$(printf '%-11s %-8s V(%s,%s) ' "$case" "$visits" "$sweeps" "$sweeps")" "$ms"'
            /^outcome/ { its = $4 }
            /^time/ { v = ms($2, $3); s = ms($5, $6); solve = !n || v < solve ? v : solve; setup = !n++ || s < setup ? s : setup }
            /^error/ { print }
            END { printf "%s %10s %9.2f %9.2f\n", row, its, setup, solve }'
    done
done
"$isobar" bench cases/norne.toml --device "$device" 2>&1 | grep -E '^device|^time|^  [a-z_]+ +[0-9]|^an iteration'
