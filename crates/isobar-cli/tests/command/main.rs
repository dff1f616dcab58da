//! The command as a user meets it.

mod diffusion;
mod misuse;
mod solve;
mod support;
