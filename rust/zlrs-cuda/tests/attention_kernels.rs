//! Attention equals the naive kernels bit for bit: at the edges of pages, tiles and splits, with windows, groups
//! and several sequences, whether rows share a block or splits have blocks of their own.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use support::{Host, Order, Random, assert_bits};
use zlrs_cuda::{Address, Argument};
use zlrs_kernels::naive::kv::to_half;
use zlrs_kernels::{AttentionRow, Isa, KvLayout, Pool, Scratch, attention};

struct Case {
    kv_heads: usize,
    group: usize,
    head_dim: usize,
    window: Option<u32>,
    /// First position and rows, for each sequence.
    sequences: Vec<(u32, usize)>,
}

/// A layer's keys and values in pages whose numbers are out of order, what lies past the sequences' ends NaN.
struct Pages {
    layout: KvLayout,
    arena: Vec<u16>,
    tables: Vec<Vec<u32>>,
}

impl Pages {
    fn new(case: &Case, random: &mut Random) -> Self {
        let layout = KvLayout::new(&[(1, 2), (case.kv_heads, case.head_dim)]).unwrap();
        let ends = case.sequences.iter().map(|&(first, rows)| first as usize + rows);
        let blocks: Vec<usize> = ends.clone().map(|end| end.div_ceil(16)).collect();
        let total: usize = blocks.iter().sum();
        let mut arena = vec![0x7e00_u16; total * layout.block_len];
        let (mut tables, mut next) = (Vec::new(), total);
        for (end, blocks) in ends.zip(blocks) {
            next -= blocks;
            let table: Vec<u32> =
                (0..blocks).map(|block| (next + block * 7 % blocks.max(1)) as u32).collect();
            let table =
                if blocks % 7 == 0 { (next..next + blocks).map(|b| b as u32).collect() } else { table };
            let place = layout.layers[1];
            for position in 0..end {
                let block = table[position / 16] as usize * layout.block_len;
                for head in 0..case.kv_heads {
                    for d in 0..case.head_dim {
                        let key = (head * case.head_dim + d) * 16 + position % 16;
                        let value = (head * 16 + position % 16) * case.head_dim + d;
                        arena[block + place.key_offset + key] = to_half(random.float());
                        arena[block + place.value_offset + value] = to_half(random.float());
                    }
                }
            }
            tables.push(table);
        }
        Self { layout, arena, tables }
    }
}

fn check(case: &Case, order: Order) {
    let mut random = Random(77);
    let pages = Pages::new(case, &mut random);
    let heads = case.kv_heads * case.group;
    let mut rows = Vec::new();
    let mut sequence_of = Vec::new();
    for (sequence, (&(first, count), blocks)) in case.sequences.iter().zip(&pages.tables).enumerate() {
        for position in first..first + count as u32 {
            rows.push(AttentionRow { blocks, position, window: case.window });
            sequence_of.push(sequence);
        }
    }
    let query: Vec<f32> = (0..rows.len() * heads * case.head_dim).map(|_| random.float()).collect();
    let mut expected = vec![0.0; query.len()];
    let scale = 1.0 / (case.head_dim as f32).sqrt();
    let pool = Pool::new(1).unwrap();
    let (arena, layout) = (&pages.arena[..], &pages.layout);
    let scratch = &mut Scratch::new();
    attention(&pool, Isa::Naive, arena, layout, 1, heads, scale, &rows, &query, &mut expected, scratch)
        .unwrap();

    let mut host = Host::new(order);
    let starts: Vec<u32> = pages
        .tables
        .iter()
        .scan(0, |start, table| Some(std::mem::replace(start, *start + table.len() as u32)))
        .collect();
    let positions: Vec<u32> = rows.iter().map(|row| row.position).collect();
    let tables: Vec<u32> = sequence_of.iter().map(|&sequence| starts[sequence]).collect();
    let block_table = pages.tables.concat();
    let out = host.upload_all(&vec![f32::NAN; query.len()]);
    let place = layout.layers[1];
    let sizes = [layout.block_len, place.key_offset, place.value_offset];
    let query = host.upload_all(&query);
    let arena = host.upload_all(arena);
    let positions_memory = host.upload_all(&positions);
    let tables = host.upload_all(&tables);
    let block_table = host.upload_all(&block_table);
    let run = |host: &mut Host, parts: &[[i32; 4]], queries: usize, partials, splits: usize| {
        let parts_memory = host.upload_all(parts);
        let mut arguments = [query, out, arena].map(Argument::Address).to_vec();
        arguments.extend(sizes.map(|size| Argument::Size(size as u64)));
        let addresses = [parts_memory, positions_memory, tables, block_table, Address::default(), partials];
        arguments.extend(addresses.map(Argument::Address));
        let window = case.window.unwrap_or(0) as usize;
        arguments.extend([case.head_dim, case.group, window, queries].map(|size| Argument::Int(size as i32)));
        arguments.push(Argument::Float(scale));
        let shared = zlrs_cuda::attention_shared_bytes(queries, case.head_dim);
        let grid = [splits as u32, case.kv_heads as u32, parts.len() as u32];
        host.run("attention", grid, 128, shared as u32, &arguments);
    };

    // Rows of a sequence together, three at a time, and the group in two pieces where it has so many heads.
    let mut parts = Vec::new();
    let head_pieces =
        if case.group > 2 { vec![(0, case.group - 1), (case.group - 1, 1)] } else { vec![(0, case.group)] };
    let mut first = 0;
    for &(_, count) in &case.sequences {
        for row in (0..count).step_by(3) {
            for &(head, heads) in &head_pieces {
                parts.push([(first + row) as i32, (count - row).min(3) as i32, head as i32, heads as i32]);
            }
        }
        first += count;
    }
    let queries = 3 * case.group;
    run(&mut host, &parts, queries, Address::default(), 1);
    let what = format!("{} heads of {}, {:?}, {order:?}", heads, case.head_dim, case.sequences);
    assert_bits(&host.download_all(out, expected.len()), &expected, &format!("together: {what}"));

    // Each row alone, splits apart.
    let splits = positions.iter().map(|&position| position as usize / 512 + 1).max().unwrap();
    let partials = host.upload_all(&vec![f32::NAN; rows.len() * heads * splits * (case.head_dim + 2)]);
    let parts: Vec<[i32; 4]> = (0..rows.len()).map(|row| [row as i32, 1, 0, case.group as i32]).collect();
    run(&mut host, &parts, case.group, partials, splits);
    let window = case.window.unwrap_or(0) as usize;
    let merge = [
        Argument::Address(partials),
        Argument::Address(positions_memory),
        Argument::Address(out),
        Argument::Int(case.head_dim as i32),
        Argument::Int(window as i32),
        Argument::Int(splits as i32),
    ];
    host.run("attention_merge", [heads as u32, rows.len() as u32, 1], 128, 0, &merge);
    assert_bits(&host.download_all(out, expected.len()), &expected, &format!("apart: {what}"));
}

#[test]
fn edges_of_pages_tiles_and_splits() {
    for first in [0, 13, 62, 510, 1023] {
        let case = Case { kv_heads: 2, group: 3, head_dim: 32, window: None, sequences: vec![(first, 5)] };
        check(&case, Order::Shuffled);
    }
}

#[test]
fn windows_that_begin_in_another_split() {
    for window in [1, 5, 64, 600] {
        let sequences = vec![(0, 3), (511, 4), (1090, 2)];
        check(
            &Case { kv_heads: 1, group: 2, head_dim: 16, window: Some(window), sequences },
            Order::Shuffled,
        );
    }
}

#[test]
fn groups_and_head_sizes() {
    for (group, head_dim) in [(1, 2), (1, 64), (7, 64), (4, 128), (9, 80), (4, 256)] {
        let case = Case { kv_heads: 1, group, head_dim, window: None, sequences: vec![(70, 4), (3, 1)] };
        for order in [Order::Ascending, Order::Descending, Order::Shuffled] {
            check(&case, order);
        }
    }
}
