//! The bits of the specification, pinned to its version: a change of any rule must change the number, because
//! saved keys and values of another number are not reused.

use zlrs_kernels::{
    AttentionRow, Isa, KvLayout, NUMERICS_VERSION, Pool, Scratch, attention, exp, gelu_multiply, rms_norm,
    silu_multiply, softcap, store_kv,
};

/// FNV-1a over the bits, NaNs alike.
fn hash(values: &[f32]) -> u64 {
    values.iter().fold(0xcbf2_9ce4_8422_2325, |hash, x| {
        let bits = if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
        bits.to_le_bytes()
            .iter()
            .fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    })
}

/// Exact dyadic fractions in -4..4, so that no library function takes part.
fn numbers(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 9) as f32 / (1 << 20) as f32 - 4.0
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn the_bits_of_version_1() {
    assert_eq!(NUMERICS_VERSION, 1, "put the hashes of the new version below");
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let (x, y) = (numbers(1001, 1), numbers(1001, 2));
        let mut out = vec![0.0; x.len()];
        let mut hashes = Vec::new();

        let mut sweep: Vec<f32> = (0..=u32::MAX).step_by(65_521).map(f32::from_bits).collect();
        exp(isa, &mut sweep);
        hashes.push(("exp", hash(&sweep)));
        silu_multiply(isa, &x, &y, &mut out);
        hashes.push(("silu_multiply", hash(&out)));
        gelu_multiply(isa, &x, &y, &mut out);
        hashes.push(("gelu_multiply", hash(&out)));
        rms_norm(isa, &x, &y, 1e-5, &mut out);
        hashes.push(("rms_norm", hash(&out)));
        out.copy_from_slice(&x);
        softcap(isa, 2.5, &mut out);
        hashes.push(("softcap", hash(&out)));

        let layout = KvLayout::new(&[(2, 24)]).unwrap();
        let blocks: Vec<u32> = (0..70).collect();
        let mut arena = vec![0; blocks.len() * layout.block_len];
        for position in 0..1100 {
            let (key, value) = (numbers(48, position), numbers(48, position + 5000));
            let (block, slot) = (blocks[position as usize / 16], position as usize % 16);
            store_kv(isa, &mut arena, &layout, 0, block, slot, &key, &value).unwrap();
        }
        let rows: Vec<AttentionRow<'_>> = [(3, None), (700, None), (1099, None), (1099, Some(600))]
            .into_iter()
            .map(|(position, window)| AttentionRow { blocks: &blocks, position, window })
            .collect();
        let q = numbers(rows.len() * 6 * 24, 3);
        let mut out = vec![0.0; q.len()];
        let (pool, mut scratch) = (Pool::new(2).unwrap(), Scratch::new());
        attention(&pool, isa, &arena, &layout, 0, 6, 0.2, &rows, &q, &mut out, &mut scratch).unwrap();
        hashes.push(("attention", hash(&out)));

        let expected = [
            ("exp", 0x4646_8f24_245f_c352),
            ("silu_multiply", 0xcbaa_965a_71be_26ff),
            ("gelu_multiply", 0x9c8f_7d4a_a91a_d9a0),
            ("rms_norm", 0x51d8_a680_7d60_5785),
            ("softcap", 0x2604_6fb6_b0a0_900f),
            ("attention", 0x763a_cb3d_1fe8_3b2f),
        ];
        assert_eq!(hashes, expected, "{isa:?}: the specification changed, so its version must change");
    }
}
