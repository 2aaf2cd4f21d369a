//! What is done row by row, shared among the workers when there are many rows.

use zlrs_kernels::{KernelError, add, for_rows, rms_norm, rms_norm_in_place};

use super::Machine;

/// The norm of each row.
pub(super) fn norm_rows(
    machine: &Machine,
    rows: &[f32],
    weight: &[f32],
    epsilon: f32,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let width = weight.len();
    for_rows(&machine.pool, width, out, &|first, out| {
        for (row, out) in rows[first * width..].chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            rms_norm(machine.isa, row, weight, epsilon, out);
        }
    })
}

/// `hidden += branch`, or its norm where there is one. What is left in `branch` means nothing.
pub(super) fn add_branch(
    machine: &Machine,
    branch: &mut [f32],
    norm: Option<&[f32]>,
    epsilon: f32,
    hidden: &mut [f32],
    width: usize,
) -> Result<(), KernelError> {
    if let Some(norm) = norm {
        for_rows(&machine.pool, width, branch, &|_, branch| {
            for row in branch.chunks_exact_mut(width) {
                rms_norm_in_place(machine.isa, row, norm, epsilon);
            }
        })?;
    }
    let branch = &*branch;
    for_rows(&machine.pool, width, hidden, &|first, hidden| {
        add(machine.isa, &branch[first * width..][..hidden.len()], hidden);
    })
}
