//! Which rows or columns of a matrix are wanted.

use std::ops::Range;

/// Equal pieces of `of` rows (or columns), of which some are wanted.
pub(crate) struct Pieces {
    /// How many there are in the file.
    pub of: usize,
    /// Length of a piece.
    piece: usize,
    /// The wanted pieces in ascending order.
    wanted: Vec<usize>,
}

impl Pieces {
    /// Everything.
    pub fn all(of: usize) -> Self {
        Self { of, piece: of, wanted: vec![0] }
    }

    /// The wanted ones of pieces of length `piece`; `None`: all.
    pub fn of(of: usize, piece: usize, wanted: Option<&[usize]>) -> Self {
        match wanted {
            Some(wanted) if wanted.len() * piece < of => Self { of, piece, wanted: wanted.to_vec() },
            _ => Self::all(of),
        }
    }

    pub fn len(&self) -> usize {
        self.piece * self.wanted.len()
    }

    pub fn is_all(&self) -> bool {
        self.len() == self.of
    }

    /// Where those numbered `range` among the wanted lie in the file.
    pub fn inside(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        self.wanted.iter().enumerate().filter_map(move |(index, &piece)| {
            let start = range.start.max(index * self.piece);
            let end = range.end.min((index + 1) * self.piece);
            let shift = |place: usize| piece * self.piece + (place - index * self.piece);
            (start < end).then(|| shift(start)..shift(end))
        })
    }

    /// The wanted values.
    pub fn pick(&self, values: &[f32]) -> Vec<f32> {
        self.inside(0..self.len()).flat_map(|range| values[range].iter().copied()).collect()
    }
}
