use proptest::prelude::*;

use super::{StopError, StopMatcher, TextStream, Utf8Stream};

/// The first end of any stop in the whole text; of several that end there, the longest.
fn naive_stop<'text>(text: &'text str, stops: &[String]) -> (&'text str, Option<String>) {
    for end in 1..=text.len() {
        let found = stops.iter().filter(|stop| text.as_bytes()[..end].ends_with(stop.as_bytes()));
        if let Some(stop) = found.max_by_key(|stop| stop.len()) {
            return (&text[..end - stop.len()], Some(stop.clone()));
        }
    }
    (text, None)
}

/// Runs a stream over `pieces`, checking that no output ever shows more than the naive search allows.
fn stream(pieces: &[Vec<u8>], stops: &[String]) -> (String, Option<usize>) {
    let mut stream = TextStream::new(stops).unwrap();
    let mut text = String::new();
    for piece in pieces {
        if let Some(stop) = stream.push(piece, &mut text) {
            return (text, Some(stop));
        }
    }
    let stopped = stream.finish(&mut text);
    (text, stopped)
}

fn cut(bytes: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect()
}

fn some_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("a".as_bytes().to_vec()),
        Just("é".as_bytes().to_vec()),
        Just("😀🇩🇪".as_bytes().to_vec()),
        Just(vec![0xF0]),
        Just(vec![0x85]),
        Just(vec![0xF0, 0x9F]),
        Just(vec![0xED, 0xA0, 0x80]),
        Just(vec![0xC0, 0xFF]),
        any::<u8>().prop_map(|byte| vec![byte]),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn pieces_join_to_the_whole(bytes in some_bytes(), cuts in proptest::collection::vec(0_usize..100, 0..12)) {
        let (text, _) = stream(&cut(&bytes, &cuts), &[]);
        prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn every_valid_character_is_out_at_once(text in "\\PC{0,8}") {
        let mut stream = Utf8Stream::default();
        let mut out = String::new();
        for &byte in text.as_bytes() {
            stream.push(&[byte], &mut out);
            prop_assert!(text.starts_with(&out));
            prop_assert!(!out.contains(char::REPLACEMENT_CHARACTER) || text.contains(char::REPLACEMENT_CHARACTER));
        }
        prop_assert_eq!(out, text);
    }

    #[test]
    fn stops_equal_a_search_in_the_whole_text(
        text in "[abéè]{0,24}",
        stops in proptest::collection::vec("[abéè]{1,5}", 0..4),
        cuts in proptest::collection::vec(0_usize..100, 0..12),
    ) {
        let (expected, stop) = naive_stop(&text, &stops);
        let (got, index) = stream(&cut(text.as_bytes(), &cuts), &stops);
        prop_assert_eq!(got, expected);
        prop_assert_eq!(index.map(|index| stops[index].clone()), stop);
    }

    #[test]
    fn text_out_is_never_part_of_a_later_stop(text in "[ab]{0,24}", stops in proptest::collection::vec("[ab]{1,6}", 1..3)) {
        let (allowed, _) = naive_stop(&text, &stops);
        let mut matcher = StopMatcher::new(&stops).unwrap();
        let mut out = String::new();
        for character in text.chars() {
            let mut buffer = [0; 4];
            let stopped = matcher.push(character.encode_utf8(&mut buffer), &mut out);
            prop_assert!(allowed.starts_with(&out));
            if stopped.is_some() { break }
        }
    }

    #[test]
    fn invalid_bytes_and_stops_together(
        bytes in some_bytes(), cuts in proptest::collection::vec(0_usize..100, 0..8),
        stops in proptest::collection::vec(prop_oneof![Just("\u{FFFD}a".to_owned()), Just("é😀".to_owned()), Just("a".to_owned())], 0..3),
    ) {
        let whole = String::from_utf8_lossy(&bytes).into_owned();
        let (expected, stop) = naive_stop(&whole, &stops);
        let (got, index) = stream(&cut(&bytes, &cuts), &stops);
        prop_assert_eq!(got, expected);
        prop_assert_eq!(index.map(|index| stops[index].clone()), stop);
    }
}

#[test]
fn held_text_is_released_when_the_match_fails_or_the_text_ends() {
    let stops = ["DEFGHIJ".to_owned()];
    let mut stream = TextStream::new(&stops).unwrap();
    let mut out = String::new();
    assert_eq!(stream.push(b"ABC DEF", &mut out), None);
    assert_eq!(out, "ABC ");
    assert!(stream.is_holding());
    assert_eq!(stream.push(b"X DE", &mut out), None);
    assert_eq!(out, "ABC DEFX ");
    assert_eq!(stream.finish(&mut out), None);
    assert_eq!(out, "ABC DEFX DE");
    assert!(!stream.is_holding());
    let mut stream = TextStream::new(&stops).unwrap();
    // Half a character; then one behind a stop sequence, which is dropped.
    assert_eq!(stream.push(b"\xC3", &mut out), None);
    assert!(stream.is_holding());
    assert_eq!(stream.push(b"\xA9DEFGHIJ\xC3", &mut out), Some(0));
    assert!(!stream.is_holding());
}

#[test]
fn a_stop_over_three_tokens_leaks_nothing() {
    let stops = ["beta gamma".to_owned()];
    let mut stream = TextStream::new(&stops).unwrap();
    let mut out = String::new();
    assert_eq!(stream.push(b"alpha be", &mut out), None);
    assert_eq!(stream.push(b"ta ga", &mut out), None);
    assert_eq!(stream.push(b"mma delta", &mut out), Some(0));
    assert_eq!(out, "alpha ");
}

#[test]
fn limits() {
    assert_eq!(StopMatcher::new(&vec!["a".to_owned(); 65]).unwrap_err(), StopError::TooMany { given: 65 });
    assert_eq!(
        StopMatcher::new(&["a".to_owned(), String::new()]).unwrap_err(),
        StopError::Empty { index: 1 }
    );
    assert_eq!(
        StopMatcher::new(&["a".repeat(1025)]).unwrap_err(),
        StopError::TooLong { index: 0, given: 1025 }
    );
}
