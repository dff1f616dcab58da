//! Deflation on several ranks: aggregates across slabs, and those of the neighbours' rows.

use crate::deflated::{check_all, check_updates};
use crate::{cpu, cpus};

#[test]
fn deflated_solves_are_those_of_one_rank() {
    check_all(&cpu, &cpus(2));
}

#[test]
fn updates() {
    check_updates(&cpu, &[3]);
}
