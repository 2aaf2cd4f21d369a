//! Products of few rows equal the naive kernels bit for bit, for every type and in every order of threads.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use support::{Host, Order, Random, assert_bits, random_weights};
use zlrs_cuda::{Argument, Planes};
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
    let quantise_grid = [(cols / block) as u32, rows as u32, 1];
    host.run("quantise_rows", quantise_grid, 32, 0, &quantise);
    if rows <= 8 {
        let grid = [outputs.div_ceil(outputs_of_block(tensor_type, rows)) as u32, 1, 1];
        host.run(kernel_name(name, rows), grid, 128, 0, &product);
        let what = format!("{name}, {rows} rows of {cols}, {outputs} outputs, {order:?}");
        assert_bits(&host.download_all(out, rows * outputs), &expected, &what);
    }
    let name = name.replace("gemv", "matmul");
    let grid = [outputs.div_ceil(64) as u32, rows.div_ceil(32) as u32, 1];
    host.run(Box::leak(name.clone().into_boxed_str()), grid, 128, 0, &product);
    let what = format!("{name}, {rows} rows of {cols}, {outputs} outputs, {order:?}");
    assert_bits(&host.download_all(out, rows * outputs), &expected, &what);
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

#[test]
fn many_rows_and_outputs_past_the_edges_of_a_tile() {
    for (tensor_type, name) in TYPES {
        for (rows, outputs) in [(9, 1), (31, 70), (33, 17)] {
            check(tensor_type, name, rows, 512, outputs, Order::Shuffled);
        }
    }
}
