//! CUDA back end of isobar.
//!
//! [`kernels`] holds the CUDA C++ sources; they are compiled by NVRTC when a device is opened.

pub mod kernels;
