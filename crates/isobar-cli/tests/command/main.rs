//! Tests of the command through its interface.

mod diffusion;
mod effective;
mod fluxes;
mod heat;
mod interrupt;
mod misuse;
mod outputs;
mod solve;
mod support;
