//! The last layer computes only rows that want logits; theirs do not change by it, nor do the keys and values.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use support::model::{Model, arena, assert_same_bits, isas, logits_of, text_ids};
use zlrs_engine::Compute;
use zlrs_engine::backend::Backend;
use zlrs_engine::kv::{BLOCK_TOKENS, Sequence};
use zlrs_engine::plan::{Plan, Row};
use zlrs_model::decoder::Architecture;
use zlrs_model::synthetic::Types;

#[test]
fn rows_that_want_nothing_change_nothing() {
    for architecture in Architecture::ALL {
        let model = Model::of(architecture, Types::Mixed);
        let prompts = [text_ids(45, 1), text_ids(7, 2), text_ids(30, 3)];
        for isa in isas() {
            let mut backend = model.backend(isa, 2, 16);
            let expected: Vec<Vec<Vec<f32>>> =
                prompts.iter().map(|ids| logits_of(&mut backend, ids, 64)).collect();
            for wants in
                [|_: usize| false, |position: usize| position % 5 == 3, |position: usize| position == 6]
            {
                let arena = arena(&backend);
                let mut sequences: Vec<Sequence> =
                    prompts.iter().map(|ids| Sequence::new(&arena, ids.clone())).collect();
                let mut plan = Plan::default();
                let mut wanted = Vec::new();
                for (index, sequence) in sequences.iter_mut().enumerate() {
                    let end = sequence.pending().len() - 1;
                    sequence.reserve(end, plan.copies_mut()).unwrap();
                    let at = plan.add_sequence(&sequence.table()[..end.div_ceil(BLOCK_TOKENS)]);
                    for position in 0..end {
                        let wants_logits = wants(position);
                        let (token, place) = (prompts[index][position], position as u32);
                        plan.add_row(Row {
                            token,
                            position: place,
                            sequence: at,
                            wants_logits,
                            compute: Compute::Exact,
                        });
                        if wants_logits {
                            wanted.push(expected[index][position].clone());
                        }
                    }
                }
                let vocabulary = backend.shape().vocabulary;
                let logits = backend.step(&plan, &|| false).unwrap();
                let got: Vec<Vec<f32>> = logits.chunks_exact(vocabulary).map(<[f32]>::to_vec).collect();
                assert_same_bits(&wanted, &got, &format!("{architecture:?} {isa:?}"));

                // The last token of each, over what that step stored.
                for (index, sequence) in sequences.iter_mut().enumerate() {
                    let last = sequence.pending().len() - 1;
                    sequence.advance(last);
                    plan.clear();
                    sequence.reserve(last + 1, plan.copies_mut()).unwrap();
                    let at = plan.add_sequence(sequence.table());
                    let (token, position) = (prompts[index][last], last as u32);
                    plan.add_row(Row {
                        token,
                        position,
                        sequence: at,
                        wants_logits: true,
                        compute: Compute::Exact,
                    });
                    let got = vec![backend.step(&plan, &|| false).unwrap().to_vec()];
                    assert_same_bits(
                        &expected[index][last..],
                        &got,
                        &format!("{architecture:?} {isa:?} after"),
                    );
                }
            }
        }
    }
}
