//! Products that share a call have the bits of products alone.

use crate::weights::{Fill, Random, Scales, Values, assert_same, available, file_rows, pack, product};
use zlrs_kernels::{
    Gate, Isa, Matrix, Pool, Product, Scratch, TensorType, matmul_gated, matmul_gated_above, matmul_many,
};

const COLS: usize = 512;

fn matrices(isa: Isa, pool: &Pool, of: &[(TensorType, usize)], random: &mut Random) -> Vec<Matrix> {
    of.iter()
        .map(|&(tensor_type, rows)| {
            let file = file_rows(tensor_type, rows, COLS, Fill::Random, Scales::Usual, random);
            pack(isa, pool, tensor_type, rows, COLS, &file)
        })
        .collect()
}

#[test]
fn products_of_one_input() {
    let pools = [1, 2].map(|threads| Pool::new(threads).unwrap());
    let mixed = [
        (TensorType::Q5_0, 70),
        (TensorType::Q8_0, 9),
        (TensorType::Q5_0, 33),
        (TensorType::F16, 5),
        (TensorType::Q6K, 0),
        (TensorType::Q4K, 130),
    ];
    for isa in available() {
        let mut random = Random::new(11);
        let weights = matrices(isa, &pools[0], &mixed, &mut random);
        for rows in [1, 2, 8, 9, 50] {
            let x = Values::Random.make(rows * COLS, &mut random);
            for (count, pool) in [(1, &pools[0]), (3, &pools[1]), (6, &pools[0]), (6, &pools[1])] {
                let bias: Vec<f32> = (0..130).map(|_| random.float()).collect();
                let mut outs: Vec<Vec<f32>> =
                    weights[..count].iter().map(|w| vec![f32::NAN; rows * w.rows()]).collect();
                let mut products: Vec<Product<'_>> = weights
                    .iter()
                    .zip(&mut outs)
                    .map(|(weights, out)| Product { weights, bias: Some(&bias[..weights.rows()]), out })
                    .collect();
                matmul_many(pool, &mut products, &x, rows, &mut Scratch::new()).unwrap();
                for (weights, out) in weights.iter().zip(&outs) {
                    let alone = product(&pools[0], weights, &x, Some(&bias[..weights.rows()]));
                    assert_same(out, &alone, weights.rows().max(1), &format!("{isa:?} {rows} {weights:?}"));
                }
            }
        }
    }
}

#[test]
fn gated_pairs() {
    let pools = [1, 2].map(|threads| Pool::new(threads).unwrap());
    for isa in available() {
        let mut random = Random::new(5);
        for types in
            [[TensorType::Q4_1; 2], [TensorType::Q6K, TensorType::Q5_0], [TensorType::BF16, TensorType::Q8_0]]
        {
            let weights = matrices(isa, &pools[0], &types.map(|tensor_type| (tensor_type, 203)), &mut random);
            for (rows, gate) in [(1, Gate::Silu), (3, Gate::Gelu), (40, Gate::Silu), (9, Gate::Gelu)] {
                let x = Values::Random.make(rows * COLS, &mut random);
                let [first, second] = [0, 1].map(|i| product(&pools[0], &weights[i], &x, None));
                let mut expected = vec![0.0; first.len()];
                match gate {
                    Gate::Silu => zlrs_kernels::silu_multiply(isa, &first, &second, &mut expected),
                    Gate::Gelu => zlrs_kernels::gelu_multiply(isa, &first, &second, &mut expected),
                }
                for pool in &pools {
                    let mut outs = [0, 1, 2].map(|_| vec![f32::NAN; first.len()]);
                    let [a, b, out] = &mut outs;
                    let mut pair = [
                        Product { weights: &weights[0], bias: None, out: a },
                        Product { weights: &weights[1], bias: None, out: b },
                    ];
                    matmul_gated(pool, &mut pair, gate, &x, rows, out, &mut Scratch::new()).unwrap();
                    assert_same(out, &expected, 203, &format!("{isa:?} {types:?} {rows} rows"));
                }
            }
        }
    }
}

#[test]
fn pairs_that_do_not_fit_are_refused() {
    let pool = Pool::new(1).unwrap();
    let mut random = Random::new(1);
    let weights =
        matrices(Isa::detect(), &pool, &[(TensorType::Q8_0, 8), (TensorType::Q8_0, 16)], &mut random);
    let (mut a, mut b, mut out) = (vec![7.0; 8], vec![7.0; 16], vec![7.0; 8]);
    let mut pair = [
        Product { weights: &weights[0], bias: None, out: &mut a },
        Product { weights: &weights[1], bias: None, out: &mut b },
    ];
    let mut scratch = Scratch::new();
    let x = vec![1.0; COLS];
    assert!(matmul_gated(&pool, &mut pair, Gate::Silu, &x, 1, &mut out, &mut scratch).is_err());
    assert!(matmul_many(&pool, &mut pair, &x[1..], 1, &mut scratch).is_err());
    assert!(a.iter().chain(&b).chain(&out).all(|&value| value == 7.0));
}

#[test]
fn the_first_rows_of_a_matrix_are_a_matrix() {
    let pool = Pool::new(2).unwrap();
    for isa in available() {
        let mut random = Random::new(21);
        for tensor_type in [TensorType::Q8_0, TensorType::Q6K, TensorType::F16] {
            let weights = &matrices(isa, &pool, &[(tensor_type, 70)], &mut random)[0];
            for first in [0, 1, 7, 8, 33, 70, 99] {
                let part = weights.first_rows(first);
                let count = first.min(70);
                assert_eq!((part.rows(), part.cols()), (count, COLS));
                assert!(part.bytes() <= weights.bytes());
                for rows in [1, 9, 33] {
                    let x = Values::Random.make(rows * COLS, &mut random);
                    let whole = product(&pool, weights, &x, None);
                    let expected: Vec<f32> = whole.chunks(70).flat_map(|row| row[..count].to_vec()).collect();
                    assert_same(
                        &product(&pool, &part, &x, None),
                        &expected,
                        count.max(1),
                        &format!("{part:?}"),
                    );
                }
                let mut row = vec![0.0; COLS];
                assert!(part.decode_row(count, &mut row).is_err());
            }
        }
    }
}

#[test]
fn what_the_gate_hardly_lets_through_is_nothing() {
    let pools = [1, 2].map(|threads| Pool::new(threads).unwrap());
    for isa in available() {
        let mut random = Random::new(17);
        for types in [[TensorType::Q4_1; 2], [TensorType::Q6K, TensorType::Q5_0], [TensorType::F16; 2]] {
            let weights = matrices(isa, &pools[0], &types.map(|tensor_type| (tensor_type, 203)), &mut random);
            for (rows, gate) in [(1, Gate::Silu), (3, Gate::Gelu), (40, Gate::Silu)] {
                let x = Values::Random.make(rows * COLS, &mut random);
                let [first, second] = [0, 1].map(|i| product(&pools[0], &weights[i], &x, None));
                let apply = |up: &[f32]| {
                    let mut out = vec![0.0; first.len()];
                    match gate {
                        Gate::Silu => zlrs_kernels::silu_multiply(isa, &first, up, &mut out),
                        Gate::Gelu => zlrs_kernels::gelu_multiply(isa, &first, up, &mut out),
                    }
                    out
                };
                let (through, whole) = (apply(&vec![1.0; first.len()]), apply(&second));
                let mut sizes: Vec<f32> = through.iter().map(|value| value.abs()).collect();
                sizes.sort_by(f32::total_cmp);
                // Nothing, a part, nearly all, all; in some rows everything counts.
                for share in [0.0, 0.4, 0.97, 1.0] {
                    let bound = sizes[((sizes.len() - 1) as f32 * share) as usize];
                    let least: Vec<f32> =
                        (0..rows).map(|row| if row % 4 == 3 { -1.0 } else { bound }).collect();
                    let expected: Vec<f32> = (0..whole.len())
                        .map(|i| if through[i].abs() <= least[i / 203] { 0.0 } else { whole[i] })
                        .collect();
                    for pool in &pools {
                        let mut outs = [0, 1, 2].map(|_| vec![f32::NAN; first.len()]);
                        let [a, b, out] = &mut outs;
                        let mut pair = [
                            Product { weights: &weights[0], bias: None, out: a },
                            Product { weights: &weights[1], bias: None, out: b },
                        ];
                        let scratch = &mut Scratch::new();
                        matmul_gated_above(pool, &mut pair, gate, &least, &x, rows, out, scratch).unwrap();
                        assert_same(out, &expected, 203, &format!("{isa:?} {types:?} {rows} rows {share}"));
                    }
                }
            }
        }
    }
}
