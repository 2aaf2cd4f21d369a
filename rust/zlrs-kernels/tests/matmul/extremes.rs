//! The edges: integer bounds, zeros, denormals, huge numbers, values that are no numbers.

use crate::weights::{
    Fill, Random, Scales, Values, assert_same, available, file_rows, pack, product, specified,
};
use zlrs_kernels::{Pool, TensorType};

const WEIGHT_ROWS: usize = 19;
const COLS: usize = 512;

/// All bits of the weights set, none, the sign alone, the most negative but one, the largest; activations at
/// both bounds, alternating, zero, denormal, barely normal, huge.
#[test]
fn extremes_equal_the_specification() {
    let pool = Pool::new(2).unwrap();
    let values = [
        Values::Constant(1.0),
        Values::Constant(-1.0),
        Values::Alternating(1.0),
        Values::Constant(0.0),
        Values::Constant(-0.0),
        Values::Constant(1e-41),
        Values::Alternating(f32::MIN_POSITIVE),
        Values::Alternating(1e-36),
        Values::Alternating(f32::MAX),
        Values::Constant(3e38),
        Values::Wild,
    ];
    let mut random = Random::new(11);
    for tensor_type in TensorType::ALL {
        for byte in [0x00, 0xff, 0x80, 0x81, 0x7f] {
            for scales in [Scales::Usual, Scales::Anything] {
                let fill = Fill::Byte(byte);
                let file = file_rows(tensor_type, WEIGHT_ROWS, COLS, fill, scales, &mut random);
                let matrices = available()
                    .into_iter()
                    .map(|isa| (isa, pack(isa, &pool, tensor_type, WEIGHT_ROWS, COLS, &file)));
                let matrices: Vec<_> = matrices.collect();
                for values in values {
                    let x = values.make(11 * COLS, &mut random);
                    let expected = specified(tensor_type, &file, COLS, &x, None);
                    for (isa, weights) in &matrices {
                        for rows in [1, 4, 8, 11] {
                            let what = format!("{tensor_type} {byte:#x} {values:?} {isa:?} {rows} rows");
                            let given = product(&pool, weights, &x[..rows * COLS], None);
                            assert_same(&given, &expected[..rows * WEIGHT_ROWS], WEIGHT_ROWS, &what);
                        }
                    }
                }
            }
        }
    }
}

/// The largest integers each type can reach, against 128-bit arithmetic: nothing wraps, nothing saturates.
#[test]
fn integer_bounds_are_exact() {
    let pool = Pool::new(1).unwrap();
    for tensor_type in TensorType::ALL.into_iter().filter(|t| !t.is_float()) {
        let cols = tensor_type.block_len();
        for byte in [0x00, 0xff, 0x80, 0x7f] {
            // Scales of 1, no minima: the product is the integer itself.
            let mut file = vec![byte; tensor_type.block_bytes()];
            match tensor_type {
                TensorType::Q6K => file[208..210].copy_from_slice(&0x3c00_u16.to_le_bytes()),
                TensorType::Q4_1 | TensorType::Q4K | TensorType::Q5K => {
                    file[..4].copy_from_slice(&0x0000_3c00_u32.to_le_bytes());
                }
                _ => file[..2].copy_from_slice(&0x3c00_u16.to_le_bytes()),
            }
            let mut decoded = vec![0.0; cols];
            let naive = pack(zlrs_kernels::Isa::Naive, &pool, tensor_type, 1, cols, &file);
            naive.decode_row(0, &mut decoded).unwrap();
            for values in [Values::Constant(127.0), Values::Constant(-127.0), Values::Alternating(127.0)] {
                let x = values.make(cols, &mut Random::new(1));
                let exact: i128 = decoded.iter().zip(&x).map(|(w, x)| *w as i128 * *x as i128).sum();
                for isa in available() {
                    let weights = pack(isa, &pool, tensor_type, 1, cols, &file);
                    let given = product(&pool, &weights, &x, None);
                    assert_eq!(given, [exact as f32], "{tensor_type} {byte:#x} {values:?} {isa:?}");
                }
            }
        }
    }
}

/// A NaN or an infinity anywhere in a row shows in all of the row's results, and only there.
#[test]
fn values_that_are_no_numbers_show() {
    let pool = Pool::new(2).unwrap();
    let mut random = Random::new(5);
    for tensor_type in TensorType::ALL {
        let file = file_rows(tensor_type, WEIGHT_ROWS, COLS, Fill::Random, Scales::Usual, &mut random);
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for at in [0, COLS / 2 + 1, COLS - 1] {
                for rows in [3, 10] {
                    let mut x = Values::Random.make(rows * COLS, &mut random);
                    x[COLS + at] = bad;
                    for isa in available() {
                        let weights = pack(isa, &pool, tensor_type, WEIGHT_ROWS, COLS, &file);
                        let given = product(&pool, &weights, &x, None);
                        for (row, given) in given.chunks(WEIGHT_ROWS).enumerate() {
                            let finite = given.iter().filter(|v| v.is_finite()).count();
                            let expected = if row == 1 { 0 } else { WEIGHT_ROWS };
                            assert_eq!(finite, expected, "{tensor_type} {bad} at {at}, row {row}, {isa:?}");
                        }
                    }
                }
            }
        }
    }
}
