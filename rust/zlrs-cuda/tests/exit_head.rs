//! The exit head of all rows in one launch gives the bits of the engine's own, row by row.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use support::{Host, Order, Random, assert_bits};
use zlrs_cuda::Argument;
use zlrs_engine::exit::{FEATURES, HEAD_WEIGHTS, Head, UNITS};

#[test]
fn all_rows_in_one_launch() {
    let mut random = Random(21);
    for (rows, order) in
        [(1, Order::Ascending), (4, Order::Descending), (5, Order::Shuffled), (256, Order::Shuffled)]
    {
        let weights: Vec<f32> = (0..HEAD_WEIGHTS).map(|_| random.float()).collect();
        let head = Head::from_weights(&weights).unwrap();
        let mut x: Vec<f32> = (0..rows * FEATURES).map(|_| random.float() * 10.0).collect();
        // Outliers are bounded, and what is no number makes no row but its own none.
        (x[0], x[1]) = (1e30, -1e30);
        if rows > 4 {
            x[2 * FEATURES] = f32::NAN;
            x[3 * FEATURES + 1] = f32::INFINITY;
        }
        let expected: Vec<f32> =
            x.chunks_exact(FEATURES).map(|row| head.predict(&row.try_into().unwrap())).collect();
        let mut host = Host::new(order);
        let out = host.upload_all(&vec![f32::NAN; rows]);
        let (x, weights) = (host.upload_all(&x), host.upload_all(&weights));
        let mut arguments = [x, weights, out].map(Argument::Address).to_vec();
        arguments.extend([FEATURES, UNITS, rows].map(|size| Argument::Int(size as i32)));
        host.run("exit_head", [rows.div_ceil(4) as u32, 1, 1], 128, 0, &arguments);
        assert_bits(&host.download_all(out, rows), &expected, &format!("{rows} rows"));
    }
}
