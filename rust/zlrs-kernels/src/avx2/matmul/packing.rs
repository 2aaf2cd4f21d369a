//! Words of packed strips, moved four weights at a time. Safe, portable code: layouts, not arithmetic.

/// The low nibble of each byte.
const LOW: u32 = 0x0f0f_0f0f;

/// Reads the little-endian word at byte `offset`.
pub(super) fn word(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes([bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]])
}

/// Writes it.
pub(super) fn set_word(bytes: &mut [u8], offset: usize, word: u32) {
    bytes[offset..offset + 4].copy_from_slice(&word.to_le_bytes());
}

/// Row `row`'s dword of the vector at byte `vector` of a strip block.
pub(super) fn lane(strip: &[u8], vector: usize, row: usize) -> u32 {
    word(strip, vector + 4 * row)
}

/// Writes it.
pub(super) fn set_lane(strip: &mut [u8], vector: usize, row: usize, word: u32) {
    set_word(strip, vector + 4 * row, word);
}

/// Copies a block's f16 at byte `from` to row `row`'s place among the eight at byte `to` of the strip block.
pub(super) fn pack_half(block: &[u8], from: usize, strip: &mut [u8], to: usize, row: usize) {
    strip[to + 2 * row..to + 2 * row + 2].copy_from_slice(&block[from..from + 2]);
}

/// The inverse of [`pack_half`].
pub(super) fn unpack_half(strip: &[u8], to: usize, row: usize, block: &mut [u8], from: usize) {
    block[from..from + 2].copy_from_slice(&strip[to + 2 * row..to + 2 * row + 2]);
}

/// The low nibbles of two words: `a`'s stay low, `b`'s go high.
pub(super) fn join_low(a: u32, b: u32) -> u32 {
    (a & LOW) | ((b & LOW) << 4)
}

/// The high nibbles of two words: `a`'s go low, `b`'s stay high.
pub(super) fn join_high(a: u32, b: u32) -> u32 {
    ((a >> 4) & LOW) | (b & !LOW)
}

/// Packs the nibbles of a block of 32 weights. In the file (16 bytes at `from`) byte j holds weight j low and
/// weight j + 16 high; in a strip, vector i of the four at byte `to` holds the group of weights 8i.. low and
/// the group of weights 8i + 4.. high.
pub(super) fn pack_nibbles(block: &[u8], from: usize, strip: &mut [u8], to: usize, row: usize) {
    for i in 0..2 {
        let (a, b) = (word(block, from + 8 * i), word(block, from + 8 * i + 4));
        set_lane(strip, to + 32 * i, row, join_low(a, b));
        set_lane(strip, to + 64 + 32 * i, row, join_high(a, b));
    }
}

/// The inverse of [`pack_nibbles`].
pub(super) fn unpack_nibbles(strip: &[u8], to: usize, row: usize, block: &mut [u8], from: usize) {
    for i in 0..2 {
        let (low, high) = (lane(strip, to + 32 * i, row), lane(strip, to + 64 + 32 * i, row));
        // Joining is its own inverse.
        set_word(block, from + 8 * i, join_low(low, high));
        set_word(block, from + 8 * i + 4, join_high(low, high));
    }
}

/// Packs 32 file bytes at `from` whose low nibbles are one chunk of weights and whose high nibbles another.
/// The chunks' four vectors each begin at bytes `low` and `high` of the strip block.
pub(super) fn pack_chunk_pair(
    block: &[u8],
    from: usize,
    strip: &mut [u8],
    (low, high): (usize, usize),
    row: usize,
) {
    for i in 0..4 {
        let (a, b) = (word(block, from + 8 * i), word(block, from + 8 * i + 4));
        set_lane(strip, low + 32 * i, row, join_low(a, b));
        set_lane(strip, high + 32 * i, row, join_high(a, b));
    }
}

/// The inverse of [`pack_chunk_pair`].
pub(super) fn unpack_chunk_pair(
    strip: &[u8],
    (low, high): (usize, usize),
    row: usize,
    block: &mut [u8],
    from: usize,
) {
    for i in 0..4 {
        let (l, h) = (lane(strip, low + 32 * i, row), lane(strip, high + 32 * i, row));
        set_word(block, from + 8 * i, join_low(l, h));
        set_word(block, from + 8 * i + 4, join_high(l, h));
    }
}

/// Two integers as the 16-bit halves of a dword. Each fits 16 bits.
pub(super) fn pair(low: i32, high: i32) -> u32 {
    u32::from(low as u16) | (u32::from(high as u16) << 16)
}

/// What unsigned weights with their zero at `zero` must subtract, `-zero * sum(q)`, as the start of the two
/// 16-bit lanes that a row's dword holds: a product of bytes 0 and 1 of a group goes to the lower lane, of
/// bytes 2 and 3 to the upper.
#[inline(always)]
pub(super) fn centre(q: &[i8], zero: i32) -> u32 {
    let (mut low, mut high) = (0, 0);
    for group in q.chunks_exact(4) {
        low += i32::from(group[0]) + i32::from(group[1]);
        high += i32::from(group[2]) + i32::from(group[3]);
    }
    pair(-zero * low, -zero * high)
}

/// The sum of a block of activations.
#[inline(always)]
pub(crate) fn sum(q: &[i8]) -> i32 {
    q.iter().map(|&q| i32::from(q)).sum()
}
