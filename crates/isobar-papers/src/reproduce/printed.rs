//! The printed numbers of the papers. Those that are missing in the text are left out.

/// Paper A, section 7: the problem of all its tables.
pub(super) const A_CELLS: f64 = 256.0 * 256.0 * 128.0;

/// Paper A, table 2: operations, and memory references with whole columns cached, a cell.
pub(super) const A_WORK: [(&str, f64, f64); 4] = [
    ("SpMV", 20.0, 6.0),
    ("preconditioner", 13.0, 5.0),
    ("interleaved SpMV", 28.0, 11.0),
    ("interleaved preconditioner", 19.0, 9.0),
];

/// A name with a pair of printed numbers in single and one in double precision.
pub(super) type Printed = (&'static str, [(f64, f64); 2]);

/// Paper A, tables 3 and 4: a kernel's milliseconds a call on one CPU core and on a Fermi GPU.
pub(super) const A_KERNELS: [Printed; 6] = [
    ("CSR SpMV", [(170.6, 6.91), (182.2, 10.91)]),
    ("CSR preconditioner", [(205.3, 12.50), (249.7, 23.20)]),
    ("SpMV", [(78.5, 0.75), (80.7, 1.41)]),
    ("preconditioner", [(252.6, 2.40), (350.4, 3.75)]),
    ("interleaved SpMV", [(129.9, 2.16), (132.3, 3.86)]),
    ("interleaved preconditioner", [(253.1, 3.34), (351.3, 4.86)]),
];

/// Paper A, table 5: an implementation's seconds of 100 iterations (C, CUDA).
pub(super) const A_TOTALS: [Printed; 3] = [
    ("matrix-explicit", [(43.72, 2.54), (50.50, 4.41)]),
    ("matrix-free", [(37.00, 0.87), (49.37, 1.48)]),
    ("matrix-free interleaved", [(37.39, 0.62), (45.78, 0.96)]),
];

/// Paper A, table 6: its milliseconds an iteration (C, CUDA).
pub(super) const A_ITERATIONS: [Printed; 3] = [
    ("matrix-explicit", [(410.8, 23.5), (494.6, 41.4)]),
    ("matrix-free", [(376.3, 8.1), (491.5, 13.9)]),
    ("matrix-free interleaved", [(370.6, 5.6), (453.4, 8.8)]),
];

/// Paper A, table 7: (GFLOP/s, GB/s) of a matrix-free kernel, of a peak of 177 GB/s.
pub(super) const A_RATES: [Printed; 4] = [
    ("SpMV", [(223.7, 50.73), (119.0, 79.07)]),
    ("preconditioner", [(45.4, 38.41), (29.1, 49.35)]),
    ("interleaved SpMV", [(108.7, 64.67), (60.9, 78.97)]),
    ("interleaved preconditioner", [(47.7, 46.16), (32.8, 64.58)]),
];

/// Paper B, table 1: operations and memory references with perfect caching, a fine-grid cell and iteration.
pub(super) const B_WORK: [(&str, f64, f64); 2] = [("CG", 54.0, 15.0), ("multigrid", 149.4, 29.6)];

/// Paper B, table 3: nx; milliseconds an iteration, GFLOP/s, percentage of the peak bandwidth of 250 GB/s, iterations, milliseconds of
/// copies and transposition, and in all.
pub(super) type BSolve = (usize, [f64; 6]);

pub(super) const B_CG: [BSolve; 4] = [
    (128, [2.8, 41.0, 36.4, 70.0, 19.4, 217.1]),
    (256, [7.5, 60.1, 53.4, 62.0, 63.5, 543.7]),
    (512, [29.7, 60.9, 54.2, 59.0, 228.4, 2029.0]),
    (768, [65.0, 62.7, 55.7, 58.0, 494.0, 4365.0]),
];

pub(super) const B_MULTIGRID: [BSolve; 3] = [
    (128, [12.8, 24.6, 15.6, 9.0, 19.6, 135.5]),
    (256, [27.3, 45.9, 29.1, 8.0, 64.3, 285.7]),
    (512, [88.8, 56.4, 35.8, 8.0, 229.5, 949.9]),
];

/// Paper B, tables 4 and 5: nx = ny of both.
pub(super) const B_BREAKDOWN: usize = 512;

/// Cells of these problems.
pub(super) const B_CELLS: f64 = 512.0 * 512.0 * 128.0;

/// Paper B, table 4: milliseconds of CG's two kernels, both, and an iteration, on one GPU.
pub(super) const B_CG_KERNELS: [(&str, f64); 4] =
    [("advance_direction", 14.1), ("precondition_residual", 15.6), ("both", 29.7), ("iteration", 29.8)];

/// Paper B, table 5: milliseconds of multigrid's kernels on levels 5 (finest) to 1, one GPU.
pub(super) const B_LEVEL_KERNELS: [(&str, [Option<f64>; 5]); 5] = [
    ("Smooth", [Some(45.0), Some(5.9), Some(1.9), Some(0.8), Some(0.7)]),
    ("ResSmooth", [None, Some(4.7), Some(1.7), Some(0.7), Some(0.7)]),
    ("Residual", [Some(15.4), Some(2.0), Some(0.8), Some(0.3), None]),
    ("Prolongate", [Some(4.3), Some(1.1), Some(0.4), Some(0.2), None]),
    ("all", [Some(64.7), Some(13.7), Some(4.8), Some(2.0), Some(1.4)]),
];

/// Paper B, table 5: milliseconds of a multigrid iteration on one GPU.
pub(super) const B_LEVEL_ITERATION: f64 = 88.8;

/// Paper B, section 5.2: coarse sweeps that keep 5 and 7 levels robust, by Courant number; with 10 levels 2 always suffice.
pub(super) const B_SWEEPS: [(f64, usize, usize); 6] =
    [(2.1, 2, 2), (4.2, 2, 2), (8.4, 2, 2), (16.8, 2, 2), (84.0, 30, 5), (840.0, 150, 15)];

/// Counts for paper D's figure 11, whose own numbers are not in the text, from FORMULAS: an independent implementation's
/// iterations (without, with deflation) for n = 16, 32, 64, the preconditioners in the order of [`D_NAMES`]. They vary by
/// ±12 % with the random first guess.
pub(super) const D_COUNTS: [(usize, [(u32, u32); 8]); 3] = [
    (16, [(236, 148), (54, 29), (29, 17), (24, 14), (18, 11), (29, 16), (29, 16), (23, 13)]),
    (32, [(761, 404), (113, 60), (59, 31), (48, 26), (42, 23), (64, 32), (59, 31), (49, 23)]),
    (64, [(1516, 542), (197, 103), (100, 53), (84, 44), (75, 39), (104, 55), (105, 55), (85, 44)]),
];

/// Paper C, tables 1 to 4: numbers of sub-iterations, speed-ups over plain sweeps without overlap, the best overlap, and the
/// speed-ups with that; of a TITAN V.
pub(super) const C_SUB_ITERATIONS: [usize; 6] = [4, 8, 16, 32, 64, 128];

/// One or two dimensions of paper C.
pub(super) struct CSpeedups {
    pub(super) plain: [f64; 6],
    pub(super) overlap: [usize; 6],
    pub(super) overlapping: [f64; 6],
}

pub(super) const C_LINE: CSpeedups = CSpeedups {
    plain: [2.45, 3.82, 3.79, 2.47, 1.46, 0.81],
    overlap: [2, 4, 4, 8, 10, 12],
    overlapping: [3.09, 5.74, 8.00, 7.50, 5.84, 3.75],
};

pub(super) const C_SQUARE: CSpeedups = CSpeedups {
    plain: [2.17, 3.67, 3.98, 2.96, 1.86, 1.09],
    overlap: [0, 2, 2, 4, 6, 8],
    overlapping: [2.18, 4.22, 5.58, 5.84, 4.88, 3.50],
};

/// Cycles of an independent implementation with tiles of 32 points a direction: points a direction, sub-iterations (1: plain
/// sweeps), overlap, cycles.
pub(super) const C_LINE_CYCLES: [(usize, usize, usize, usize); 15] = [
    (256, 1, 0, 35_037),
    (512, 1, 0, 84_322),
    (1024, 1, 0, 128_760),
    (1024, 4, 0, 40_241),
    (1024, 4, 2, 29_442),
    (1024, 8, 0, 25_481),
    (1024, 8, 2, 15_714),
    (1024, 8, 4, 14_858),
    (1024, 16, 0, 19_555),
    (1024, 16, 2, 9_547),
    (1024, 16, 4, 8_094),
    (1024, 32, 0, 16_632),
    (1024, 32, 2, 7_136),
    (1024, 32, 4, 5_225),
    (1024, 32, 8, 4_124),
];

/// Cycles for squares, likewise.
pub(super) const C_SQUARE_CYCLES: [(usize, usize, usize, usize); 11] = [
    (128, 1, 0, 13_299),
    (256, 1, 0, 38_978),
    (512, 1, 0, 100_067),
    (256, 8, 0, 5_777),
    (256, 8, 2, 5_013),
    (256, 16, 0, 3_605),
    (256, 16, 2, 2_655),
    (256, 16, 4, 2_519),
    (256, 32, 0, 2_578),
    (256, 32, 2, 1_529),
    (256, 32, 4, 1_355),
];

/// The preconditioners of [`D_COUNTS`].
pub(super) const D_NAMES: [&str; 8] =
    ["none", "diagonal", "block-IC(2n)", "block-IC(4n)", "block-IC(8n)", "IP, scaled", "Neu1", "Neu2"];

/// Paper D, table 1, n = 64, contrast 10³: (preconditioner, printed condition number, that of the independent implementation
/// for the geometry, which the figures do not fully specify).
pub(super) const D_CONDITION: [(&str, f64, Option<f64>); 8] = [
    ("diagonal", 9.68e3, Some(3377.0)),
    ("block-IC(2n)", 2.50e3, Some(864.0)),
    ("block-IC(4n)", 1.93e3, Some(575.0)),
    ("block-IC(8n)", 1.60e3, Some(462.0)),
    ("IP", 2.97e6, None),
    ("IP, scaled", 2.68e3, Some(930.0)),
    ("Neu1", 2.66e3, Some(964.0)),
    ("Neu2", 1.74e3, Some(620.0)),
];

/// Extreme eigenvalues of the scaled matrix, by that implementation.
pub(super) const D_EIGENVALUES: [f64; 2] = [5.921e-4, 1.999];

/// Paper D, section 7.2: how much faster the explicit inverse of E is than triangular solves, with incomplete Poisson
/// and with Neumann series.
pub(super) const D_INVERSE_GAIN: f64 = 4.0;

/// Paper D, abstract: a Fermi GPU over one CPU core, for a million unknowns.
pub(super) const D_SPEEDUP: (usize, f64) = (1024, 16.0);

/// Paper E, table 1: a grid, milliseconds of forward and backward substitution on a GPU, and the CPU's over that.
pub(super) const E_SUBSTITUTION: [([usize; 3], f64, f64); 7] = [
    ([800, 800, 30], 125.0, 8.16),
    ([480, 480, 80], 101.0, 10.47),
    ([480, 480, 320], 278.0, 17.20),
    ([128, 128, 480], 39.0, 11.74),
    ([512, 512, 256], 256.0, 15.38),
    ([128, 128, 1440], 67.0, 21.83),
    ([1440, 1440, 80], 893.0, 10.70),
];

/// Paper E, table 2, z = 0.3, in 1e-5: a model, and the errors with MIC and with SSOR-AI.
pub(super) const E_ERRORS: [(&str, f64, Option<f64>); 5] = [
    ("M21", 1.2342, None),
    ("M22", 1.1331, Some(5.3939)),
    ("M23", 0.8941, Some(2.4232)),
    ("M24", 1.1343, Some(5.1458)),
    ("M25", 1.1121, None),
];

/// Paper E, table 3: a model, and the seconds on the GPU and on the CPU, with MIC and with SSOR-AI.
pub(super) const E_TIMES: [(&str, [[f64; 2]; 2]); 5] = [
    ("M21", [[0.40, 3.71], [0.42, 3.92]]),
    ("M22", [[2.43, 23.91], [2.60, 25.40]]),
    ("M23", [[5.21, 63.58], [7.02, 65.19]]),
    ("M24", [[0.93, 9.62], [1.03, 10.13]]),
    ("M25", [[3.51, 39.36], [4.24, 41.80]]),
];
