//! The longest common subsequence of two lists of tokens, and what is left between.

use crate::tokens::Token;

/// Most cells of the table of an alignment: 4 million are about 10 ms.
const CELLS: usize = 4_000_000;

/// A place where the lists differ: ranges of left-over tokens.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub left: Vec<usize>,
    pub right: Vec<usize>,
}

/// What two lists share.
#[derive(Debug)]
pub(crate) struct Alignment {
    /// Indices of equal tokens, in order.
    pub pairs: Vec<(usize, usize)>,
    pub gaps: Vec<Gap>,
}

/// The alignment; `None` where the parts that differ are too long.
pub(crate) fn align(left: &[Token], right: &[Token]) -> Option<Alignment> {
    let same = |i: usize, j: usize| left[i].text == right[j].text;
    let shorter = left.len().min(right.len());
    let start = (0..shorter).take_while(|at| same(*at, *at)).count();
    let end = (0..shorter - start).take_while(|at| same(left.len() - 1 - at, right.len() - 1 - at)).count();
    let (rows, columns) = (left.len() - start - end, right.len() - start - end);
    if (rows + 1).checked_mul(columns + 1)? > CELLS {
        return None;
    }
    let width = columns + 1;
    let mut table = vec![0_u16; (rows + 1) * width];
    for i in (0..rows).rev() {
        for j in (0..columns).rev() {
            table[i * width + j] = if same(start + i, start + j) {
                table[(i + 1) * width + j + 1] + 1
            } else {
                table[(i + 1) * width + j].max(table[i * width + j + 1])
            };
        }
    }
    let mut pairs: Vec<(usize, usize)> = (0..start).map(|at| (at, at)).collect();
    let mut gaps = Vec::new();
    let mut gap = Gap { left: Vec::new(), right: Vec::new() };
    let (mut i, mut j) = (0, 0);
    while i < rows || j < columns {
        if i < rows && j < columns && same(start + i, start + j) {
            if !gap.left.is_empty() || !gap.right.is_empty() {
                gaps.push(std::mem::replace(&mut gap, Gap { left: Vec::new(), right: Vec::new() }));
            }
            pairs.push((start + i, start + j));
            (i, j) = (i + 1, j + 1);
        } else if j == columns || i < rows && table[(i + 1) * width + j] >= table[i * width + j + 1] {
            gap.left.push(start + i);
            i += 1;
        } else {
            gap.right.push(start + j);
            j += 1;
        }
    }
    if !gap.left.is_empty() || !gap.right.is_empty() {
        gaps.push(gap);
    }
    pairs.extend((0..end).rev().map(|at| (left.len() - 1 - at, right.len() - 1 - at)));
    Some(Alignment { pairs, gaps })
}
