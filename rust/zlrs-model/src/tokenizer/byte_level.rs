//! The byte-level alphabet of GPT-2: every byte has a printable character of its own, and tokens are written
//! in those characters. Printable Latin-1 bytes stand for themselves, the 68 others are U+0100 to U+0143.

const TABLE: [char; 256] = table();
/// One above the last character of the alphabet.
const END: usize = 0x144;
const INVERSE: [Option<u8>; END] = inverse();

const fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

const fn table() -> [char; 256] {
    let mut table = ['\0'; 256];
    let mut next = 0x100_u32;
    let mut byte = 0_usize;
    while byte < 256 {
        table[byte] = if is_printable(byte as u8) {
            byte as u8 as char
        } else {
            next += 1;
            // U+0100 to U+0143 are characters.
            match char::from_u32(next - 1) {
                Some(character) => character,
                None => char::REPLACEMENT_CHARACTER,
            }
        };
        byte += 1;
    }
    table
}

const fn inverse() -> [Option<u8>; END] {
    let mut inverse = [None; END];
    let mut byte = 0_usize;
    while byte < 256 {
        inverse[TABLE[byte] as usize] = Some(byte as u8);
        byte += 1;
    }
    inverse
}

/// The characters of these bytes.
pub(crate) fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| TABLE[usize::from(byte)]).collect()
}

/// The bytes of these characters; `None` if one is not of the alphabet.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|character| INVERSE.get(character as usize).copied().flatten()).collect()
}
