//! The floating-point environment of a call.

/// The caller's floating-point environment, which is restored at the end.
///
/// A model may have exceptions trapped (`gfortran -ffpe-trap`, `feenableexcept`), subnormal numbers flushed to zero (`-ffast-math`) or another
/// rounding mode. Rust code is compiled for none of these. Threads that a call starts have its environment.
pub(crate) struct Environment {
    #[cfg(target_arch = "x86_64")]
    control: u32,
}

impl Environment {
    /// Sets the default environment: nothing is trapped, rounding is to nearest, subnormal numbers are kept.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn default() -> Self {
        /// All exceptions are masked, and no other bit is set (Intel 64 and IA-32 Architectures Software Developer's Manual 1, 10.2.3).
        const DEFAULT: u32 = 0x1f80;
        let mut control = 0_u32;
        // SAFETY: writes the register to `control`, and sets the state that Rust code expects.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut control, options(nostack));
            std::arch::asm!("ldmxcsr [{}]", in(reg) &DEFAULT, options(nostack));
        }
        Self { control }
    }

    /// Other processors do not trap floating-point exceptions.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn default() -> Self {
        Self {}
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for Environment {
    fn drop(&mut self) {
        // SAFETY: the state in which the caller called; only its code follows.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const self.control, options(nostack)) };
    }
}
