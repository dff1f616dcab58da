//! The CPU back end against the reference, on one thread and on several.

use isobar_cpu::Cpu;

fn cpu(threads: usize) -> Cpu {
    Cpu::new(threads).unwrap()
}

isobar_core::conformance_suite!(one_thread_f64, cpu(1), f64);
isobar_core::conformance_suite!(three_threads_f64, cpu(3), f64);
isobar_core::conformance_suite!(three_threads_f32, cpu(3), f32);

isobar_core::diffusion_conformance_suite!(diffusion_one_thread_f64, cpu(1), f64);
isobar_core::diffusion_conformance_suite!(diffusion_three_threads_f64, cpu(3), f64);
isobar_core::diffusion_conformance_suite!(diffusion_three_threads_f32, cpu(3), f32);
