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

/// `hidden += constant` in every row: what stands in for a part that a mask left out.
pub(super) fn add_constant(
    machine: &Machine,
    constant: Option<&[f32]>,
    hidden: &mut [f32],
) -> Result<(), KernelError> {
    let Some(constant) = constant else { return Ok(()) };
    for_rows(&machine.pool, constant.len(), hidden, &|_, hidden| {
        for row in hidden.chunks_exact_mut(constant.len()) {
            add(machine.isa, constant, row);
        }
    })
}

/// Sets the results of some heads of every row to zero.
pub(super) fn silence(attended: &mut [f32], query_width: usize, head_dim: usize, heads: &[usize]) {
    for row in attended.chunks_exact_mut(query_width) {
        for head in heads {
            row[head * head_dim..][..head_dim].fill(0.0);
        }
    }
}

/// `hidden += branch`, or its norm where there is one, which `observe` is shown before. What is left in `branch`
/// means nothing.
pub(super) fn add_branch(
    machine: &Machine,
    branch: &mut [f32],
    norm: Option<&[f32]>,
    epsilon: f32,
    hidden: &mut [f32],
    width: usize,
    observe: impl FnOnce(&[f32], &[f32]),
) -> Result<(), KernelError> {
    if let Some(norm) = norm {
        for_rows(&machine.pool, width, branch, &|_, branch| {
            for row in branch.chunks_exact_mut(width) {
                rms_norm_in_place(machine.isa, row, norm, epsilon);
            }
        })?;
    }
    let branch = &*branch;
    observe(hidden, branch);
    for_rows(&machine.pool, width, hidden, &|first, hidden| {
        add(machine.isa, &branch[first * width..][..hidden.len()], hidden);
    })
}
