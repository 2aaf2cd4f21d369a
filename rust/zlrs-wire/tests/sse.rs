//! The event-stream reader against a reader that sees the whole text at once.

use proptest::prelude::*;
use zlrs_wire::sse::{Event, SseError, SseParser, write_event};

fn event(name: &str, data: &str) -> Event {
    Event { name: name.to_owned(), data: data.to_owned() }
}

fn read(pieces: &[&[u8]]) -> (Result<(), SseError>, Vec<Event>, bool) {
    let mut parser = SseParser::new(1 << 20);
    let mut events = Vec::new();
    let mut result = Ok(());
    for piece in pieces {
        result = parser.push(piece, &mut events);
        if result.is_err() {
            break;
        }
    }
    let is_partial = parser.is_partial();
    (result, events, is_partial)
}

/// The specification, written plainly: whole text, lines first, then events.
fn naive(text: &str) -> Vec<Event> {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut events = Vec::new();
    let (mut name, mut data) = (String::new(), Vec::<String>::new());
    let mut lines: Vec<&str> = text.split('\n').collect();
    lines.pop();
    for line in lines {
        let (field, value) = match line.split_once(':') {
            Some((field, value)) => (field, value.strip_prefix(' ').unwrap_or(value)),
            None => (line, ""),
        };
        if line.is_empty() {
            if !data.is_empty() {
                events.push(Event { name: name.clone(), data: data.join("\n") });
            }
            name.clear();
            data.clear();
        } else if field == "event" {
            value.clone_into(&mut name);
        } else if field == "data" {
            data.push(value.to_owned());
        }
    }
    events
}

#[test]
fn every_form_of_a_line_is_read() {
    for text in [
        "event: a\ndata: x\n\n",
        "event:a\ndata:x\n\n",
        "event: a\r\ndata: x\r\n\r\n",
        "event: a\rdata: x\r\r",
        "\u{FEFF}event: a\ndata: x\n\n",
        ": comment\nid: 7\nretry: 10\nunknown\nevent: a\ndata: x\n\n",
    ] {
        assert_eq!(read(&[text.as_bytes()]), (Ok(()), vec![event("a", "x")], false), "{text:?}");
    }
    assert_eq!(read(&[b"data: x\ndata:\ndata: y\n\n"]).1, [event("", "x\n\ny")]);
    assert_eq!(read(&[b"data\n\n"]).1, [event("", "")]);
    assert_eq!(read(&[b"event: a\n\ndata: x\n\n"]).1, [event("", "x")]);
    assert_eq!(read(&[b"data:  two spaces\n\n"]).1, [event("", " two spaces")]);
    assert_eq!(read(&[b"data: a\n\ndata: b\n\n"]).1, [event("", "a"), event("", "b")]);
}

#[test]
fn a_cut_is_seen() {
    for text in ["data: x", "data: x\n", "event: a\n", "da"] {
        let (result, events, is_partial) = read(&[text.as_bytes()]);
        assert_eq!((result, events.len(), is_partial), (Ok(()), 0, true), "{text:?}");
    }
}

#[test]
fn a_fault_is_said_once_and_stays() {
    let mut events = Vec::new();
    let mut parser = SseParser::new(16);
    assert_eq!(parser.push(b"data: ok\n\n", &mut events), Ok(()));
    let too_large = Err(SseError::TooLarge { limit_bytes: 16 });
    assert_eq!(parser.push(&[b'x'; 17], &mut events), too_large);
    assert_eq!(parser.push(b"\n\n", &mut events), too_large);
    assert_eq!(events, [event("", "ok")]);

    // Many short data lines are one large event.
    let mut parser = SseParser::new(16);
    assert_eq!(parser.push(&b"data: 1234\n".repeat(8), &mut events), too_large);

    let mut parser = SseParser::new(16);
    assert_eq!(parser.push(b"data: \xff\n", &mut events), Err(SseError::InvalidUtf8));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_cut_gives_the_same_events(
        lines in prop::collection::vec(("(data|event|id|x|)(:| ?|: | :)", "[a-z:é😀\u{2028} ]{0,8}", "\r\n|\n|\r|\n\n|\r\r|\r\n\r\n"), 0..20),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let text: String = lines.iter().flat_map(|(field, value, end)| [field.as_str(), value, end]).collect();
        let bytes = text.as_bytes();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let pieces: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let expected = naive(&text);
        prop_assert_eq!(read(&pieces).1, expected.clone());
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(read(&single).1, expected);
    }

    #[test]
    fn arbitrary_bytes_never_panic(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8)) {
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let _ = read(&pieces);
    }

    #[test]
    fn what_is_written_is_read(name in "[a-z_]{0,12}", data in "[^\r\n]{0,40}") {
        let mut bytes = Vec::new();
        write_event(&name, data.as_bytes(), &mut bytes);
        let (result, events, is_partial) = read(&[&bytes]);
        prop_assert_eq!((result, events, is_partial), (Ok(()), vec![event(&name, &data)], false));
    }
}
