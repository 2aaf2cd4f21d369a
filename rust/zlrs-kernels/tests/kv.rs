//! The arena's layout and the rounding to f16.

use proptest::prelude::*;
use zlrs_kernels::naive::kv::{from_half, to_half};
use zlrs_kernels::{BLOCK_TOKENS, Isa, KernelError, KvLayout, store_kv};

#[test]
fn layers_follow_each_other_and_absent_ones_take_nothing() {
    let layout = KvLayout::new(&[(2, 64), (0, 64), (1, 128), (3, 0), (4, 8)]).unwrap();
    let lens = [2 * 64, 0, 128, 0, 4 * 8].map(|width| width * BLOCK_TOKENS);
    assert_eq!(layout.block_len, 2 * lens.iter().sum::<usize>());
    assert_eq!(layout.block_bytes(), 2 * layout.block_len);
    let mut next = 0;
    for (layer, len) in layout.layers.iter().zip(lens) {
        if len == 0 {
            assert_eq!((layer.kv_heads, layer.head_dim), (0, 0));
        } else {
            assert_eq!((layer.key_offset, layer.value_offset), (next, next + len));
            next += 2 * len;
        }
    }
    assert!(KvLayout::new(&[]).unwrap().layers.is_empty());
    for huge in [(usize::MAX, 2), (1 << 40, 1 << 40), (1 << 30, 1 << 29)] {
        assert!(matches!(KvLayout::new(&[huge]), Err(KernelError::OutOfMemory { .. })), "{huge:?}");
    }
}

#[test]
fn a_token_lands_in_its_slot_and_nowhere_else() {
    for isa in [Isa::Naive, Isa::detect()] {
        for head_dim in [1, 7, 8, 20, 64] {
            let layout = KvLayout::new(&[(1, 8), (2, head_dim), (1, 8)]).unwrap();
            let layer = layout.layers[1];
            let mut arena = vec![0xabcd_u16; 3 * layout.block_len];
            let mut expected = arena.clone();
            let key: Vec<f32> = (0..2 * head_dim).map(|i| i as f32 + 0.25).collect();
            let value: Vec<f32> = key.iter().map(|key| -key).collect();
            store_kv(isa, &mut arena, &layout, 1, 2, 5, &key, &value).unwrap();
            for head in 0..2 {
                for d in 0..head_dim {
                    let block = 2 * layout.block_len;
                    let k = block + layer.key_offset + (head * head_dim + d) * BLOCK_TOKENS + 5;
                    let v = block + layer.value_offset + (head * BLOCK_TOKENS + 5) * head_dim + d;
                    expected[k] = to_half(key[head * head_dim + d]);
                    expected[v] = to_half(value[head * head_dim + d]);
                }
            }
            assert_eq!(arena, expected, "{isa:?} {head_dim}");
        }
    }
}

#[test]
fn wrong_places_and_shapes_are_refused_and_write_nothing() {
    let layout = KvLayout::new(&[(2, 8), (0, 0)]).unwrap();
    let mut arena = vec![0_u16; 2 * layout.block_len];
    let good = [1.0; 16];
    let isa = Isa::detect();
    let mut refused = |layer, block, slot, key: &[f32], value: &[f32]| {
        store_kv(isa, &mut arena, &layout, layer, block, slot, key, value).unwrap_err()
    };
    assert!(matches!(refused(1, 0, 0, &good, &good), KernelError::OutOfRange { .. }));
    assert!(matches!(refused(2, 0, 0, &good, &good), KernelError::OutOfRange { .. }));
    assert!(matches!(refused(0, 2, 0, &good, &good), KernelError::OutOfRange { limit: 2, .. }));
    assert!(matches!(refused(0, u32::MAX, 0, &good, &good), KernelError::OutOfRange { .. }));
    assert!(matches!(refused(0, 0, 16, &good, &good), KernelError::OutOfRange { .. }));
    assert!(matches!(refused(0, 0, 0, &good[1..], &good), KernelError::Length { .. }));
    assert!(matches!(refused(0, 0, 0, &good, &good[1..]), KernelError::Length { .. }));
    assert!(arena.iter().all(|&x| x == 0));
    // A layout changed by hand cannot reach outside the block.
    let mut bent = layout.clone();
    bent.layers[0].key_offset = usize::MAX - 7;
    assert!(store_kv(isa, &mut arena, &bent, 0, 0, 0, &good, &good).is_err());
}

/// The nearest f16, by comparing with both neighbours in f64 (exact).
fn nearest_half(x: f32) -> u16 {
    if x.is_nan() {
        let bits = x.to_bits();
        return ((bits >> 16) & 0x8000) as u16 | 0x7e00 | ((bits >> 13) & 0x1ff) as u16;
    }
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    let magnitude = f64::from(x.abs());
    // Patterns of finite magnitudes ascend with them; the one past the largest stands for 65536, infinity.
    let value = |pattern: u16| if pattern == 0x7c00 { 65536.0 } else { f64::from(from_half(pattern)) };
    let (mut low, mut high) = (0_u16, 0x7c00_u16);
    if magnitude >= 65536.0 {
        return sign | high;
    }
    while high - low > 1 {
        let middle = u16::midpoint(low, high);
        if value(middle) <= magnitude { low = middle } else { high = middle }
    }
    let (below, above) = (magnitude - value(low), value(high) - magnitude);
    let up = above < below || (above == below && low % 2 == 1);
    sign | if up { high } else { low }
}

#[test]
fn every_half_survives_and_every_tie_goes_to_even() {
    for pattern in 0..=u16::MAX {
        let x = from_half(pattern);
        if !x.is_nan() {
            assert_eq!(to_half(x), pattern);
            let next = from_half(pattern.wrapping_add(1));
            if next.is_finite() && x.is_finite() {
                let middle = f32::midpoint(x, next);
                assert_eq!(to_half(middle), nearest_half(middle), "{middle}");
            }
        }
    }
    for (x, pattern) in [(65519.99, 0x7bff), (65520.0, 0x7c00), (1e30, 0x7c00), (-1e30, 0xfc00), (1e-45, 0)] {
        assert_eq!(to_half(x), pattern, "{x}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rounding_is_to_nearest_and_avx2_agrees(patterns in prop::collection::vec(
        prop_oneof![any::<u32>(), 0x3300_0000_u32..0x4780_1000, 0xb300_0000_u32..0xc780_1000], 16..40,
    )) {
        let x: Vec<f32> = patterns.into_iter().map(f32::from_bits).collect();
        let layout = KvLayout::new(&[(1, x.len())]).unwrap();
        let mut arenas = [Isa::Naive, Isa::detect()].map(|isa| {
            let mut arena = vec![0; layout.block_len];
            store_kv(isa, &mut arena, &layout, 0, 0, 15, &x, &x).unwrap();
            arena
        });
        prop_assert_eq!(&arenas[0], &arenas[1]);
        let values = &mut arenas[0][layout.layers[0].value_offset + 15 * x.len()..];
        for (&x, &half) in x.iter().zip(&*values) {
            prop_assert_eq!(half, nearest_half(x), "{}", x);
        }
    }
}
