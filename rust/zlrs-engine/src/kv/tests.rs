use std::collections::HashMap;

use proptest::prelude::*;

use super::{Arena, ArenaError, BLOCK_TOKENS, Sequence};

const BLOCKS: usize = 12;

#[test]
fn the_limit_is_hard() {
    assert_eq!(
        Arena::new(1000, 999).unwrap_err(),
        ArenaError::TooSmall { limit_bytes: 999, block_bytes: 1000 }
    );
    assert!(Arena::new(0, 999).is_err());
    let arena = Arena::new(1000, 3999).unwrap();
    assert_eq!((arena.blocks(), arena.bytes()), (3, 3000));
    let mut blocks = Vec::new();
    arena.allocate(2, &mut blocks).unwrap();
    assert_eq!(arena.allocate(2, &mut blocks), Err(ArenaError::Full { wanted: 2, free: 1, total: 3 }));
    assert_eq!(blocks.len(), 2);
    let copy = blocks[0].clone();
    assert!(blocks[0].is_shared());
    drop(blocks);
    assert_eq!(arena.statistics().blocks_used, 1);
    assert!(!copy.is_shared());
    drop(copy);
    assert_eq!((arena.statistics().blocks_used, arena.statistics().blocks_peak), (0, 2));
}

/// What happens to sequences in the model test below.
#[derive(Debug, Clone)]
enum Action {
    Extend(usize, usize),
    Truncate(usize, usize),
    Fork(usize),
    Drop(usize),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (0_usize..4, 1_usize..40).prop_map(|(which, count)| Action::Extend(which, count)),
        2 => (0_usize..4, 0_usize..80).prop_map(|(which, length)| Action::Truncate(which, length)),
        2 => (0_usize..4).prop_map(Action::Fork),
        1 => (0_usize..4).prop_map(Action::Drop),
    ]
}

/// A memory with one cell a token, to see whose tokens a block holds.
struct Memory(HashMap<(u32, usize), u32>);

impl Memory {
    fn check(&self, sequence: &Sequence) {
        for position in 0..sequence.stored() {
            let cell = (sequence.table()[position / BLOCK_TOKENS], position % BLOCK_TOKENS);
            assert_eq!(self.0[&cell], sequence.tokens()[position]);
        }
    }

    /// What a step does: copies, then writes the pending tokens.
    fn step(&mut self, sequence: &mut Sequence) -> Result<(), ArenaError> {
        let mut copies = Vec::new();
        sequence.reserve(sequence.tokens().len(), &mut copies)?;
        for copy in copies {
            for slot in 0..BLOCK_TOKENS {
                if let Some(&token) = self.0.get(&(copy.from, slot)) {
                    self.0.insert((copy.to, slot), token);
                }
            }
        }
        for position in sequence.stored()..sequence.tokens().len() {
            let cell = (sequence.table()[position / BLOCK_TOKENS], position % BLOCK_TOKENS);
            self.0.insert(cell, sequence.tokens()[position]);
        }
        sequence.advance(sequence.pending().len());
        Ok(())
    }
}

proptest! {
    #[test]
    fn sequences_never_see_each_other(actions in proptest::collection::vec(action(), 1..60)) {
        let arena = Arena::new(100, 100 * BLOCKS).unwrap();
        let mut memory = Memory(HashMap::new());
        let mut sequences = vec![Sequence::new(&arena, vec![])];
        let mut next_token = 0;
        for action in actions {
            match action {
                Action::Extend(which, count) => {
                    let length = sequences.len();
                    let sequence = &mut sequences[which % length];
                    let before = (sequence.tokens().len(), sequence.table().to_vec());
                    for _ in 0..count {
                        sequence.push(next_token);
                        next_token += 1;
                    }
                    if memory.step(sequence).is_err() {
                        prop_assert_eq!(sequence.table(), &before.1[..]);
                        sequence.truncate(before.0);
                    }
                }
                Action::Truncate(which, length) => {
                    let count = sequences.len();
                    sequences[which % count].truncate(length);
                }
                Action::Fork(which) if sequences.len() < 4 => {
                    let fork = sequences[which % sequences.len()].fork();
                    sequences.push(fork);
                }
                Action::Drop(which) if sequences.len() > 1 => {
                    sequences.swap_remove(which % sequences.len());
                }
                Action::Fork(_) | Action::Drop(_) => {}
            }
            for sequence in &sequences {
                memory.check(sequence);
            }
            let mut held: Vec<u32> = sequences.iter().flat_map(|sequence| sequence.table().to_vec()).collect();
            held.sort_unstable();
            held.dedup();
            prop_assert_eq!(arena.statistics().blocks_used, held.len());
            prop_assert!(held.iter().all(|&block| (block as usize) < BLOCKS));
        }
        drop(sequences);
        prop_assert_eq!(arena.statistics().blocks_used, 0);
    }
}

#[test]
fn blocks_are_freed_in_any_thread() {
    let arena = Arena::new(1, 1000).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..200 {
                    let mut blocks = Vec::new();
                    arena.allocate(round % 50, &mut blocks).unwrap();
                    let copies = blocks.clone();
                    drop(blocks);
                    drop(copies);
                }
            });
        }
    });
    assert_eq!(arena.statistics().blocks_used, 0);
}
