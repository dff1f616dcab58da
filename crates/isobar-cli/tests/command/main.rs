//! The command as a user meets it.

mod diffusion;
mod effective;
mod fluxes;
mod heat;
mod interrupt;
mod misuse;
mod outputs;
mod solve;
mod support;
