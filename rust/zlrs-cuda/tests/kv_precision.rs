//! Keys and values in 8 and 4 bits: sealed bytes, and attention over blocks of several forms in one sequence, equal
//! the naive references bit for bit, whether rows share a block or splits have blocks of their own.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use support::sealed::{Case, Form, Memory, Numbers, forms};
use support::{Host, Order, Random, assert_bits};
use zlrs_cuda::{Address, Argument};
use zlrs_kernels::naive::attend::{Sources, attend};
use zlrs_kernels::naive::kv::{from_half, to_half};
use zlrs_kernels::naive::sealed::{CodeBits, open_keys, open_values, seal_keys, seal_values, sealed_bytes};
use zlrs_kernels::{AttentionRow, Isa, KvLayout, Pool, Scratch, attention};

fn alibi_slopes(heads: usize) -> Vec<f32> {
    (0..heads).map(|head| 2_f32.powf(-8.0 * (head + 1) as f32 / heads as f32)).collect()
}

fn check(case: &Case, order: Order) {
    let mut random = Random(31);
    let memory = Memory::new(case, &mut random);
    let forms = forms(case, &mut random);
    let (heads, dim, scale) = (case.kv_heads * case.group, case.head_dim, 0.21);
    let slopes = alibi_slopes(heads);
    let numbers = Numbers::new(&memory, &forms);
    let rows: Vec<(usize, usize)> = case
        .sequences
        .iter()
        .enumerate()
        .flat_map(|(sequence, &(first, rows))| (0..rows).map(move |row| (sequence, first as usize + row)))
        .collect();
    let query: Vec<f32> = (0..rows.len() * heads * dim).map(|_| random.float()).collect();
    let mut expected = vec![0.0; query.len()];
    for (index, (query, out)) in query.chunks_exact(dim).zip(expected.chunks_exact_mut(dim)).enumerate() {
        let ((sequence, own), head) = (rows[index / heads], index % heads);
        let (start, kv_head) = (memory.starts[sequence], head / case.group);
        let begin = case.window.map_or(0, |window| (own + 1).saturating_sub(window as usize));
        let sources = Sources {
            key: &|position, d| numbers.at(start, kv_head, own, position, d, 0),
            value: &|position, d| numbers.at(start, kv_head, own, position, d, 1),
        };
        attend(query, scale, case.alibi.then(|| slopes[head]), begin..own + 1, &sources, out);
    }

    let mut host = Host::new(order);
    let device = Uploaded::new(&mut host, case, &memory, &forms);
    let positions: Vec<i32> = rows.iter().map(|row| row.1 as i32).collect();
    let tables: Vec<i32> = rows.iter().map(|row| memory.starts[row.0] as i32).collect();
    let out = host.upload_all(&vec![f32::NAN; query.len()]);
    let query = host.upload_all(&query);
    let [positions_memory, tables, table] =
        [&positions, &tables, &memory.table.iter().map(|&block| block as i32).collect()]
            .map(|list| host.upload_all(list));
    let slopes = if case.alibi { host.upload_all(&slopes) } else { Address::default() };
    let run = |host: &mut Host, parts: &[[i32; 4]], queries: usize, partials, splits: usize| {
        let parts_memory = host.upload_all(parts);
        let mut arguments = [query, out, device.arena].map(Argument::Address).to_vec();
        arguments.extend(device.sizes);
        arguments
            .extend([parts_memory, positions_memory, tables, table, slopes, partials].map(Argument::Address));
        let window = case.window.unwrap_or(0) as usize;
        arguments.extend([dim, case.group, window, queries].map(|size| Argument::Int(size as i32)));
        arguments.push(Argument::Float(scale));
        let mut kernel = "attention";
        if case.sealed {
            kernel = "attention_mixed";
            arguments.extend([device.forms, device.copies].map(Argument::Address));
        }
        let shared = zlrs_cuda::attention_shared_bytes(queries, dim) as u32;
        let grid = [splits as u32, case.kv_heads as u32, parts.len() as u32];
        host.run(kernel, grid, 128, shared, &arguments);
    };
    let mut parts = Vec::new();
    let mut first = 0;
    for &(_, count) in &case.sequences {
        for row in (0..count).step_by(5) {
            parts.push([first + row as i32, (count - row).min(5) as i32, 0, case.group as i32]);
        }
        first += count as i32;
    }
    run(&mut host, &parts, 5 * case.group, Address::default(), 1);
    assert_bits(
        &host.download_all(out, expected.len()),
        &expected,
        &format!("together: {case:?}, {order:?}"),
    );

    let splits = positions.iter().map(|&position| position as usize / 512 + 1).max().unwrap();
    let partials = host.upload_all(&vec![f32::NAN; rows.len() * heads * splits * (dim + 2)]);
    let parts: Vec<[i32; 4]> = (0..rows.len()).map(|row| [row as i32, 1, 0, case.group as i32]).collect();
    run(&mut host, &parts, case.group, partials, splits);
    let mut merge = [partials, positions_memory, out].map(Argument::Address).to_vec();
    let window = case.window.unwrap_or(0) as usize;
    merge.extend([dim, window, splits].map(|size| Argument::Int(size as i32)));
    host.run("attention_merge", [heads as u32, rows.len() as u32, 1], 128, 0, &merge);
    assert_bits(&host.download_all(out, expected.len()), &expected, &format!("apart: {case:?}, {order:?}"));
}

/// The arena with its blocks sealed by the kernel, whose bytes are checked on the way.
struct Uploaded {
    arena: Address,
    sizes: [Argument; 3],
    copies: Address,
    forms: Address,
}

impl Uploaded {
    fn new(host: &mut Host, case: &Case, memory: &Memory, forms: &[Form]) -> Self {
        let layer = memory.layer();
        let sizes = [memory.layout.block_len, layer.key_offset, layer.value_offset]
            .map(|size| Argument::Size(size as u64));
        let mut count = 0;
        let words: Vec<i32> = forms.iter().map(|form| form.word(&mut count)).collect();
        let arena = host.upload_all(&memory.arena);
        let half = case.kv_heads * case.head_dim * 16;
        let copies = host.upload_all(&vec![0xffff_u16; (count as usize).max(1) * 2 * half]);
        let sealed: Vec<usize> = (0..forms.len()).filter(|&index| forms[index] != Form::Half).collect();
        if !sealed.is_empty() {
            let blocks =
                host.upload_all(&sealed.iter().map(|&index| memory.table[index]).collect::<Vec<_>>());
            let forms = host.upload_all(&sealed.iter().map(|&index| words[index]).collect::<Vec<_>>());
            let mut arguments = vec![Argument::Address(arena)];
            arguments.extend(sizes);
            arguments.extend([copies, blocks, forms].map(Argument::Address));
            arguments.push(Argument::Int(case.head_dim as i32));
            let grid = [case.kv_heads as u32, sealed.len() as u32, 1];
            host.run("seal_blocks", grid, 128, 64 * case.head_dim as u32, &arguments);
        }
        let arena_after: Vec<u16> = host.download_all(arena, memory.arena.len());
        let copies_after: Vec<u16> = host.download_all(copies, (count as usize).max(1) * 2 * half);
        for (index, form) in forms.iter().enumerate() {
            for head in 0..case.kv_heads {
                let (keys, values) = (
                    memory.head(index, head, layer.key_offset),
                    memory.head(index, head, layer.value_offset),
                );
                let (found_keys, found_values) = match form {
                    Form::Copied(_) => {
                        let start = ((words[index] >> 2) - 1) as usize * 2 * half + head * case.head_dim * 16;
                        (&copies_after[start..], &copies_after[start + half..])
                    }
                    _ => (&arena_after[keys.start..], &arena_after[values.start..]),
                };
                if !matches!(form, Form::Sealed(_)) {
                    assert!(
                        arena_after[keys.clone()] == memory.arena[keys.clone()],
                        "keys of block {index} changed"
                    );
                    assert!(
                        arena_after[values.clone()] == memory.arena[values.clone()],
                        "values of block {index} changed"
                    );
                }
                let Some(bits) = form.bits() else { continue };
                let (key_bytes, value_bytes) = sealed_bytes(bits, case.head_dim);
                let mut region = vec![0; 32 * case.head_dim];
                seal_keys(bits, &memory.arena[keys], &mut region);
                assert!(
                    bytes_of(found_keys)[..key_bytes] == region[..key_bytes],
                    "keys of block {index}, {form:?}"
                );
                seal_values(bits, &memory.arena[values], &mut region);
                assert!(
                    bytes_of(found_values)[..value_bytes] == region[..value_bytes],
                    "values of block {index}, {form:?}"
                );
            }
        }
        Self { arena, sizes, copies, forms: host.upload_all(&words) }
    }
}

fn bytes_of(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn every_form_at_the_edges_of_pages_tiles_and_splits() {
    for (first, rows) in [(0, 1), (15, 2), (0, 37), (62, 5), (505, 20)] {
        let case = Case {
            kv_heads: 2,
            group: 3,
            head_dim: 32,
            window: None,
            sequences: vec![(first, rows), (31, 3)],
            alibi: false,
            sealed: true,
        };
        check(&case, Order::Shuffled);
    }
}

#[test]
fn windows_groups_head_sizes_and_a_bias_by_distance() {
    for (group, head_dim, window, alibi, sealed) in [
        (1, 8, Some(20), true, true),
        (7, 64, None, true, true),
        (3, 32, Some(40), true, false),
        (2, 80, Some(33), false, true),
        (4, 128, None, false, true),
        (1, 256, None, false, true),
    ] {
        let sequences = vec![(45, 20), (0, 18)];
        let case = Case { kv_heads: 1, group, head_dim, window, sequences, alibi, sealed };
        for order in [Order::Ascending, Order::Descending, Order::Shuffled] {
            check(&case, order);
        }
    }
}

#[test]
fn the_reference_of_this_file_is_the_engine_s_where_all_is_f16() {
    let mut random = Random(5);
    let case = Case {
        kv_heads: 1,
        group: 2,
        head_dim: 24,
        window: Some(700),
        sequences: vec![(1030, 3)],
        alibi: false,
        sealed: false,
    };
    let memory = Memory::new(&case, &mut random);
    let query: Vec<f32> = (0..3 * 2 * 24).map(|_| random.float()).collect();
    let rows: Vec<AttentionRow<'_>> = (1030..1033)
        .map(|position| AttentionRow { blocks: &memory.table, position, window: case.window })
        .collect();
    let (mut expected, mut found) = (vec![0.0; query.len()], vec![0.0; query.len()]);
    let (pool, scratch) = (Pool::new(1).unwrap(), &mut Scratch::new());
    attention(
        &pool,
        Isa::Naive,
        &memory.arena,
        &memory.layout,
        1,
        2,
        0.2,
        &rows,
        &query,
        &mut expected,
        scratch,
    )
    .unwrap();
    let numbers = Numbers::new(&memory, &vec![Form::Half; memory.table.len()]);
    for (index, (query, out)) in query.chunks_exact(24).zip(found.chunks_exact_mut(24)).enumerate() {
        let own = 1030 + index / 2;
        let sources = Sources {
            key: &|position, d| numbers.at(0, 0, own, position, d, 0),
            value: &|position, d| numbers.at(0, 0, own, position, d, 1),
        };
        attend(query, 0.2, None, own + 1 - 700..own + 1, &sources, out);
    }
    assert_bits(&found, &expected, "f16");
}

#[test]
fn opened_blocks_are_the_references_and_numbers_that_are_none_stay_none() {
    for bits in [CodeBits::Four, CodeBits::Eight] {
        let dim = 40;
        let mut random = Random(9);
        let layout = KvLayout::new(&[(2, dim)]).unwrap();
        let mut arena: Vec<u16> = (0..layout.block_len).map(|_| to_half(random.float())).collect();
        // Numbers alike, tiny ones, both zeros, the largest, none.
        arena[..16].fill(to_half(-3.0));
        arena[16..32].iter_mut().enumerate().for_each(|(index, number)| *number = index as u16);
        arena[32..48].iter_mut().enumerate().for_each(|(index, number)| *number = (index as u16 % 2) << 15);
        arena[48] = 0x7bff;
        arena[49] = 0xfbff;
        arena[64] = 0x7c00;
        arena[80] = 0x7e00;
        let mut host = Host::new(Order::Shuffled);
        let memory = host.upload_all(&arena);
        let blocks = host.upload_all(&[0_i32]);
        let forms = host.upload_all(&[if bits == CodeBits::Eight { 1_i32 } else { 2 }]);
        let layer = layout.layers[0];
        let sizes =
            [layout.block_len, layer.key_offset, layer.value_offset].map(|size| Argument::Size(size as u64));
        let [arena_argument, copies, blocks, forms] =
            [memory, Address::default(), blocks, forms].map(Argument::Address);
        let head_dim = Argument::Int(dim as i32);
        let [block_len, keys, values] = sizes;
        host.run(
            "seal_blocks",
            [2, 1, 1],
            128,
            64 * dim as u32,
            &[arena_argument, block_len, keys, values, copies, blocks, forms, head_dim],
        );
        host.run(
            "open_blocks",
            [2, 1, 1],
            128,
            64 * dim as u32,
            &[arena_argument, block_len, keys, values, blocks, forms, head_dim],
        );
        let found: Vec<u16> = host.download_all(memory, arena.len());
        for head in 0..2 {
            for (offset, is_key) in [(layer.key_offset, true), (layer.value_offset, false)] {
                let place = offset + head * 16 * dim..offset + (head + 1) * 16 * dim;
                let (mut region, mut opened) = (vec![0; 32 * dim], vec![0; 16 * dim]);
                if is_key {
                    seal_keys(bits, &arena[place.clone()], &mut region);
                    open_keys(bits, &region, &mut opened);
                } else {
                    seal_values(bits, &arena[place.clone()], &mut region);
                    open_values(bits, &region, &mut opened);
                }
                assert!(found[place] == opened, "{bits:?}, head {head}, keys: {is_key}");
            }
        }
        assert!(found[..16].iter().all(|&number| number == to_half(-3.0)), "numbers alike");
        assert!(found[64..96].iter().all(|&number| from_half(number).is_nan()), "none");
    }
}
