use std::collections::HashMap;

use proptest::prelude::*;

use super::{PartitionKey, PrefixCache, Tenant};
use crate::Compute;
use crate::kv::{Arena, BLOCK_TOKENS, Sequence};

const BLOCKS: usize = 24;

fn key(tenant: u8) -> PartitionKey {
    PartitionKey::exact(Tenant([tenant; 32]))
}

/// A memory with one cell a token, to see whose tokens a block holds.
#[derive(Default)]
struct Memory(HashMap<(u32, usize), (u8, Vec<u32>)>);

impl Memory {
    /// What a step does: copies, then writes. A cell remembers the tenant and the whole prefix that a key or value
    /// depends on.
    fn compute(&mut self, tenant: u8, sequence: &mut Sequence) -> bool {
        let mut copies = Vec::new();
        if sequence.reserve(sequence.tokens().len(), &mut copies).is_err() {
            return false;
        }
        for copy in copies {
            for slot in 0..BLOCK_TOKENS {
                if let Some(cell) = self.0.get(&(copy.from, slot)).cloned() {
                    self.0.insert((copy.to, slot), cell);
                }
            }
        }
        for position in sequence.stored()..sequence.tokens().len() {
            let cell = (sequence.table()[position / BLOCK_TOKENS], position % BLOCK_TOKENS);
            self.0.insert(cell, (tenant, sequence.tokens()[..=position].to_vec()));
        }
        sequence.advance(sequence.pending().len());
        true
    }

    fn check(&self, tenant: u8, sequence: &Sequence) {
        for position in 0..sequence.stored() {
            let cell = (sequence.table()[position / BLOCK_TOKENS], position % BLOCK_TOKENS);
            assert_eq!(self.0[&cell], (tenant, sequence.tokens()[..=position].to_vec()));
        }
    }
}

/// The naive reference: every token sequence that was inserted and not given up.
#[derive(Default)]
struct Known(Vec<(u8, Vec<u32>)>);

impl Known {
    fn longest(&self, tenant: u8, ids: &[u32]) -> usize {
        let same = self.0.iter().filter(|(owner, _)| *owner == tenant);
        same.map(|(_, known)| known.iter().zip(ids).take_while(|(a, b)| a == b).count()).max().unwrap_or(0)
    }
}

/// Few different tokens, so that prefixes are shared and part anywhere.
fn ids() -> impl Strategy<Value = Vec<u32>> {
    (0_usize..4, proptest::collection::vec(0_u32..2, 0..45)).prop_map(|(shared, tail)| {
        let mut ids = vec![9; shared * 11];
        ids.extend(tail);
        ids.push(1);
        ids
    })
}

#[derive(Debug, Clone)]
enum Action {
    /// Looks up, computes the rest, keeps whole blocks or everything, lets go.
    Ask(u8, Vec<u32>, bool),
    /// As `Ask`, and stays.
    Stay(u8, Vec<u32>),
    Leave(usize),
    Evict(usize),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (0_u8..2, ids(), any::<bool>()).prop_map(|(tenant, ids, whole)| Action::Ask(tenant, ids, whole)),
        2 => (0_u8..2, ids()).prop_map(|(tenant, ids)| Action::Stay(tenant, ids)),
        2 => (0_usize..4).prop_map(Action::Leave),
        1 => (1_usize..6).prop_map(Action::Evict),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn what_is_found_is_what_was_computed(actions in proptest::collection::vec(action(), 1..60)) {
        let arena = Arena::new(100, 100 * BLOCKS).unwrap();
        let (mut cache, mut memory, mut known) = (PrefixCache::default(), Memory::default(), Known::default());
        let mut staying: Vec<(u8, Sequence)> = Vec::new();
        let mut evicted = false;
        for action in actions {
            match action {
                Action::Ask(tenant, ids, _) | Action::Stay(tenant, ids) if ids.is_empty() => { let _ = tenant; }
                Action::Ask(..) | Action::Stay(..) => {
                    let (tenant, ids, stays, whole) = match action {
                        Action::Ask(tenant, ids, whole) => (tenant, ids, false, whole),
                        Action::Stay(tenant, ids) => (tenant, ids, true, false),
                        _ => unreachable!(),
                    };
                    let limit = ids.len() - 1;
                    let found = cache.lookup(&key(tenant), &ids, limit);
                    let expected = known.longest(tenant, &ids).min(limit);
                    prop_assert!(found.tokens <= expected);
                    prop_assert!(evicted || found.tokens == expected, "{} of {expected}", found.tokens);
                    prop_assert_eq!(found.blocks.len(), found.tokens.div_ceil(BLOCK_TOKENS));
                    let mut sequence = Sequence::new(&arena, ids);
                    sequence.adopt(found.tokens, found.blocks);
                    memory.check(tenant, &sequence);
                    while !memory.compute(tenant, &mut sequence) {
                        evicted = true;
                        if cache.evict(1) == 0 && staying.pop().is_none() {
                            // Only shared blocks are left; without the tree nothing need be copied.
                            prop_assert!(!cache.is_empty());
                            cache.clear();
                        }
                    }
                    memory.check(tenant, &sequence);
                    let stored = sequence.stored();
                    let kept = if whole { stored / BLOCK_TOKENS * BLOCK_TOKENS } else { stored };
                    cache.insert(&key(tenant), &sequence.tokens()[..kept], sequence.blocks());
                    known.0.push((tenant, sequence.tokens()[..kept].to_vec()));
                    if stays {
                        // Goes on writing after others may have taken over its blocks.
                        sequence.push(7);
                        if memory.compute(tenant, &mut sequence) {
                            staying.push((tenant, sequence));
                        }
                    }
                }
                Action::Leave(index) if !staying.is_empty() => {
                    staying.swap_remove(index % staying.len());
                }
                Action::Leave(_) => {}
                Action::Evict(count) => {
                    let reclaimable = cache.statistics().blocks_reclaimable;
                    let free = arena.free_blocks();
                    let freed = cache.evict(count);
                    evicted |= freed > 0;
                    prop_assert_eq!(arena.free_blocks() - free, freed);
                    prop_assert_eq!(freed, count.min(reclaimable));
                }
            }
            for (tenant, sequence) in &staying {
                memory.check(*tenant, sequence);
            }
            let statistics = cache.statistics();
            let mut held: Vec<u32> = staying.iter().flat_map(|(_, sequence)| sequence.table().to_vec()).collect();
            held.sort_unstable();
            held.dedup();
            // What is not free is held by sequences, or reclaimable, and nothing else.
            prop_assert!(arena.statistics().blocks_used >= statistics.blocks);
            prop_assert!(arena.statistics().blocks_used - statistics.blocks_reclaimable == held.len());
        }
        staying.clear();
        let reclaimable = cache.statistics().blocks_reclaimable;
        prop_assert_eq!(arena.statistics().blocks_used, reclaimable);
        prop_assert_eq!(cache.evict(reclaimable), reclaimable);
        prop_assert!(cache.is_empty());
        prop_assert_eq!(arena.statistics().blocks_used, 0);
    }
}

/// Computes and keeps one sequence.
fn keep(cache: &mut PrefixCache, arena: &Arena, tenant: u8, ids: &[u32]) {
    let found = cache.lookup(&key(tenant), ids, ids.len() - 1);
    let mut sequence = Sequence::new(arena, ids.to_vec());
    sequence.adopt(found.tokens, found.blocks);
    assert!(Memory::default().compute(tenant, &mut sequence));
    cache.insert(&key(tenant), ids, sequence.blocks());
}

#[test]
fn tenants_share_nothing() {
    let arena = Arena::new(100, 100 * BLOCKS).unwrap();
    let mut cache = PrefixCache::default();
    let ids: Vec<u32> = (0..40).collect();
    keep(&mut cache, &arena, 1, &ids);
    assert_eq!(cache.lookup(&key(1), &ids, 100).tokens, 40);
    assert_eq!(cache.lookup(&key(2), &ids, 100).tokens, 0);
    assert_eq!(cache.statistics().partitions, 1);
}

#[test]
fn the_least_recently_used_goes_first_and_from_its_end() {
    let arena = Arena::new(100, 100 * BLOCKS).unwrap();
    let mut cache = PrefixCache::default();
    let of = |first: u32| (0..48).map(|index| first + index).collect::<Vec<u32>>();
    for first in [100, 200, 300] {
        keep(&mut cache, &arena, 1, &of(first));
    }
    cache.lookup(&key(1), &of(100), 47);
    assert_eq!(cache.evict(2), 2);
    let known = |cache: &mut PrefixCache, first| cache.lookup(&key(1), &of(first), 48).tokens;
    assert_eq!([100, 200, 300].map(|first| known(&mut cache, first)), [48, 16, 48]);
    // All have been used since; 100 is the oldest again.
    assert_eq!(cache.evict(1), 1);
    assert_eq!([100, 200, 300].map(|first| known(&mut cache, first)), [32, 16, 48]);
}

#[test]
fn what_runs_is_not_evicted_in_vain() {
    let arena = Arena::new(100, 100 * BLOCKS).unwrap();
    let mut cache = PrefixCache::default();
    let ids: Vec<u32> = (0..40).collect();
    keep(&mut cache, &arena, 1, &ids);
    let running = cache.lookup(&key(1), &ids, 40);
    assert_eq!(cache.evict(5), 0);
    assert_eq!(cache.lookup(&key(1), &ids, 40).tokens, 40);
    drop(running);
    assert_eq!(cache.evict(5), 3);
    assert!(cache.is_empty());
}

#[test]
fn a_conversation_that_goes_on_is_one_node() {
    let arena = Arena::new(100, 100 * BLOCKS).unwrap();
    let mut cache = PrefixCache::default();
    for length in [10, 25, 26, 60] {
        keep(&mut cache, &arena, 1, &(0..length).collect::<Vec<_>>());
    }
    assert_eq!(cache.nodes.iter().flatten().count(), 2);
    assert_eq!(cache.statistics().blocks, 4);
}

#[test]
fn approximate_state_stays_among_aggressive_requests() {
    let arena = Arena::new(64, 64 * 8).unwrap();
    let (exact, aggressive) = (key(1), PartitionKey::of(Tenant([1; 32]), Compute::Aggressive));
    let other = PartitionKey::of(Tenant([2; 32]), Compute::Aggressive);
    let ids: Vec<u32> = (0..40).collect();
    let blocks = |tokens: usize| {
        let mut blocks = Vec::new();
        arena.allocate(tokens.div_ceil(BLOCK_TOKENS), &mut blocks).unwrap();
        blocks
    };
    let mut cache = PrefixCache::default();
    cache.insert(&aggressive, &ids[..20], &blocks(20));
    assert_eq!(cache.lookup(&exact, &ids, 40).tokens, 0);
    assert_eq!(cache.lookup(&aggressive, &ids, 40).tokens, 20);

    // What exact requests have computed serves both, where it is more; never another tenant.
    let exact_blocks = blocks(33);
    cache.insert(&exact, &ids[..33], &exact_blocks);
    let found = cache.lookup(&aggressive, &ids, 40);
    assert_eq!((found.tokens, found.blocks[0].index()), (33, exact_blocks[0].index()));
    assert_ne!(cache.lookup(&aggressive, &ids, 20).blocks[0].index(), exact_blocks[0].index());
    assert_eq!(cache.lookup(&other, &ids, 40).tokens, 0);
}
