//! What the coming step computes, and so what it does not.
//!
//! A plan names token rows, layers, heads, blocks and their precision. Backends execute plans and decide
//! nothing; a new way of skipping work is a new [`Planner`]. The exact plan is all rows, all layers, all heads,
//! all blocks, in the reference precision, without drafts.

use std::ops::Range;

use crate::Compute;
use crate::exit::{ExitState, Followers};
use crate::kv::{ArenaError, BLOCK_TOKENS, BlockCopy, Sequence};

/// Most rows in one step: prompts are computed in chunks of this many tokens.
pub const CHUNK_ROWS: usize = 256;

/// Most rows of prompts in a step in which others decode.
pub const CHUNK_ROWS_BESIDE_DECODING: usize = 64;

/// One token to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Its id.
    pub token: u32,
    /// Its absolute position in its sequence.
    pub position: u32,
    /// Index of the sequence in this plan.
    pub sequence: u32,
    /// Whether the step returns the logits that follow it.
    pub wants_logits: bool,
    /// What may be left out for it.
    pub compute: Compute,
}

/// Layers computed for every row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Layers {
    /// All of them.
    #[default]
    All,
    /// Those that the backend drafts with, see [`Backend::draft_vocabulary`](crate::backend::Backend::draft_vocabulary):
    /// the logits are guesses, and keys and values of the rows hold until the step that verifies them.
    Draft,
}

/// Heads computed in every layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Heads {
    /// All of them.
    #[default]
    All,
}

/// Which blocks of its sequence a row attends to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Blocks {
    /// All up to its own position (or within the layer's own window).
    #[default]
    All,
}

/// How keys and values are stored of blocks that become complete in a step. A block keeps what it was given; one
/// that is still being filled is f16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum KvPrecision {
    /// f16, rounded to nearest even: the reference.
    #[default]
    F16,
    /// Codes of 8 bits, a scale and a minimum for each channel of keys and each 32 dimensions of a value.
    Q8,
    /// Codes of 4 bits, likewise.
    Q4,
}

impl KvPrecision {
    /// Its name in receipts and settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Q8 => "q8",
            Self::Q4 => "q4",
        }
    }
}

/// Rows whose tokens are guesses to be verified by this step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Drafts {
    /// No row is a guess.
    #[default]
    None,
    /// Some rows are: behind the certain tokens of a sequence, each guess after the one before it.
    Chain,
}

/// One step. Reused from step to step, so that planning allocates nothing once it is warm.
#[derive(Debug, Default)]
pub struct Plan {
    rows: Vec<Row>,
    copies: Vec<BlockCopy>,
    block_table: Vec<u32>,
    sequences: Vec<Range<usize>>,
    /// By sequence.
    exit_states: Vec<ExitState>,
    /// By row, up to the last aggressive one.
    followers: Vec<Followers>,
    /// Layers to compute.
    pub layers: Layers,
    /// Heads to compute.
    pub heads: Heads,
    /// Blocks to attend to.
    pub blocks: Blocks,
    /// Precision of keys and values.
    pub kv_precision: KvPrecision,
    /// Draft rows.
    pub drafts: Drafts,
}

impl Plan {
    /// Empties the plan and makes it exact.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.copies.clear();
        self.block_table.clear();
        self.sequences.clear();
        self.exit_states.clear();
        self.followers.clear();
        self.layers = Layers::All;
        self.heads = Heads::All;
        self.blocks = Blocks::All;
        self.kv_precision = KvPrecision::F16;
        self.drafts = Drafts::None;
    }

    /// Adds a sequence that owns the blocks of `table` and returns its index.
    pub fn add_sequence(&mut self, table: &[u32]) -> u32 {
        let start = self.block_table.len();
        self.block_table.extend_from_slice(table);
        self.sequences.push(start..self.block_table.len());
        self.exit_states.push(ExitState::default());
        self.sequences.len() as u32 - 1
    }

    /// Adds a row of a sequence added before. Rows of one sequence come in ascending order of positions.
    pub fn add_row(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Adds a row for which work may be left out, with the candidates that its sequence has for the next token.
    pub fn add_aggressive_row(&mut self, row: Row, followers: Followers) {
        self.followers.resize(self.rows.len(), Followers::default());
        self.followers.push(followers);
        self.rows.push(Row { compute: Compute::Aggressive, ..row });
    }

    /// Tells what became of a sequence's rows before this step.
    pub fn set_exit_state(&mut self, sequence: u32, state: ExitState) {
        self.exit_states[sequence as usize] = state;
    }

    /// What became of the rows of each sequence before this step.
    pub fn exit_states(&self) -> &[ExitState] {
        &self.exit_states
    }

    /// Candidates for what follows a row; none for an exact one.
    pub fn followers_of(&self, row: usize) -> Followers {
        self.followers.get(row).copied().unwrap_or_default()
    }

    /// The rows, in the order of computation.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Copies to make before any row is computed.
    pub fn copies(&self) -> &[BlockCopy] {
        &self.copies
    }

    /// Where reserving blocks notes its copies.
    pub fn copies_mut(&mut self) -> &mut Vec<BlockCopy> {
        &mut self.copies
    }

    /// Number of sequences.
    pub fn sequences(&self) -> usize {
        self.sequences.len()
    }

    /// Blocks of a sequence, by position / [`BLOCK_TOKENS`].
    pub fn blocks_of(&self, sequence: u32) -> &[u32] {
        &self.block_table[self.sequences[sequence as usize].clone()]
    }

    /// Rows that want logits.
    pub fn logits_rows(&self) -> usize {
        self.rows.iter().filter(|row| row.wants_logits).count()
    }
}

/// What a planner decides the rows of a sequence by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Certain tokens still to be computed.
    pub pending: usize,
    /// Guesses behind them.
    pub guesses: usize,
    /// Whether the prompt is done, so that somebody waits for every token.
    pub decoding: bool,
}

/// Decides what the coming step computes.
pub trait Planner: Send {
    /// How many pending tokens of each sequence are computed, guesses included, in the order of `candidates`, which is the order of
    /// their claims. Fills the empty `rows` with one number a candidate, at least one of them not 0.
    fn rows(&mut self, candidates: &[Candidate], rows: &mut Vec<usize>);

    /// Fills the empty `plan` with the first `rows[i]` pending tokens of every `sequences[i]`, reserving blocks for
    /// them. Sequence i of the plan is `sequences[i]`; one that gets no row this time is still listed.
    ///
    /// # Errors
    /// [`ArenaError::Full`] when a sequence gets no block; the plan is then not to be used.
    fn fill(
        &mut self,
        sequences: &mut [&mut Sequence],
        rows: &[usize],
        plan: &mut Plan,
    ) -> Result<(), ArenaError> {
        for (sequence, &rows) in sequences.iter_mut().zip(rows) {
            sequence.reserve(sequence.stored() + rows, &mut plan.copies)?;
            let used_blocks = (sequence.stored() + rows).div_ceil(BLOCK_TOKENS);
            let index = plan.add_sequence(&sequence.table()[..used_blocks]);
            // What follows the last certain token is asked for, and what follows each guess.
            let first_wanted = sequence.tokens().len().saturating_sub(1);
            if sequence.stored() + rows > sequence.tokens().len() {
                plan.drafts = Drafts::Chain;
            }
            plan.set_exit_state(index, sequence.exit_state());
            for (offset, &token) in sequence.pending()[..rows].iter().enumerate() {
                let row = Row {
                    token,
                    position: (sequence.stored() + offset) as u32,
                    sequence: index,
                    wants_logits: sequence.stored() + offset >= first_wanted,
                    compute: sequence.compute(),
                };
                if row.compute == Compute::Exact {
                    plan.add_row(row);
                } else {
                    let before = &sequence.known()[..=sequence.stored() + offset];
                    plan.add_aggressive_row(row, Followers::of(before));
                }
            }
        }
        Ok(())
    }
}

/// Everything, in chunks: a token for every sequence that is decoding, then their guesses, then prompts in their
/// order.
#[derive(Debug, Clone, Copy)]
pub struct ExactPlanner {
    /// Most rows in a step, at least 1.
    pub chunk_rows: usize,
    /// Most rows of prompts in a step that also decodes, at least 1: those who are being answered wait no longer
    /// than this takes. `chunk_rows` holds all the same.
    pub chunk_rows_beside_decoding: usize,
}

impl Default for ExactPlanner {
    fn default() -> Self {
        Self { chunk_rows: CHUNK_ROWS, chunk_rows_beside_decoding: CHUNK_ROWS_BESIDE_DECODING }
    }
}

impl Planner for ExactPlanner {
    fn rows(&mut self, candidates: &[Candidate], rows: &mut Vec<usize>) {
        let chunk_rows = self.chunk_rows.max(1);
        let wanted =
            candidates.iter().filter(|candidate| candidate.decoding).map(|decoding| decoding.pending);
        let mut decode_rows = wanted.sum::<usize>().min(chunk_rows);
        let guesses =
            candidates.iter().filter(|candidate| candidate.decoding).map(|decoding| decoding.guesses);
        // Guesses leave prompts at least half of the room.
        let mut guess_rows = guesses.sum::<usize>().min((chunk_rows - decode_rows) / 2);
        let mut prompt_rows = chunk_rows - decode_rows - guess_rows;
        if decode_rows > 0 {
            prompt_rows = prompt_rows.min(self.chunk_rows_beside_decoding.max(1));
        }
        for candidate in candidates {
            let budget = if candidate.decoding { &mut decode_rows } else { &mut prompt_rows };
            let mut count = candidate.pending.min(*budget);
            *budget -= count;
            if candidate.decoding && count == candidate.pending {
                let guesses = candidate.guesses.min(guess_rows);
                guess_rows -= guesses;
                count += guesses;
            }
            rows.push(count);
        }
    }
}
