//! Parts of the tokenizer that are not public.

use super::byte_level;

#[test]
fn the_byte_alphabet_is_a_bijection() {
    let all: Vec<u8> = (0..=255).collect();
    let text = byte_level::encode(&all);
    assert_eq!(text.chars().count(), 256);
    assert_eq!(byte_level::decode(&text), Some(all));
    assert_eq!(byte_level::encode(b" \n"), "\u{120}\u{10a}");
    assert_eq!(byte_level::decode("a b"), None);
}
