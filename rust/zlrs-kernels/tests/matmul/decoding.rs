//! Decoding against encoders written from the formats' descriptions, and products against plain arithmetic
//! on decoded numbers.

use crate::weights::{Fill, Random, Scales, Values, available, file_rows, pack, product};
use zlrs_kernels::{Pool, TensorType, naive};

/// f16 numbers that f32 holds exactly, with their bits.
const HALVES: [(u16, f32); 5] =
    [(0x3c00, 1.0), (0xb800, -0.5), (0x0001, 5.960_464_5e-8), (0x7bff, 65504.0), (0x3555, 0.333_251_95)];

/// One block's bytes and the weights it stands for, in f64 (exact).
fn encode(tensor_type: TensorType, random: &mut Random) -> (Vec<u8>, Vec<f64>) {
    let (d_bits, d) = HALVES[random.below(5)];
    let (m_bits, m) = HALVES[random.below(5)];
    let (d, m) = (f64::from(d), f64::from(m));
    let n = tensor_type.block_len();
    let bits = match tensor_type {
        TensorType::Q4_0 | TensorType::Q4_1 | TensorType::Q4K => 4,
        TensorType::Q5_0 | TensorType::Q5K => 5,
        TensorType::Q6K => 6,
        _ => 8,
    };
    let q: Vec<usize> = (0..n).map(|_| random.below(1 << bits)).collect();
    let scales: Vec<usize> = (0..16).map(|_| random.below(64)).collect();
    let minima: Vec<usize> = (0..8).map(|_| random.below(64)).collect();
    let mut bytes = Vec::new();
    let q_at = {
        let q = q.clone();
        move |k: usize| q[k] as f64
    };
    let nibble_pairs =
        |q: &[usize]| (0..16).map(|j| (q[j] % 16 + 16 * (q[j + 16] % 16)) as u8).collect::<Vec<_>>();
    let value: Box<dyn Fn(usize) -> f64> = match tensor_type {
        TensorType::Q4_0 => {
            bytes.extend(d_bits.to_le_bytes());
            bytes.extend(nibble_pairs(&q));
            Box::new(move |k| d * (q_at(k) - 8.0))
        }
        TensorType::Q4_1 => {
            bytes.extend(d_bits.to_le_bytes());
            bytes.extend(m_bits.to_le_bytes());
            bytes.extend(nibble_pairs(&q));
            Box::new(move |k| d * q_at(k) + m)
        }
        TensorType::Q5_0 => {
            bytes.extend(d_bits.to_le_bytes());
            let high: u32 = (0..32).map(|k| ((q[k] / 16) as u32) << k).sum();
            bytes.extend(high.to_le_bytes());
            bytes.extend(nibble_pairs(&q));
            Box::new(move |k| d * (q_at(k) - 16.0))
        }
        TensorType::Q8_0 => {
            bytes.extend(d_bits.to_le_bytes());
            bytes.extend(q.iter().map(|&q| q as u8));
            Box::new(move |k| d * f64::from(q[k] as u8 as i8))
        }
        TensorType::Q4K | TensorType::Q5K => {
            bytes.extend(d_bits.to_le_bytes());
            bytes.extend(m_bits.to_le_bytes());
            bytes.extend((0..4).map(|j| (scales[j] + 64 * (scales[j + 4] / 16)) as u8));
            bytes.extend((0..4).map(|j| (minima[j] + 64 * (minima[j + 4] / 16)) as u8));
            bytes.extend((0..4).map(|j| (scales[j + 4] % 16 + 16 * (minima[j + 4] % 16)) as u8));
            if tensor_type == TensorType::Q5K {
                bytes.extend((0..32).map(|l| (0..8).map(|j| (q[32 * j + l] / 16) << j).sum::<usize>() as u8));
            }
            for c in 0..4 {
                bytes.extend((0..32).map(|l| (q[64 * c + l] % 16 + 16 * (q[64 * c + 32 + l] % 16)) as u8));
            }
            Box::new(move |k| d * scales[k / 32] as f64 * q_at(k) - m * minima[k / 32] as f64)
        }
        _ => {
            for half in 0..2 {
                let at = |run: usize, l: usize| q[128 * half + 32 * run + l] % 16;
                bytes.extend((0..64).map(|l| (at(l / 32, l % 32) + 16 * at(2 + l / 32, l % 32)) as u8));
            }
            for half in 0..2 {
                let at = |run: usize, l: usize| (q[128 * half + 32 * run + l] / 16) << (2 * run);
                bytes.extend((0..32).map(|l| (0..4).map(|run| at(run, l)).sum::<usize>() as u8));
            }
            let signed: Vec<i8> = scales.iter().map(|s| (4 * s) as u8 as i8).collect();
            bytes.extend(signed.iter().map(|&s| s as u8));
            bytes.extend(d_bits.to_le_bytes());
            Box::new(move |k| d * f64::from(signed[k / 16]) * (q_at(k) - 32.0))
        }
    };
    let values = (0..n).map(value).collect();
    (bytes, values)
}

#[test]
fn blocks_decode_to_what_was_encoded() {
    let pool = Pool::new(1).unwrap();
    let mut random = Random::new(17);
    for tensor_type in TensorType::ALL.into_iter().filter(|t| !t.is_float()) {
        for _ in 0..200 {
            let (file, exact) = encode(tensor_type, &mut random);
            assert_eq!(file.len(), tensor_type.block_bytes());
            for isa in available() {
                let weights = pack(isa, &pool, tensor_type, 1, exact.len(), &file);
                let mut decoded = vec![0.0; exact.len()];
                weights.decode_row(0, &mut decoded).unwrap();
                for (k, (given, exact)) in decoded.iter().zip(&exact).enumerate() {
                    assert_eq!(*given, *exact as f32, "{tensor_type} weight {k} {isa:?}");
                }
            }
        }
    }
}

#[test]
fn floating_types_decode_exactly() {
    let mut out = [0.0; 3];
    let singles: Vec<u8> = [1.5_f32, -0.1, 3e38].iter().flat_map(|v| v.to_le_bytes()).collect();
    naive::decode::decode_row(TensorType::F32, &singles, &mut out);
    assert_eq!(out, [1.5, -0.1, 3e38]);
    let halves: Vec<u8> = [0x3c00_u16, 0x8001, 0x7bff].iter().flat_map(|v| v.to_le_bytes()).collect();
    naive::decode::decode_row(TensorType::F16, &halves, &mut out);
    assert_eq!(out, [1.0, -5.960_464_5e-8, 65504.0]);
    let brains: Vec<u8> = [0x3f80_u16, 0xc049, 0x0001].iter().flat_map(|v| v.to_le_bytes()).collect();
    naive::decode::decode_row(TensorType::BF16, &brains, &mut out);
    assert_eq!(out, [1.0, -3.140_625, f32::from_bits(0x0001_0000)]);
}

/// A product differs from the same sum in f64, over decoded weights and activations as quantised, by no more
/// than the rounding of one f32 operation a block.
#[test]
fn products_mean_sums_of_products() {
    let pool = Pool::new(1).unwrap();
    let (weight_rows, cols, rows) = (5, 768, 3);
    let mut random = Random::new(23);
    for tensor_type in TensorType::ALL {
        let file = file_rows(tensor_type, weight_rows, cols, Fill::Random, Scales::Usual, &mut random);
        let mut x = Values::Random.make(rows * cols, &mut random);
        for isa in available() {
            let weights = pack(isa, &pool, tensor_type, weight_rows, cols, &file);
            let given = product(&pool, &weights, &x, None);
            if !tensor_type.is_float() {
                let mut q = vec![0; tensor_type.block_len()];
                for x in x.chunks_mut(q.len()) {
                    let d = naive::quantise::quantise_block(x, &mut q);
                    x.iter_mut().zip(&q).for_each(|(x, &q)| *x = d * f32::from(q));
                }
            }
            for (i, given) in given.iter().enumerate() {
                let mut row = vec![0.0; cols];
                weights.decode_row(i % weight_rows, &mut row).unwrap();
                let x = &x[i / weight_rows * cols..][..cols];
                let terms = row.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x));
                let (sum, size) = terms.fold((0.0, 0.0), |(s, a), t: f64| (s + t, a + t.abs()));
                let error = (f64::from(*given) - sum).abs();
                assert!(error <= 4e-6 * size, "{tensor_type} {isa:?}: {given} is not {sum}");
            }
        }
    }
}
