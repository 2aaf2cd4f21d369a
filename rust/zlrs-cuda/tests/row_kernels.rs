//! What works row by row equals the naive kernels bit for bit: norms, elementwise arithmetic, rotation, storing of
//! keys and values, embeddings, products of floating-point weights; and the largest value of a row.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use support::{Host, Order, Random, assert_bits, random_weights};
use zlrs_cuda::{Address, Argument, Planes};
use zlrs_kernels::{
    Isa, KvLayout, RopeLayout, RopeParameters, RopeScaling, RopeTable, TensorType, add, gelu_multiply, naive,
    rms_norm, rope, scale, silu_multiply, softcap, store_kv,
};

fn floats(seed: u64, count: usize) -> Vec<f32> {
    let mut random = Random(seed);
    (0..count).map(|_| random.float()).collect()
}

fn int(value: usize) -> Argument {
    Argument::Int(value as i32)
}

type Gated = fn(Isa, &[f32], &[f32], &mut [f32]);

#[test]
fn norms_of_odd_widths() {
    for width in [1, 15, 16, 31, 33, 64, 257, 896] {
        let (x, weight) = (floats(width as u64, 3 * width), floats(7, width));
        let mut expected = vec![0.0; 3 * width];
        for (x, out) in x.chunks_exact(width).zip(expected.chunks_exact_mut(width)) {
            rms_norm(Isa::Naive, x, &weight, 1e-6, out);
        }
        let mut host = Host::new(Order::Shuffled);
        let (x, weight) = (host.upload_all(&x), host.upload_all(&weight));
        // In place, as the norms of heads are.
        let arguments = [x, weight, x].map(Argument::Address);
        let arguments = [&arguments[..], &[int(width), Argument::Float(1e-6)]].concat();
        host.run("rms_norm", [3, 1, 1], 32, 0, &arguments);
        assert_bits(&host.download_all(x, 3 * width), &expected, &format!("width {width}"));
    }
}

#[test]
fn elementwise_arithmetic() {
    const COUNT: usize = 777;
    let mut x = floats(1, COUNT);
    (x[0], x[1], x[2], x[3]) = (0.0, -0.0, 100.0, -100.0);
    let y = floats(2, COUNT);
    let grid = [COUNT.div_ceil(256) as u32, 1, 1];
    let mut host = Host::new(Order::Descending);
    let (device_x, device_y) = (host.upload_all(&x), host.upload_all(&y));
    let count = Argument::Size(COUNT as u64);

    let gated: [(&'static str, Gated); 2] =
        [("silu_multiply", silu_multiply), ("gelu_multiply", gelu_multiply)];
    for (name, gate) in gated {
        let mut expected = vec![0.0; COUNT];
        gate(Isa::Naive, &x, &y, &mut expected);
        let out = host.upload_all(&expected.iter().map(|_| f32::NAN).collect::<Vec<_>>());
        let [a, b, out_argument] = [device_x, device_y, out].map(Argument::Address);
        host.run(name, grid, 256, 0, &[a, b, out_argument, count]);
        assert_bits(&host.download_all(out, COUNT), &expected, name);
    }
    let mut expected = y.clone();
    add(Isa::Naive, &x, &mut expected);
    host.run("add", grid, 256, 0, &[Argument::Address(device_x), Argument::Address(device_y), count]);
    assert_bits(&host.download_all(device_y, COUNT), &expected, "add");
    softcap(Isa::Naive, 30.0, &mut expected);
    host.run("softcap", grid, 256, 0, &[Argument::Address(device_y), Argument::Float(30.0), count]);
    assert_bits(&host.download_all(device_y, COUNT), &expected, "softcap");
    scale(Isa::Naive, 0.3, &mut expected);
    host.run("scale", grid, 256, 0, &[Argument::Address(device_y), Argument::Float(0.3), count]);
    assert_bits(&host.download_all(device_y, COUNT), &expected, "scale");
}

#[test]
fn rotation_in_both_layouts_and_every_scaling() {
    const HEADS: usize = 3;
    let scalings = [
        RopeScaling::None,
        RopeScaling::Linear { factor: 4.0 },
        RopeScaling::Ntk { factor: 3.0 },
        RopeScaling::Llama3 {
            factor: 8.0,
            low_frequency_factor: 1.0,
            high_frequency_factor: 4.0,
            original_context: 128,
        },
        RopeScaling::Yarn {
            factor: 4.0,
            original_context: 64,
            beta_fast: 32.0,
            beta_slow: 1.0,
            attention_factor: 1.0,
        },
    ];
    for (scaling, (dimensions, head_dim)) in
        scalings.into_iter().zip([(64, 64), (6, 10), (32, 48), (80, 80), (128, 128)])
    {
        let parameters = RopeParameters { dimensions, base: 10_000.0, scaling, frequency_factors: None };
        let table = RopeTable::new(&parameters, 300).unwrap();
        let positions = [0_u32, 17, 299];
        let angles: Vec<f32> = (0..300)
            .flat_map(|position| {
                let (cos, sin) = table.at(position).unwrap();
                [cos, sin].concat()
            })
            .collect();
        for layout in [RopeLayout::Adjacent, RopeLayout::Halves] {
            let x = floats(9, positions.len() * HEADS * head_dim);
            let mut expected = x.clone();
            for (heads, &position) in expected.chunks_exact_mut(HEADS * head_dim).zip(&positions) {
                for head in heads.chunks_exact_mut(head_dim) {
                    rope(Isa::Naive, layout, &table, position, head);
                }
            }
            let mut host = Host::new(Order::Shuffled);
            let (device_x, angles) = (host.upload_all(&x), host.upload_all(&angles));
            let positions = host.upload_all(&positions);
            let adjacent = usize::from(layout == RopeLayout::Adjacent);
            let addresses = [device_x, angles, positions].map(Argument::Address);
            let arguments = [&addresses[..], &[int(head_dim), int(dimensions / 2), int(adjacent)]].concat();
            host.run("rope", [HEADS as u32, 3, 1], 64, 0, &arguments);
            assert_bits(
                &host.download_all(device_x, x.len()),
                &expected,
                &format!("{dimensions} {layout:?}"),
            );
        }
    }
}

#[test]
fn keys_and_values_are_stored_where_the_cpu_stores_them() {
    // Two layers; the second is written, at the first and last position of a block and in the next one.
    let (kv_heads, head_dim) = (2, 24);
    let layout = KvLayout::new(&[(1, 8), (kv_heads, head_dim)]).unwrap();
    let places = [(0_u32, 0_u32), (15, 0), (16, 1), (5, 0)];
    let sequence_blocks = [[3_u32, 1], [2, 0]];
    let width = kv_heads * head_dim;
    let mut key = floats(3, places.len() * width);
    (key[0], key[1], key[2]) = (1e30, -1e-30, 6e-8);
    let value = floats(4, places.len() * width);
    let mut expected = vec![0_u16; 4 * layout.block_len];
    for (row, &(position, _)) in places.iter().enumerate() {
        let block = sequence_blocks[usize::from(row == 3)][position as usize / 16];
        let (key, value) = (&key[row * width..][..width], &value[row * width..][..width]);
        let slot = position as usize % 16;
        store_kv(Isa::Naive, &mut expected, &layout, 1, block, slot, key, value).unwrap();
    }
    let mut host = Host::new(Order::Ascending);
    let arena = host.upload_all(&vec![0_u16; expected.len()]);
    let addresses = [host.upload_all(&key), host.upload_all(&value), arena].map(Argument::Address);
    let tables = [
        host.upload_all(&places.map(|(position, _)| position)),
        host.upload_all(&[0_u32, 0, 0, 2]),
        host.upload_all(&sequence_blocks.concat()),
    ]
    .map(Argument::Address);
    let place = layout.layers[1];
    let sizes =
        [layout.block_len, place.key_offset, place.value_offset].map(|size| Argument::Size(size as u64));
    let arguments = [&addresses[..], &sizes[..], &tables[..], &[int(head_dim)]].concat();
    host.run("store_kv", [kv_heads as u32, places.len() as u32, 1], 64, 0, &arguments);
    assert_eq!(host.download_all::<u16>(arena, expected.len()), expected);

    // Block 3 becomes block 0.
    expected.copy_within(3 * layout.block_len.., 0);
    let (from, to) = (host.upload_all(&[3_u32]), host.upload_all(&[0_u32]));
    let arguments = [Argument::Address(arena), sizes[0], Argument::Address(from), Argument::Address(to)];
    host.run("copy_blocks", [2, 1, 1], 256, 0, &arguments);
    assert_eq!(host.download_all::<u16>(arena, expected.len()), expected);
}

/// The parameters by which kernels know weights: planes, or the bytes of a file.
fn weight_addresses(host: &mut Host, tensor_type: TensorType, bytes: &[u8]) -> Vec<Address> {
    if tensor_type.is_float() {
        return vec![host.upload_all(bytes)];
    }
    let planes = Planes::of_rows(tensor_type, bytes).unwrap();
    let planes = [&planes.quants, &planes.high, &planes.subs, &planes.scale, &planes.minimum];
    planes.into_iter().map(|plane| host.upload_all(plane)).collect()
}

#[test]
fn embeddings_of_every_type() {
    let names = [
        "embed_f32",
        "embed_f16",
        "embed_bf16",
        "embed_q4_0",
        "embed_q4_1",
        "embed_q5_0",
        "embed_q5_k",
        "embed_q8_0",
        "embed_q4_k",
        "embed_q6_k",
    ];
    let (rows, width) = (5, 512);
    let ids = [4_u32, 0, 4, 1];
    for (tensor_type, name) in TensorType::ALL.into_iter().zip(names) {
        for factor in [1.0, 22.6] {
            let bytes = random_weights(&mut Random(11), tensor_type, rows, width);
            let row_bytes = tensor_type.row_bytes(width).unwrap();
            let mut expected = vec![0.0; ids.len() * width];
            for (&id, out) in ids.iter().zip(expected.chunks_exact_mut(width)) {
                naive::decode::decode_row(tensor_type, &bytes[id as usize * row_bytes..][..row_bytes], out);
                if factor != 1.0 {
                    scale(Isa::Naive, factor, out);
                }
            }
            let mut host = Host::new(Order::Shuffled);
            let mut arguments = weight_addresses(&mut host, tensor_type, &bytes);
            let out = host.upload_all(&vec![f32::NAN; expected.len()]);
            arguments.extend([host.upload_all(&ids), out]);
            let mut arguments: Vec<_> = arguments.into_iter().map(Argument::Address).collect();
            arguments.extend([int(width), Argument::Float(factor)]);
            let threads = if tensor_type.is_float() { 256 } else { 32 };
            host.run(name, [3, ids.len() as u32, 1], threads, 0, &arguments);
            assert_bits(&host.download_all(out, expected.len()), &expected, &format!("{name} {factor}"));
        }
    }
}

#[test]
fn products_of_floating_point_weights() {
    let types = [
        (TensorType::F32, "product_f32"),
        (TensorType::F16, "product_f16"),
        (TensorType::BF16, "product_bf16"),
    ];
    for (tensor_type, name) in types {
        for (rows, width, outputs) in [(1, 7, 1), (3, 64, 17), (6, 131, 33)] {
            let bytes = random_weights(&mut Random(5), tensor_type, outputs, width);
            let (x, bias) = (floats(6, rows * width), floats(7, outputs));
            let mut expected = vec![0.0; rows * outputs];
            naive::matmul::matmul(tensor_type, &bytes, width, &x, Some(&bias), &mut expected);
            let mut host = Host::new(Order::Shuffled);
            let out = host.upload_all(&vec![f32::NAN; expected.len()]);
            let addresses = [host.upload_all(&bytes), host.upload_all(&x), host.upload_all(&bias), out];
            let addresses = addresses.map(Argument::Address);
            let arguments = [&addresses[..], &[int(width), int(outputs), int(rows)]].concat();
            let grid = [outputs.div_ceil(16) as u32, rows.div_ceil(4) as u32, 1];
            host.run(name, grid, 128, 0, &arguments);
            assert_bits(
                &host.download_all(out, expected.len()),
                &expected,
                &format!("{name} {rows} {width}"),
            );
        }
    }
}

#[test]
fn the_largest_value_and_picked_rows() {
    let width = 1003;
    let mut x = floats(8, 4 * width);
    (x[700], x[42]) = (5.0, 5.0);
    (x[width + 1002], x[width + 3]) = (6.0, f32::NAN);
    x[2 * width..3 * width].fill(-0.0);
    x[2 * width + 9] = 0.0;
    x[3 * width..].fill(f32::NEG_INFINITY);
    let mut host = Host::new(Order::Descending);
    let (device_x, ids) = (host.upload_all(&x), host.upload_all(&[0_u32; 4]));
    let arguments = [Argument::Address(device_x), Argument::Address(ids), int(width)];
    host.run("argmax_rows", [4, 1, 1], 256, 0, &arguments);
    assert_eq!(host.download_all::<u32>(ids, 4), [42, 1002, 0, 0]);

    let out = host.upload_all(&vec![f32::NAN; 2 * width]);
    let index = host.upload_all(&[2_u32, 0]);
    let arguments = [device_x, index, out].map(Argument::Address);
    let arguments = [&arguments[..], &[int(width)]].concat();
    host.run("gather_rows", [2, 2, 1], 256, 0, &arguments);
    let expected = [&x[2 * width..3 * width], &x[..width]].concat();
    assert_bits(&host.download_all(out, 2 * width), &expected, "gather_rows");
}
