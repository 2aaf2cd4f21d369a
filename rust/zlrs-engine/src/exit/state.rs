//! A sequence's history at the probes: all that decides besides the row itself.

use super::MAX_PROBES;

/// Rows in a row under the threshold, the one that leaves included.
pub const RUN: u8 = 5;
/// Rows over which changes between leaving and staying are counted.
pub const CHANGES_WINDOW: usize = 64;
/// More changes within the window than these are flapping: the probe is off for the rest of the sequence.
pub const CHANGES_LIMIT: u32 = 16;

/// What became of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowTrace {
    /// Bit i: the row was under the threshold of probe i, or had left before it.
    pub under: u8,
    /// Layers that were left out for it.
    pub skipped_layers: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ProbeState {
    /// Rows in a row under the threshold, at most [`RUN`].
    run: u8,
    /// Whether the last row left here, or had left before.
    left: bool,
    is_off: bool,
    /// Bit i: i rows ago leaving and staying changed.
    changes: u64,
}

/// The history of a sequence after some of its rows. A function of those rows alone, so that neither other sequences
/// nor the size of a step matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExitState {
    probes: [ProbeState; MAX_PROBES],
}

impl ExitState {
    /// The next row is under the threshold of a probe, or not: whether it leaves there.
    pub fn push(&mut self, probe: usize, under: bool) -> bool {
        let state = &mut self.probes[probe];
        if state.is_off {
            return false;
        }
        state.run = if under { (state.run + 1).min(RUN) } else { 0 };
        let leaves = state.run == RUN;
        state.changes = state.changes << 1 | u64::from(leaves != state.left);
        state.left = leaves;
        if state.changes.count_ones() > CHANGES_LIMIT {
            state.is_off = true;
            return false;
        }
        leaves
    }

    /// Takes over the history of a row that is part of the sequence now.
    pub fn advance(&mut self, trace: RowTrace) {
        for probe in 0..MAX_PROBES {
            self.push(probe, trace.under >> probe & 1 == 1);
        }
    }

    /// Whether a probe is off because the sequence flapped there.
    pub fn is_flapping(&self) -> bool {
        self.probes.iter().any(|probe| probe.is_off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fifth_row_in_a_row_leaves() {
        let mut state = ExitState::default();
        let under = [true, true, true, true, true, true, false, true, true, true, true, true];
        let left: Vec<bool> = under.iter().map(|&under| state.push(1, under)).collect();
        assert_eq!(left, [false, false, false, false, true, true, false, false, false, false, false, true]);
        assert!(!state.push(0, true), "every probe has its own run");
    }

    #[test]
    fn flapping_turns_the_probe_off_for_good() {
        let mut state = ExitState::default();
        // Five under, one over: two changes in six rows.
        let mut left = 0;
        for index in 0..600 {
            left += usize::from(state.push(0, index % 6 != 5));
        }
        assert!(state.is_flapping());
        assert!((1..=CHANGES_LIMIT as usize).contains(&left), "{left}");
        assert!((0..100).all(|_| !state.push(0, true)));
        let mut calm = ExitState::default();
        let left = (0..600).filter(|index| calm.push(0, index % 16 != 15)).count();
        assert!(!calm.is_flapping() && left > 300, "{left}");
    }
}
