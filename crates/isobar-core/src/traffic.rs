//! The bytes and operations of each fused step, from which all rooflines are computed.

use serde::Serialize;

/// The declared work of a step, a cell: vectors read, vectors written, floating-point operations.
///
/// Every vector counts once, however often a neighbour's value is used (perfect caching), and a coarse-grid vector
/// counts a quarter. Coefficients that are vectors themselves count too; the horizontal and vertical ones of the
/// tensor-product operator do not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Traffic {
    /// The step.
    pub name: &'static str,
    /// The formula that it computes.
    pub recurrence: &'static str,
    /// Vectors read.
    pub reads: f64,
    /// Vectors written.
    pub writes: f64,
    /// Reads of the operator's coefficient vectors, see
    /// [`Operator::coefficient_vectors`](crate::operator::Operator::coefficient_vectors).
    pub coefficients: f64,
    /// The floating-point operations per cell.
    pub flops: f64,
}

impl Traffic {
    /// Returns vector references, reads and writes together.
    pub fn references(&self) -> f64 {
        self.reads + self.writes
    }

    /// Returns the bytes moved on `cells` cells of `size` bytes each, by an operator with this many coefficient vectors.
    pub fn bytes(&self, cells: usize, size: usize, coefficient_vectors: f64) -> f64 {
        (self.references() + self.coefficients * coefficient_vectors) * (cells * size) as f64
    }
}

/// The traffic of one step on one grid: its declaration, the cells of the grid, bytes an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepTraffic {
    /// The step's declaration.
    pub step: Traffic,
    /// Cells of the grid it runs on.
    pub cells: usize,
    /// Bytes of an element.
    pub size: usize,
    /// Coefficient vectors of its operator.
    pub coefficient_vectors: f64,
    /// The number of times that an iteration runs it.
    pub count: f64,
}

impl StepTraffic {
    /// Makes a step that runs once on vectors of T alone.
    pub fn once<T>(step: Traffic, cells: usize) -> Self {
        Self { step, cells, size: size_of::<T>(), coefficient_vectors: 0.0, count: 1.0 }
    }

    /// Adds the traffic of an operator with this many vectors of coefficients.
    #[must_use]
    pub fn with_coefficients(self, coefficient_vectors: f64) -> Self {
        Self { coefficient_vectors, ..self }
    }

    /// Multiplies how often it runs.
    #[must_use]
    pub fn times(self, count: f64) -> Self {
        Self { count, ..self }
    }

    /// Returns the bytes that the step moves when it runs once.
    pub fn bytes_once(&self) -> f64 {
        self.step.bytes(self.cells, self.size, self.coefficient_vectors)
    }

    /// Returns the bytes that an iteration moves in this step.
    pub fn bytes(&self) -> f64 {
        self.count * self.bytes_once()
    }
}

macro_rules! traffic {
    ($($(#[$doc:meta])* $id:ident: $name:literal, $recurrence:literal, $reads:literal, $writes:literal, $coefficients:literal, $flops:literal;)*) => {
        $($(#[$doc])*
        pub const $id: Traffic =
            Traffic {
                name: $name,
                recurrence: $recurrence,
                reads: $reads,
                writes: $writes,
                coefficients: $coefficients,
                flops: $flops,
            };)*
    };
}

traffic! {
    /// See [`crate::operator::Operator::apply`].
    APPLY: "apply", "y = A x", 1.0, 1.0, 1.0, 15.0;
    /// See [`crate::operator::Operator::residual`].
    RESIDUAL: "residual", "r = f − A u;  ‖r‖²", 2.0, 1.0, 1.0, 18.0;
    /// See [`crate::operator::Operator::residual_norm`].
    RESIDUAL_NORM: "residual_norm", "‖f − A u‖²", 2.0, 0.0, 1.0, 18.0;
    /// See [`crate::operator::Operator::advance_direction`].
    ADVANCE_DIRECTION: "advance_direction", "u += αp;  p = z + βp;  q = A p;  σ = ⟨p, q⟩", 3.0, 3.0, 1.0, 21.0;
    /// See [`crate::operator::Operator::advance_direction_single`].
    ADVANCE_DIRECTION_SINGLE: "advance_direction_single", "u += αp;  p = z + βp;  q = A p;  σ = ⟨p, q⟩; z, q in f32", 2.5, 2.5, 1.0, 21.0;
    /// See [`crate::operator::LineSolver::solve_lines`].
    SOLVE_LINES: "solve_lines", "z = M⁻¹ r", 1.0, 1.0, 1.0, 11.0;
    /// See [`crate::operator::LineSolver::precondition_residual`].
    PRECONDITION_RESIDUAL: "precondition_residual", "r −= αq;  z = M⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖²", 2.0, 2.0, 1.0, 17.0;
    /// The default, unfused update of the residual and its two inner products, without the preconditioner.
    UPDATE_RESIDUAL: "update_residual", "r −= αq;  ‖r‖²;  ρ = ⟨r, z⟩", 4.0, 1.0, 0.0, 6.0;
    /// The update of the residual without a preconditioner, where ρ = ⟨r, r⟩.
    REDUCE_RESIDUAL: "reduce_residual", "r −= αq;  ρ = ‖r‖²", 2.0, 1.0, 0.0, 4.0;
    /// See [`crate::operator::Diagonal::scale_residual`].
    SCALE_RESIDUAL: "scale_residual", "r −= αq;  z = D⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖²", 2.0, 2.0, 1.0, 11.0;
    /// See [`crate::operator::Triangular::relax_lower`].
    RELAX_LOWER: "relax_lower", "v = D⁻¹(r − L w)", 2.0, 1.0, 1.0, 15.0;
    /// See [`crate::operator::Triangular::relax_upper`].
    RELAX_UPPER: "relax_upper", "z = v − D⁻¹ Lᵀ w", 2.0, 1.0, 1.0, 15.0;
    /// See [`crate::operator::Triangular::incomplete_poisson`].
    INCOMPLETE_POISSON: "incomplete_poisson", "z = (I − L D⁻¹)(I − D⁻¹Lᵀ) r", 2.0, 1.0, 1.0, 25.0;
    /// See [`crate::operator::Triangular::substitute`].
    SUBSTITUTE: "substitute", "z = (Δ + Lᵀ)⁻¹ Δ (Δ + L)⁻¹ r", 4.0, 2.0, 2.0, 20.0;
    /// See [`crate::operator::Triangular::substitute_residual`].
    SUBSTITUTE_RESIDUAL: "substitute_residual", "r −= αq;  z = (Δ + Lᵀ)⁻¹ Δ (Δ + L)⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖²", 5.0, 3.0, 2.0, 28.0;
    /// Deflation: Zᵀ q, then the step of [`crate::operator::AggregateOperator::subtract_aggregated`].
    PROJECT: "project", "q −= A Z E⁻¹ Zᵀ q;  σ = ⟨p, q⟩", 3.0, 1.0, 1.0, 18.0;
    /// z = D⁻¹ r
    DIVIDE_BY_DIAGONAL: "divide_by_diagonal", "z = D⁻¹ r", 1.0, 1.0, 1.0, 5.0;
    /// z = r
    COPY: "copy", "z = r", 1.0, 1.0, 0.0, 0.0;
    /// See [`crate::backend::Backend::axpy`].
    AXPY: "axpy", "y += a x", 2.0, 1.0, 0.0, 2.0;
    /// See [`crate::backend::Backend::xpay`].
    XPAY: "xpay", "y = x + a y", 2.0, 1.0, 0.0, 2.0;
    /// See [`crate::backend::Backend::dot`].
    DOT: "dot", "⟨x, y⟩", 2.0, 0.0, 0.0, 2.0;
    /// `DOT` of a vector with itself.
    NORM: "norm", "‖x‖²", 1.0, 0.0, 0.0, 2.0;
    /// See [`crate::operator::PointSmoother::relax_points`], with one sub-iteration and no momentum.
    RELAX_POINTS: "relax_points", "v = u + ω D⁻¹(f − A u);  ‖f − A u‖²", 2.0, 1.0, 1.0, 25.0;
    /// `RELAX_POINTS` with momentum.
    RELAX_POINTS_ON: "relax_points_on", "v = u + ω D⁻¹(f − A u) + m (u − v);  ‖f − A u‖²", 3.0, 1.0, 1.0, 28.0;
    /// `RELAX_POINTS` with several sub-iterations; the operations are those of one update of a cell.
    RELAX_TILES: "relax_tiles", "v = u + ω D⁻¹(f − A u), in tiles, several times;  ‖f − A u‖²", 2.0, 1.0, 1.0, 13.0;
    /// See [`crate::operator::LineSmoother::smooth`].
    SMOOTH: "smooth", "u += ρ M⁻¹(f − A u)", 2.0, 1.0, 1.0, 20.0;
    /// The preceding step from u = 0.
    SMOOTH_FROM_ZERO: "smooth_from_zero", "u = ρ M⁻¹(f − A 0)", 1.0, 1.0, 1.0, 20.0;
    /// See [`crate::operator::Transfer::residual_restrict`].
    RESIDUAL_RESTRICT: "residual_restrict", "f_c = R (f − A u)", 2.0, 0.25, 1.0, 18.0;
    /// See [`crate::operator::Transfer::prolong_smooth`].
    PROLONG_SMOOTH: "prolong_smooth", "u += P u_c;  u += ρ M⁻¹(f − A u);  ‖f − A u‖²", 2.25, 1.0, 1.0, 45.0;
    /// See [`crate::operator::Transfer::smooth_residual_restrict`].
    SMOOTH_RESIDUAL_RESTRICT: "smooth_residual_restrict", "u += ρ M⁻¹(f − A u);  f_c = R (f − A u)", 2.0, 1.25, 1.0, 38.0;
    /// The preceding step from u = 0.
    SMOOTH_RESIDUAL_RESTRICT_FROM_ZERO: "smooth_residual_restrict_from_zero", "u = ρ M⁻¹ f;  f_c = R (f − A u)", 1.0, 1.25, 1.0, 38.0;
    /// See [`crate::operator::ModalTransfer::expand_smooth_project`], with one sweep; without the modes' own traffic.
    EXPAND_SMOOTH_PROJECT: "expand_smooth_project", "u += Σ s_m x_m;  u += ρ M⁻¹(f − A u);  g_m = s_mᵀ (f − A u);  ‖f − A u‖²", 2.0, 1.0, 1.0, 90.0;
    /// See [`crate::operator::ModalTransfer::project_residual`]; without the modes' own traffic.
    PROJECT_RESIDUAL: "project_residual", "g_m = s_mᵀ (f − A u);  ‖f − A u‖²", 2.0, 0.0, 1.0, 50.0;
    /// See [`crate::operator::ModalTransfer::expand`]; without the modes' own traffic.
    EXPAND: "expand", "u += Σ s_m x_m", 1.0, 1.0, 0.0, 30.0;
    /// See [`crate::backend::DirectSolver::solve`]: two transforms, tridiagonal systems, two transforms back.
    DIRECT_SOLVE: "direct_solve", "u = S (T + μ D_a + ν D_b)⁻¹ Sᵀ b", 6.0, 6.0, 0.0, 100.0;
    /// The traffic of modes in projection and expansion.
    MODES: "modes", "g_m, x_m", 1.0, 1.0, 0.0, 0.0;
    /// See [`crate::operator::MixedSmoother::correct_smooth_residual`] (e and r in single precision: half a reference).
    CORRECT_SMOOTH_RESIDUAL: "correct_smooth_residual", "u += e;  u += ρ M⁻¹(f − A u);  r = f − A u;  ‖r‖²", 2.5, 1.5, 1.0, 40.0;
    /// See [`crate::operator::MixedTop::ascend`] (e, u_c and r in single precision: half a reference, an eighth, a half).
    ASCEND: "ascend", "u += e + P u_c;  u += ρ M⁻¹(f − A u);  r = f − A u;  ‖r‖²", 2.625, 1.5, 1.0, 50.0;
}
