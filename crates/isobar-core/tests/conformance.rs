//! The reference back end passes the suite that it specifies.

use isobar_core::reference::Reference;

isobar_core::conformance_suite!(reference_f64, Reference, f64);
isobar_core::conformance_suite!(reference_f32, Reference, f32);
isobar_core::diffusion_conformance_suite!(diffusion_f64, Reference, f64);
isobar_core::diffusion_conformance_suite!(diffusion_f32, Reference, f32);
