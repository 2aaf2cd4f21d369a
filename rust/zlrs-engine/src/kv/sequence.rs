//! One sequence: its tokens and the blocks that hold their keys and values.

use crate::Compute;
use crate::exit::ExitState;

use super::{Arena, ArenaError, BLOCK_TOKENS, Block};

/// A block whose contents must be copied before the next step writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockCopy {
    /// The shared block.
    pub from: u32,
    /// The block this sequence writes to from now on.
    pub to: u32,
}

/// Tokens of a sequence and its block table. Positions are absolute and begin at 0.
#[derive(Debug)]
pub struct Sequence {
    arena: Arena,
    /// The certain ones, then guesses.
    tokens: Vec<u32>,
    /// Tokens at the end that are guesses.
    guesses: usize,
    /// Tokens at the front whose keys and values are stored.
    stored: usize,
    blocks: Vec<Block>,
    /// `blocks[i].index()`, the form kernels want.
    table: Vec<u32>,
    compute: Compute,
    /// History of the stored tokens at the probes; that of tokens computed by others is not known and is empty.
    exit_state: ExitState,
}

impl Sequence {
    /// A sequence of `tokens`, none of them computed; nothing may be left out for them.
    pub fn new(arena: &Arena, tokens: Vec<u32>) -> Self {
        let (blocks, table) = (Vec::new(), Vec::new());
        let compute = Compute::Exact;
        let exit_state = ExitState::default();
        Self { arena: arena.clone(), tokens, guesses: 0, stored: 0, blocks, table, compute, exit_state }
    }

    /// The same sequence with what may be left out for its rows.
    #[must_use]
    pub fn with_compute(self, compute: Compute) -> Self {
        Self { compute, ..self }
    }

    /// What may be left out for its rows.
    pub fn compute(&self) -> Compute {
        self.compute
    }

    /// Its history at the probes, up to the stored tokens.
    pub fn exit_state(&self) -> ExitState {
        self.exit_state
    }

    /// Takes over its history after further tokens were stored.
    pub fn set_exit_state(&mut self, state: ExitState) {
        self.exit_state = state;
    }

    /// The certain tokens, then the guesses.
    pub fn known(&self) -> &[u32] {
        &self.tokens
    }

    /// All certain tokens, prompt first.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens[..self.tokens.len() - self.guesses]
    }

    /// Guesses of the tokens that follow, which the coming step verifies.
    pub fn guesses(&self) -> &[u32] {
        &self.tokens[self.tokens.len() - self.guesses..]
    }

    /// How many tokens at the front have their keys and values stored.
    pub fn stored(&self) -> usize {
        self.stored
    }

    /// Tokens still to be computed, guesses included.
    pub fn pending(&self) -> &[u32] {
        &self.tokens[self.stored..]
    }

    /// Indices of the blocks, by position.
    pub fn table(&self) -> &[u32] {
        &self.table
    }

    /// Handles of the blocks, by position.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Takes the keys and values of the first `stored` tokens from `blocks`, which hold them, in place of its
    /// own. At most all tokens but the last are taken, so that one is left to compute.
    pub fn adopt(&mut self, stored: usize, blocks: Vec<Block>) {
        self.stored = stored.min(self.tokens().len().saturating_sub(1));
        self.exit_state = ExitState::default();
        self.blocks = blocks;
        self.blocks.truncate(self.stored.div_ceil(BLOCK_TOKENS));
        self.table.clear();
        self.table.extend(self.blocks.iter().map(Block::index));
    }

    /// Gives all blocks back and keeps the tokens, none of them computed.
    pub fn release(&mut self) {
        self.adopt(0, Vec::new());
    }

    /// Appends one certain token; guesses are dropped.
    pub fn push(&mut self, token: u32) {
        self.drop_guesses();
        self.tokens.push(token);
    }

    /// Puts guesses behind the certain tokens, in place of those that were there.
    pub fn guess(&mut self, ids: &[u32]) {
        self.drop_guesses();
        self.tokens.extend_from_slice(ids);
        self.guesses = ids.len();
    }

    /// Forgets the guesses, computed or not.
    pub fn drop_guesses(&mut self) {
        self.tokens.truncate(self.tokens.len() - self.guesses);
        self.guesses = 0;
        self.stored = self.stored.min(self.tokens.len());
    }

    /// Blocks that [`Sequence::reserve`] would take for the first `tokens` tokens: new ones, and copies of
    /// those that others refer to as well.
    pub fn blocks_wanted(&self, tokens: usize) -> usize {
        let first_written = (self.stored / BLOCK_TOKENS).min(self.blocks.len());
        let shared = self.blocks[first_written..].iter().filter(|block| block.is_shared()).count();
        tokens.div_ceil(BLOCK_TOKENS).saturating_sub(self.blocks.len()) + shared
    }

    /// Makes sure that the first `tokens` tokens have room and that the blocks from the first pending token on
    /// belong to this sequence alone. The copies this needs are appended to `copies`.
    ///
    /// # Errors
    /// [`ArenaError::Full`]; the sequence is then unchanged.
    pub fn reserve(&mut self, tokens: usize, copies: &mut Vec<BlockCopy>) -> Result<(), ArenaError> {
        let wanted = self.blocks_wanted(tokens);
        if wanted == 0 {
            return Ok(());
        }
        let first_written = self.stored / BLOCK_TOKENS;
        let first_fresh = self.blocks.len();
        self.arena.allocate(wanted, &mut self.blocks)?;
        for index in first_written..first_fresh {
            if self.blocks[index].is_shared() {
                let fresh = self.blocks.swap_remove(self.blocks.len() - 1);
                let old = std::mem::replace(&mut self.blocks[index], fresh);
                // Blocks past the stored tokens hold nothing worth copying.
                if index * BLOCK_TOKENS < self.stored {
                    copies.push(BlockCopy { from: old.index(), to: self.blocks[index].index() });
                }
            }
        }
        self.table.clear();
        self.table.extend(self.blocks.iter().map(Block::index));
        Ok(())
    }

    /// Records that a step stored `count` more tokens.
    pub fn advance(&mut self, count: usize) {
        self.stored = (self.stored + count).min(self.tokens.len());
    }

    /// Cuts the sequence to its first `tokens` tokens and frees the blocks behind them.
    pub fn truncate(&mut self, tokens: usize) {
        self.drop_guesses();
        self.tokens.truncate(tokens);
        if self.tokens.len() < self.stored {
            (self.stored, self.exit_state) = (self.tokens.len(), ExitState::default());
        }
        self.blocks.truncate(self.tokens.len().div_ceil(BLOCK_TOKENS));
        self.table.truncate(self.blocks.len());
    }

    /// Cuts the sequence to its first `tokens` tokens, at least one, and leaves the last of them to be computed again,
    /// so that a step says anew what follows it.
    pub fn rewind(&mut self, tokens: usize) {
        self.truncate(tokens.max(1));
        self.stored = self.stored.min(self.tokens.len().saturating_sub(1));
    }

    /// A second sequence with the same tokens and the same blocks; whichever writes first copies.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            arena: self.arena.clone(),
            tokens: self.tokens.clone(),
            guesses: self.guesses,
            stored: self.stored,
            blocks: self.blocks.clone(),
            table: self.table.clone(),
            compute: self.compute,
            exit_state: self.exit_state,
        }
    }
}
