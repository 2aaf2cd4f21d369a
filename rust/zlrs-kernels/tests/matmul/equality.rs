//! Every path and every number of threads and rows gives the specification's bits.

use crate::weights::{
    Fill, Random, Scales, Values, assert_same, available, file_rows, pack, product, specified,
};
use proptest::prelude::*;
use std::sync::LazyLock;
use zlrs_kernels::{Pool, TensorType};

static POOLS: LazyLock<[Pool; 2]> = LazyLock::new(|| [1, 2].map(|threads| Pool::new(threads).unwrap()));

#[derive(Debug)]
struct Case {
    tensor_type: TensorType,
    weight_rows: usize,
    cols: usize,
    rows: usize,
    fill: Fill,
    scales: Scales,
    values: Values,
    bias: bool,
    seed: u64,
}

fn check(case: &Case) {
    let mut random = Random::new(case.seed);
    let Case { tensor_type, weight_rows, cols, rows, .. } = *case;
    let file = file_rows(tensor_type, weight_rows, cols, case.fill, case.scales, &mut random);
    let x = case.values.make(rows * cols, &mut random);
    let bias: Option<Vec<f32>> = case.bias.then(|| (0..weight_rows).map(|_| random.float()).collect());
    let expected = specified(tensor_type, &file, cols, &x, bias.as_deref());
    for isa in available() {
        for pool in &*POOLS {
            let weights = pack(isa, pool, tensor_type, weight_rows, cols, &file);
            let what = format!("{} threads, {isa:?}, {case:?}", pool.threads());
            assert_same(&product(pool, &weights, &x, bias.as_deref()), &expected, weight_rows, &what);
        }
    }
}

fn types() -> impl Strategy<Value = TensorType> {
    prop::sample::select(TensorType::ALL.to_vec())
}

fn values() -> impl Strategy<Value = Values> {
    prop_oneof![
        4 => Just(Values::Random),
        2 => Just(Values::Wild),
        1 => (-9.0_f32..9.0).prop_map(Values::Constant),
        1 => (-9.0_f32..9.0).prop_map(Values::Alternating),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn products_equal_the_specification(
        tensor_type in types(),
        weight_rows in 1_usize..50,
        blocks in 1_usize..6,
        odd in 0_usize..8,
        rows in prop_oneof![3 => 1_usize..=16, 1 => Just(33_usize), 1 => Just(64_usize)],
        fill in prop_oneof![Just(Fill::Random), any::<u8>().prop_map(Fill::Byte)],
        scales in prop_oneof![3 => Just(Scales::Usual), 1 => Just(Scales::Anything)],
        values in values(),
        bias in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let cols = if tensor_type.is_float() { 8 * blocks + odd } else { blocks * tensor_type.block_len() };
        check(&Case { tensor_type, weight_rows, cols, rows, fill, scales, values, bias, seed });
    }
}

/// Longer rows than a stretch, more columns than a pass, more weight rows than a tile.
#[test]
fn long_and_wide_products_equal_the_specification() {
    for tensor_type in TensorType::ALL {
        for (weight_rows, cols, rows) in [(17, 1536, 9), (40, 1280, 20), (9, 256, 241), (24, 512, 485)] {
            check(&Case {
                tensor_type,
                weight_rows,
                cols,
                rows,
                fill: Fill::Random,
                scales: Scales::Usual,
                values: Values::Random,
                bias: true,
                seed: 7,
            });
        }
    }
}

/// A row's bits are the same alone and beside any number of other rows.
#[test]
fn a_row_does_not_depend_on_the_rows_beside_it() {
    let mut random = Random::new(3);
    let (weight_rows, cols) = (21, 512);
    for tensor_type in TensorType::ALL {
        let file = file_rows(tensor_type, weight_rows, cols, Fill::Random, Scales::Usual, &mut random);
        let x = Values::Random.make(64 * cols, &mut random);
        for isa in available() {
            let weights = pack(isa, &POOLS[0], tensor_type, weight_rows, cols, &file);
            let alone: Vec<f32> =
                x.chunks(cols).flat_map(|x| product(&POOLS[0], &weights, x, None)).collect();
            for rows in (1..=16).chain([33, 64]) {
                let together = product(&POOLS[1], &weights, &x[..rows * cols], None);
                let what = format!("{tensor_type} {isa:?}, {rows} rows");
                assert_same(&together, &alone[..rows * weight_rows], weight_rows, &what);
            }
        }
    }
}
