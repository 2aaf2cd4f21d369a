//! The exact planner computes every token once, in order, and never more rows than a step holds.
#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use proptest::prelude::*;
use support::model::{candidate, plan_step};
use zlrs_engine::Compute;
use zlrs_engine::kv::{Arena, BLOCK_TOKENS, Sequence};
use zlrs_engine::plan::{Blocks, Drafts, ExactPlanner, Heads, KvPrecision, Layers, Plan, Planner};

proptest! {
    #[test]
    fn every_token_once_in_order(
        lengths in proptest::collection::vec(1_usize..60, 1..8), chunk_rows in 1_usize..40, beside in 1_usize..20,
    ) {
        let arena = Arena::new(1, 1000).unwrap();
        let mut sequences: Vec<Sequence> = lengths
            .iter()
            .map(|&length| Sequence::new(&arena, (0..length as u32).collect()))
            .collect();
        let mut planner = ExactPlanner { chunk_rows, chunk_rows_beside_decoding: beside };
        let mut plan = Plan::default();
        let mut logits = vec![0; lengths.len()];
        for _ in 0..lengths.iter().sum::<usize>() {
            plan.clear();
            let decoding: Vec<bool> = sequences.iter().map(|sequence| candidate(sequence).decoding).collect();
            let mut all: Vec<&mut Sequence> = sequences.iter_mut().collect();
            plan_step(&mut planner, &mut all, &mut plan);
            prop_assert!(plan.rows().len() <= chunk_rows);
            let decoded = plan.rows().iter().filter(|row| decoding[row.sequence as usize]).count();
            prop_assert!(decoded == decoding.iter().filter(|&&decoding| decoding).count().min(chunk_rows));
            prop_assert!(decoded == 0 || plan.rows().len() - decoded <= beside);
            prop_assert_eq!(plan.sequences(), lengths.len());
            prop_assert_eq!(plan.layers, Layers::All);
            prop_assert_eq!((plan.heads, plan.blocks), (Heads::All, Blocks::All));
            prop_assert_eq!((plan.kv_precision, plan.drafts), (KvPrecision::F16, Drafts::None));
            for row in plan.rows() {
                let sequence = &mut sequences[row.sequence as usize];
                prop_assert_eq!(row.position as usize, sequence.stored());
                prop_assert_eq!(row.token, row.position);
                let block = plan.blocks_of(row.sequence)[row.position as usize / BLOCK_TOKENS];
                prop_assert_eq!(block, sequence.table()[row.position as usize / BLOCK_TOKENS]);
                sequence.advance(1);
                let last = sequence.pending().is_empty();
                prop_assert_eq!(row.wants_logits, last);
                logits[row.sequence as usize] += usize::from(last);
            }
            if sequences.iter().all(|sequence| sequence.pending().is_empty()) {
                break;
            }
            prop_assert!(!plan.rows().is_empty());
        }
        prop_assert!(sequences.iter().all(|sequence| sequence.pending().is_empty()));
        prop_assert!(logits.iter().all(|&count| count == 1));
    }
}

#[test]
fn prompts_are_long_alone_and_short_beside_decoding() {
    let arena = Arena::new(1, 1000).unwrap();
    let rows_of = |lengths: &[usize]| {
        let sequences: Vec<Sequence> =
            lengths.iter().map(|&length| Sequence::new(&arena, vec![0; length])).collect();
        let candidates: Vec<_> = sequences.iter().map(candidate).collect();
        let mut rows = Vec::new();
        ExactPlanner::default().rows(&candidates, &mut rows);
        rows
    };
    assert_eq!(rows_of(&[300, 300]), [256, 0]);
    assert_eq!(rows_of(&[200, 300]), [200, 56]);
    assert_eq!(rows_of(&[1, 300, 1, 300]), [1, 64, 1, 0]);
    assert_eq!(rows_of(&[1; 300]).iter().sum::<usize>(), 256);
}

#[test]
fn rows_say_what_may_be_left_out_for_their_own_request() {
    let arena = Arena::new(1, 1000).unwrap();
    let mut exact = Sequence::new(&arena, vec![1; 3]);
    let mut aggressive = Sequence::new(&arena, vec![2; 3]).with_compute(Compute::Aggressive);
    let mut plan = Plan::default();
    plan_step(&mut ExactPlanner::default(), &mut [&mut exact, &mut aggressive], &mut plan);
    assert_eq!(plan.rows().len(), 6);
    for row in plan.rows() {
        let expected = if row.token == 2 { Compute::Aggressive } else { Compute::Exact };
        assert_eq!(row.compute, expected);
    }
    assert_eq!(aggressive.fork().compute(), Compute::Aggressive);
}

#[test]
fn a_full_memory_is_reported() {
    let arena = Arena::new(1, 2).unwrap();
    let mut sequence = Sequence::new(&arena, vec![0; 33]);
    assert!(ExactPlanner::default().fill(&mut [&mut sequence], &[33], &mut Plan::default()).is_err());
    assert_eq!(arena.statistics().blocks_used, 0);
}
