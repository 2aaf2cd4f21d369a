//! Attention: right (against softmax in f64), the same bits however it is cut up, and closed to memory that a
//! row does not see.

mod sequence;

use proptest::prelude::*;
use sequence::Sequence;
use zlrs_kernels::naive::kv::{from_half, to_half};
use zlrs_kernels::{AttentionRow, Isa, KernelError, KvLayout, Pool, Scratch, attention};

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
}

fn available() -> Vec<Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect()
}

const BORDERS: [usize; 16] = [0, 1, 14, 15, 16, 17, 62, 63, 64, 65, 511, 512, 513, 575, 1024, 1099];

#[test]
fn equals_softmax_in_f64_within_the_stated_bound() {
    // Values are below 3.4 in magnitude. The bound is for weighted means of them.
    let pool = Pool::new(2).unwrap();
    let mut worst: f64 = 0.0;
    let shapes = [
        (1, 1, 64),
        (3, 3, 64),
        (2, 7, 64),
        (1, 2, 80),
        (1, 5, 96),
        (2, 4, 128),
        (1, 1, 256),
        (1, 3, 8),
        (2, 1, 24),
        (1, 2, 88),
        (1, 2, 20),
        (1, 1, 7),
    ];
    for (kv_heads, group, head_dim) in shapes {
        for window in [None, Some(1), Some(70), Some(600)] {
            let mut sequence = Sequence::new(kv_heads, group, head_dim, 1100);
            sequence.window = window;
            let (mut arena, blocks) = sequence.arena(|block| block);
            let isa = Isa::detect();
            sequence.store(isa, &mut arena, &blocks, 0..sequence.len);
            let mut scratch = Scratch::new();
            let out = sequence.attend(&pool, isa, &arena, &blocks, &BORDERS, &mut scratch);
            for (out, position) in out.chunks(sequence.q_width()).zip(BORDERS) {
                for (out, truth) in out.iter().zip(sequence.truth(position)) {
                    worst = worst.max((f64::from(*out) - truth).abs());
                }
            }
        }
    }
    println!("largest difference to f64: {worst:.2e}");
    assert!(worst < 2e-6, "{worst}");
}

#[test]
fn chunks_threads_and_block_order_change_no_bit() {
    let pools = [1, 2, 3].map(|threads| Pool::new(threads).unwrap());
    for (isa, kv_heads, group, head_dim, len) in
        [(Isa::Naive, 1, 2, 16, 1100), (Isa::detect(), 2, 3, 64, 1100), (Isa::detect(), 1, 1, 40, 700)]
    {
        for window in [None, Some(100)] {
            let mut sequence = Sequence::new(kv_heads, group, head_dim, len);
            sequence.window = window;
            let expected = bits(&sequence.chunked(&pools[0], isa, len, |block| block));
            for chunk in [1, 7, 64, 256] {
                for pool in &pools {
                    let out = sequence.chunked(pool, isa, chunk, |block| block);
                    assert!(bits(&out) == expected, "{isa:?} window {window:?} chunk {chunk} {pool:?}");
                }
            }
            // Scattered, with gaps, backwards.
            let scattered = sequence.chunked(&pools[1], isa, 64, |block| 3 * ((block * 29 + 11) % 71));
            assert!(bits(&scattered) == expected, "{isa:?} window {window:?} scattered");
        }
    }
}

#[test]
fn several_sequences_in_one_call_do_not_touch_each_other() {
    let pool = Pool::new(2).unwrap();
    let sequence = Sequence::new(2, 2, 32, 200);
    for isa in available() {
        let (mut arena, _) = sequence.arena(|block| 2 * block + 1);
        let tables = [0, 1].map(|odd| (0..13).map(|block| 2 * block + odd).collect::<Vec<u32>>());
        for blocks in &tables {
            sequence.store(isa, &mut arena, blocks, 0..sequence.len);
        }
        let mut scratch = Scratch::new();
        let positions = [5, 199, 64];
        let alone = sequence.attend(&pool, isa, &arena, &tables[0], &positions, &mut scratch);
        let width = sequence.q_width();
        let rows: Vec<AttentionRow<'_>> = positions
            .iter()
            .flat_map(|&p| {
                tables.iter().map(move |blocks| AttentionRow { blocks, position: p as u32, window: None })
            })
            .collect();
        let q: Vec<f32> =
            positions.iter().flat_map(|&p| sequence.q[p * width..(p + 1) * width].repeat(2)).collect();
        let mut out = vec![0.0; q.len()];
        let (layout, heads, scale) = (&sequence.layout, sequence.heads, sequence.scale());
        attention(&pool, isa, &arena, layout, 1, heads, scale, &rows, &q, &mut out, &mut scratch).unwrap();
        for (both, alone) in out.chunks(2 * width).zip(alone.chunks(width)) {
            assert_eq!(bits(&both[..width]), bits(alone));
            assert_eq!(bits(&both[width..]), bits(alone));
        }
    }
}

#[test]
fn a_window_hides_what_lies_below_it() {
    let pool = Pool::new(2).unwrap();
    for isa in available() {
        let mut sequence = Sequence::new(1, 2, 24, 700);
        let (mut arena, mut blocks) = sequence.arena(|block| block);
        sequence.store(isa, &mut arena, &blocks, 0..700);
        let mut scratch = Scratch::new();
        let full = sequence.attend(&pool, isa, &arena, &blocks, &[699], &mut scratch);
        sequence.window = Some(700);
        assert_eq!(full, sequence.attend(&pool, isa, &arena, &blocks, &[699], &mut scratch));
        sequence.window = Some(u32::MAX);
        assert_eq!(full, sequence.attend(&pool, isa, &arena, &blocks, &[699], &mut scratch));
        sequence.window = Some(699);
        assert_ne!(full, sequence.attend(&pool, isa, &arena, &blocks, &[699], &mut scratch));

        // One visible position: exactly its value.
        sequence.window = Some(1);
        let out = sequence.attend(&pool, isa, &arena, &blocks, &[333], &mut scratch);
        let stored: Vec<f32> =
            sequence.values[333 * 24..334 * 24].iter().map(|&x| from_half(to_half(x))).collect();
        assert_eq!(out, stored.repeat(2));

        // Positions 599 and before may be gone, their blocks too.
        sequence.window = Some(100);
        let out = sequence.attend(&pool, isa, &arena, &blocks, &[699], &mut scratch);
        assert_ne!(full, out);
        arena[..600 / 16 * sequence.layout.block_len].fill(0xffff);
        sequence.keys[592 * 24..600 * 24].fill(f32::NAN);
        sequence.values[592 * 24..600 * 24].fill(f32::INFINITY);
        sequence.store(isa, &mut arena, &blocks, 592..600);
        blocks[..600 / 16].fill(u32::MAX);
        assert_eq!(out, sequence.attend(&pool, isa, &arena, &blocks, &[699], &mut scratch));
    }
}

#[test]
fn broken_numbers_show() {
    let pool = Pool::new(1).unwrap();
    for isa in available() {
        for (broken, position) in [(f32::NAN, 3), (f32::INFINITY, 150), (f32::NAN, 100)] {
            let mut sequence = Sequence::new(2, 2, 16, 160);
            let place = position * sequence.width() + 16 + 5;
            sequence.keys[place] = broken;
            let q_width = sequence.q_width();
            // A positive query makes the infinite key a positive infinite score.
            sequence.q[159 * q_width + 2 * 16..160 * q_width].fill(0.5);
            let (mut arena, blocks) = sequence.arena(|block| block);
            sequence.store(isa, &mut arena, &blocks, 0..160);
            let out = sequence.attend(&pool, isa, &arena, &blocks, &[159], &mut Scratch::new());
            assert!(out[..32].iter().all(|x| x.is_finite()), "the other KV head is whole");
            assert!(out[32..].iter().all(|x| x.is_nan()), "{isa:?} {broken}");
        }
    }
}

#[test]
fn impossible_calls_are_refused_and_write_nothing() {
    let pool = Pool::new(2).unwrap();
    let sequence = Sequence::new(2, 2, 16, 40);
    let (arena, blocks) = sequence.arena(|block| block);
    let q = vec![1.0; sequence.q_width()];
    let mut out = vec![7.0; q.len()];
    let mut scratch = Scratch::new();
    let good = AttentionRow { blocks: &blocks, position: 39, window: None };
    let mut refused = |layer, heads, row: AttentionRow<'_>, q: &[f32], out: &mut [f32]| {
        let isa = Isa::detect();
        attention(&pool, isa, &arena, &sequence.layout, layer, heads, 0.25, &[row], q, out, &mut scratch)
            .unwrap_err()
    };
    for (layer, heads) in [(2, 4), (1, 0), (1, 3), (1, usize::MAX)] {
        let error = refused(layer, heads, good, &q, &mut out);
        assert!(matches!(error, KernelError::OutOfRange { .. }), "{layer} {heads}: {error}");
    }
    assert!(matches!(refused(1, 4, good, &q[1..], &mut out), KernelError::Length { .. }));
    assert!(matches!(refused(1, 4, good, &q, &mut [0.0; 63]), KernelError::Length { .. }));
    let rows = [
        AttentionRow { position: 48, ..good },
        AttentionRow { position: u32::MAX, ..good },
        AttentionRow { window: Some(0), ..good },
        AttentionRow { blocks: &blocks[..2], ..good },
        AttentionRow { blocks: &[0, 1, 3], ..good },
        AttentionRow { blocks: &[0, u32::MAX, 2], ..good },
        AttentionRow { blocks: &[], ..good },
    ];
    for row in rows {
        let error = refused(1, 4, row, &q, &mut out);
        assert!(matches!(error, KernelError::OutOfRange { .. }), "{row:?}: {error}");
    }
    assert!(out.iter().all(|&x| x == 7.0));
}

#[test]
fn no_rows_is_no_work() {
    let (pool, layout) = (Pool::new(2).unwrap(), KvLayout::new(&[(1, 8)]).unwrap());
    attention(&pool, Isa::detect(), &[], &layout, 0, 1, 1.0, &[], &[], &mut [], &mut Scratch::new()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_set_equals_the_specification(
        kv_heads in 1..4_usize,
        group in 1..10_usize,
        head_dim in prop_oneof![
            4 => (1..9_usize).prop_map(|eighths| 8 * eighths),
            2 => prop::sample::select(vec![80_usize, 96, 128, 256]),
            1 => 1..30_usize,
        ],
        len in prop_oneof![1..100_usize, 500..530_usize, 1..1100_usize],
        window in prop::option::of(1..700_u32),
        loud in any::<bool>(),
        zeros in any::<bool>(),
    ) {
        let mut sequence = Sequence::new(kv_heads, group, head_dim, len);
        sequence.window = window;
        if loud {
            // Scores so far apart that weights vanish, maxima jump and corrections reach 0.
            sequence.q.iter_mut().for_each(|q| *q *= 300.0);
        }
        if zeros {
            // Zeros of both signs, in scores and values.
            sequence.q.iter_mut().step_by(3).for_each(|q| *q = -0.0);
            sequence.values.iter_mut().for_each(|value| *value = if *value > 0.5 { *value } else { -0.0 });
        }
        let pools = [1, 2].map(|threads| Pool::new(threads).unwrap());
        let (mut arena, blocks) = sequence.arena(|block| block ^ 1);
        sequence.store(Isa::Naive, &mut arena, &blocks, 0..len);
        // Some that share their tiles, one that does not.
        let positions: Vec<usize> = (len.saturating_sub(12)..len).chain([len / 2]).collect();
        let mut scratch = Scratch::new();
        let naive = sequence.attend(&pools[0], Isa::Naive, &arena, &blocks, &positions, &mut scratch);
        prop_assert!(naive.iter().all(|x| x.is_finite()));
        for isa in available() {
            for pool in &pools {
                let fast = sequence.attend(pool, isa, &arena, &blocks, &positions, &mut scratch);
                prop_assert_eq!(bits(&naive), bits(&fast), "{:?}", isa);
            }
        }
    }
}
