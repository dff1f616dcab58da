//! The command as a user meets it.

mod misuse;
mod solve;
mod support;
