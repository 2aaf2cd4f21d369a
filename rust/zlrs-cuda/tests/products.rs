//! Products of few rows equal the naive kernels bit for bit, for every type and in every order of threads.
#![expect(unsafe_code, reason = "launches kernels")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use support::{Host, Order};
use zlrs_cuda::{Argument, Device, Launch, Planes};
use zlrs_kernels::{TensorType, naive};

const TYPES: [(TensorType, &str); 7] = [
    (TensorType::Q4_0, "gemv_q4_0"),
    (TensorType::Q4_1, "gemv_q4_1"),
    (TensorType::Q5_0, "gemv_q5_0"),
    (TensorType::Q8_0, "gemv_q8_0"),
    (TensorType::Q4K, "gemv_q4_k"),
    (TensorType::Q5K, "gemv_q5_k"),
    (TensorType::Q6K, "gemv_q6_k"),
];

/// A small generator: tests need spread, not quality.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn float(&mut self) -> f32 {
        (self.next() as f32 / (1_u64 << 31) as f32 - 0.5) * 4.0
    }
}

/// Random blocks whose f16 fields are ordinary numbers.
fn random_weights(random: &mut Random, tensor_type: TensorType, rows: usize, cols: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        (0..rows * tensor_type.row_bytes(cols).unwrap()).map(|_| random.next() as u8).collect();
    let fields: &[usize] = match tensor_type {
        TensorType::Q6K => &[208],
        TensorType::Q4_1 | TensorType::Q4K | TensorType::Q5K => &[0, 2],
        _ => &[0],
    };
    for block in bytes.chunks_exact_mut(tensor_type.block_bytes()) {
        for &field in fields {
            // Between 2^-8 and 2^-4, either sign.
            block[field + 1] = (block[field + 1] & 0x8f) | 0x20 | (block[field + 1] & 0x0c);
        }
    }
    bytes
}

fn kernel_name(name: &str, rows: usize) -> &'static str {
    let columns = [1, 2, 4, 8].into_iter().find(|&columns| columns >= rows).unwrap();
    Box::leak(format!("{name}_{columns}").into_boxed_str())
}

/// Weight rows of a thread block; the kernel's `gemv_outputs`.
fn outputs_of_block(tensor_type: TensorType, rows: usize) -> usize {
    let chains = if tensor_type == TensorType::Q4_1 { 8 } else { 16 };
    (chains / rows.next_power_of_two()).min(4)
}

fn check(tensor_type: TensorType, name: &str, rows: usize, cols: usize, outputs: usize, order: Order) {
    let mut random = Random(cols as u64 * 31 + rows as u64);
    let weights = random_weights(&mut random, tensor_type, outputs, cols);
    let x: Vec<f32> = (0..rows * cols).map(|_| random.float()).collect();
    let bias: Vec<f32> = (0..outputs).map(|_| random.float()).collect();
    let mut expected = vec![0.0; rows * outputs];
    naive::matmul::matmul(tensor_type, &weights, cols, &x, Some(&bias), &mut expected);

    let mut host = Host::new(order);
    let planes = Planes::of_rows(tensor_type, &weights).unwrap();
    assert!(planes.bytes() * 100 <= weights.len() * 106, "more than 6 % larger");
    let block = tensor_type.block_len();
    let x = host.upload_all(&x);
    let quants = host.upload_all(&vec![0_i8; rows * cols]);
    let scales = host.upload_all(&vec![0.0_f32; rows * cols / block]);
    let sums = host.upload_all(&vec![0_i32; rows * cols / 16]);
    let quantise = [
        Argument::Address(x),
        Argument::Address(quants),
        Argument::Address(scales),
        Argument::Address(sums),
        Argument::Int(cols as i32),
        Argument::Int(block as i32),
    ];
    let out = host.upload_all(&vec![f32::NAN; rows * outputs]);
    let mut product: Vec<Argument> =
        [&planes.quants, &planes.high, &planes.subs, &planes.scale, &planes.minimum]
            .into_iter()
            .map(|plane| Argument::Address(host.upload_all(plane)))
            .collect();
    product.extend([quants, scales, sums, host.upload_all(&bias), out].map(Argument::Address));
    product.extend([cols, outputs, rows].map(|size| Argument::Int(size as i32)));
    // SAFETY: parameters and memory as the kernels' headers say.
    unsafe {
        host.launch(&Launch {
            kernel: "quantise_rows",
            grid: [(cols / block) as u32, rows as u32, 1],
            block: [32, 1, 1],
            shared_bytes: 0,
            arguments: &quantise,
        })
        .unwrap();
        host.launch(&Launch {
            kernel: kernel_name(name, rows),
            grid: [outputs.div_ceil(outputs_of_block(tensor_type, rows)) as u32, 1, 1],
            block: [128, 1, 1],
            shared_bytes: 0,
            arguments: &product,
        })
        .unwrap();
    }
    let found: Vec<f32> = host.download_all(out, rows * outputs);
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&found), bits(&expected), "{name}, {rows} rows of {cols}, {outputs} outputs, {order:?}");
}

#[test]
fn every_type_and_number_of_rows() {
    for (tensor_type, name) in TYPES {
        for rows in 1..=8 {
            check(tensor_type, name, rows, 256, 5, Order::Ascending);
        }
    }
}

#[test]
fn widths_at_the_edges_of_a_pass() {
    for (tensor_type, name) in TYPES {
        let block = tensor_type.block_len();
        for cols in [block, 4096 - block, 4096, 4096 + block, 8192 + block] {
            check(tensor_type, name, 1, cols, 3, Order::Ascending);
            check(tensor_type, name, 3, cols, 3, Order::Shuffled);
        }
    }
}

#[test]
fn the_order_of_threads_changes_nothing() {
    for (tensor_type, name) in TYPES {
        for order in [Order::Descending, Order::Shuffled] {
            check(tensor_type, name, 4, 4864, 6, order);
        }
    }
}
