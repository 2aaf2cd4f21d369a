//! Answers that are followed by a checker go back to where they are likely wrong, and no reader sees two answers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use std::sync::Arc;

use proptest::prelude::*;
use support::scripted::*;
use zlrs_engine::ring::{AtomKind, Note, Outcome, Rule, Source, TokenEvent, TokenEvents, Validation, atoms};
use zlrs_engine::scheduler::{FinishReason, Scheduler, SchedulerOptions};
use zlrs_engine::vocabulary::Vocabulary;
use zlrs_engine::{Drafting, Event, Request};

/// A prompt of script 0 whose text is "42".
fn about(validation: Validation) -> Request {
    Request { ids: vec![0, 52, 50], validation: Some(Arc::new(validation)), ..request(0) }
}

fn over(text: &str, drafting: Drafting) -> Scheduler {
    scheduler(Scripted::new(vec![says(text)]), SchedulerOptions { drafting, ..SchedulerOptions::default() })
}

/// Tokens that are a stop text and more: "17" and a line's end with text behind it, and a colon and such an end.
const NUMBER_LINE: u32 = 258;
const COLON_LINE: u32 = 259;

/// [`Bytes`] with these two.
struct Lines(Arc<Bytes>);

impl Vocabulary for Lines {
    fn token_bytes(&self, id: u32) -> &[u8] {
        match id {
            NUMBER_LINE => b"17\nab\xC3",
            COLON_LINE => b":\nab",
            _ => self.0.token_bytes(id),
        }
    }
    fn is_end(&self, id: u32) -> bool {
        self.0.is_end(id)
    }
    fn is_control(&self, id: u32) -> bool {
        self.0.is_control(id)
    }
}

/// An answer of a text and a token of [`Lines`].
fn over_lines(text: &str, last: u32) -> Scheduler {
    let script = says(text).into_iter().chain([Say::Token(last)]).collect();
    let backend = Box::new(Scripted::new(vec![script]));
    Scheduler::start(backend, Arc::new(Lines(Bytes::new())), SchedulerOptions::default()).unwrap()
}

struct Read {
    text: String,
    ids: Vec<u32>,
    shown: String,
    /// Tokens that were told as certain.
    certain: usize,
    end: Option<(FinishReason, Option<String>)>,
    /// Text deltas that came before the last event.
    pieces: usize,
    notes: Vec<Note>,
    output_tokens: usize,
}

fn read(scheduler: &Scheduler, request: Request) -> Read {
    let mut generation = scheduler.submit(request).unwrap();
    let mut read = Read {
        text: String::new(),
        ids: vec![],
        shown: String::new(),
        certain: 0,
        end: None,
        pieces: 0,
        notes: vec![],
        output_tokens: 0,
    };
    let mut texts: Vec<String> = Vec::new();
    while let Some(event) = generation.next_blocking().unwrap() {
        match event {
            Event::Started { .. } => {}
            Event::Delta { text, ids } => {
                read.text.push_str(&text);
                read.ids.extend(ids);
                read.pieces += 1;
            }
            Event::Token(TokenEvent::Token { index, text, provisional }) => {
                assert!(index <= texts.len());
                read.certain += usize::from(!provisional);
                texts.truncate(texts.len().max(index));
                if index == texts.len() {
                    texts.push(text);
                } else {
                    assert_eq!(texts[index], "");
                    texts[index] = text;
                }
            }
            Event::Token(TokenEvent::Correction { index, original, corrected }) => {
                assert_eq!(texts[index], original);
                texts[index] = corrected;
            }
            Event::Finished(end) => {
                read.notes = end.notes;
                read.output_tokens = end.usage.output_tokens;
                read.end = Some((end.reason, end.stop_sequence));
            }
            Event::Failed(error) => panic!("{error}"),
        }
    }
    read.shown = texts.concat();
    read
}

fn numbers(reach_tokens: usize) -> Validation {
    Validation { numbers: true, reach_tokens, ..Validation::default() }
}

#[test]
fn a_number_that_is_not_in_the_source_is_copied_from_it() {
    for drafting in [Drafting::Off, Drafting::Always] {
        let scheduler = over("is 17 ok", drafting);
        let asked = Request { token_events: TokenEvents::Provisional, ..about(numbers(16)) };
        let read = read(&scheduler, asked);
        assert_eq!((read.text.as_str(), read.shown.as_str()), ("is 42 ok", "is 42 ok"));
        assert_eq!(read.ids, "is 42 ok".bytes().map(u32::from).collect::<Vec<_>>());
        assert_eq!(read.output_tokens, 8);
        assert_eq!((read.notes.len(), read.notes[0].outcome), (1, Outcome::Redone));
        assert_eq!((read.notes[0].index, read.notes[0].text.as_str()), (3, "17"));
        assert_eq!(scheduler.statistics().unwrap().kv_blocks_used, 0);
    }
}

#[test]
fn at_the_end_too() {
    assert_eq!(read(&over("17", Drafting::Off), about(numbers(16))).text, "42");
    let cut = Request { max_tokens: 2, ..about(numbers(16)) };
    assert_eq!(read(&over("17 and more", Drafting::Off), cut).text, "42");
}

/// A request that shows its tokens at once, with stop texts.
fn stopped(validation: Validation, stop: &[&str]) -> Request {
    let stop = stop.iter().map(|&stop| stop.to_owned()).collect();
    Request { stop, token_events: TokenEvents::Provisional, ..about(validation) }
}

/// A colon must be followed by two digits.
fn rule() -> Validation {
    let rule = Rule::new("code", ":", r"\d\d", 4).unwrap();
    Validation { rules: vec![rule].into(), reach_tokens: 16, ..Validation::default() }
}

#[test]
fn an_answer_that_a_stop_sequence_ends_is_looked_at() {
    // The stop text alone, in pieces, and with text before it that could have begun another one.
    for (said, stop, text) in
        [("is 17\n", "\n", "is 42"), ("is 17\n\nmore", "\n\n", "is 42"), ("is 17, more", " more", "is 42,")]
    {
        for drafting in [Drafting::Off, Drafting::Always] {
            let read = read(&over(said, drafting), stopped(numbers(16), &[stop, "17x"]));
            assert_eq!((read.text.as_str(), read.shown.as_str(), read.certain), (text, text, 0));
            assert_eq!(read.end, Some((FinishReason::StopSequence, Some(stop.to_owned()))));
            assert_eq!((read.output_tokens, read.ids.len()), (text.len() + stop.len(), read.output_tokens));
            assert_eq!((read.notes.len(), read.notes[0].outcome), (1, Outcome::Redone));
        }
    }
    // Within a token that has more text, and half a character, behind it.
    let inside = read(&over_lines("is ", NUMBER_LINE), stopped(numbers(16), &["\n"]));
    assert_eq!((inside.text.as_str(), inside.shown.as_str()), ("is 42", "is 42"));
    assert_eq!((inside.notes[0].index, inside.output_tokens), (3, 5));
}

#[test]
fn what_may_begin_a_stop_sequence_is_written_anew_with_its_tokens() {
    for (said, text) in [("is 17 ok", "is 42 ok"), ("is 17", "is 42")] {
        let read = read(&over(said, Drafting::Off), stopped(numbers(16), &["17x"]));
        assert_eq!((read.text.as_str(), read.shown.as_str()), (text, text));
        assert_eq!(read.ids, text.bytes().map(u32::from).collect::<Vec<_>>());
        assert_eq!((read.notes[0].index, read.notes[0].outcome), (3, Outcome::Redone));
    }
}

#[test]
fn what_is_missing_at_the_end_is_put_there() {
    for drafting in [Drafting::Off, Drafting::Always] {
        let read = read(&over("code:", drafting), stopped(rule(), &[]));
        assert_eq!((read.text.as_str(), read.shown.as_str()), ("code:42", "code:42"));
        assert_eq!(read.ids, "code:42".bytes().map(u32::from).collect::<Vec<_>>());
        assert_eq!((read.output_tokens, read.end), (7, Some((FinishReason::Stop, None))));
        assert_eq!((read.notes.len(), read.notes[0].outcome), (1, Outcome::Redone));
        assert_eq!((read.notes[0].index, read.notes[0].text.as_str()), (5, ""));
    }
    // In place of the stop sequence, which comes again or not.
    let once = read(&over("code:\n", Drafting::Off), stopped(rule(), &["\n"]));
    assert_eq!((once.text.as_str(), once.end), ("code:42", Some((FinishReason::Stop, None))));
    assert_eq!((once.shown.as_str(), once.output_tokens), ("code:42", 7));
    let again = read(&over("code:\n\n\n", Drafting::Off), stopped(rule(), &["\n"]));
    assert_eq!((again.text.as_str(), again.shown.as_str()), ("code:42", "code:42"));
    assert_eq!(again.end, Some((FinishReason::StopSequence, Some("\n".to_owned()))));
    assert_eq!((again.output_tokens, again.ids.len()), (8, 8));
    // A token that holds the colon and the stop sequence is written anew.
    let inside = read(&over_lines("code", COLON_LINE), stopped(rule(), &["\n"]));
    assert_eq!((inside.text.as_str(), inside.shown.as_str()), ("code:42", "code:42"));
    assert_eq!((inside.output_tokens, inside.notes[0].index), (7, 4));
    // Held back for a stop sequence that does not come.
    let held = read(&over("code:", Drafting::Off), stopped(rule(), &[":x"]));
    assert_eq!((held.text.as_str(), held.shown.as_str()), ("code:42", "code:42"));
}

#[test]
fn no_copy_is_begun_that_may_not_fit() {
    for (said, max_tokens) in [("code:more", 5), ("code:", 5), ("code:", 6), ("code:\n", 6)] {
        let asked = Request { max_tokens, ..stopped(rule(), &["\n"]) };
        let read = read(&over(said, Drafting::Off), asked);
        assert_eq!((read.text.as_str(), read.shown.as_str()), ("code:", "code:"));
        assert_eq!((read.notes.len(), read.notes[0].outcome), (1, Outcome::Left));
        assert_eq!(read.output_tokens, read.ids.len());
    }
    let fits = read(&over("code:", Drafting::Off), Request { max_tokens: 7, ..stopped(rule(), &[]) });
    assert_eq!((fits.text.as_str(), fits.end), ("code:42", Some((FinishReason::MaxTokens, None))));
    // A wrong number is better than half of a right one.
    let cut = read(&over("is 1 or 2", Drafting::Off), Request { max_tokens: 4, ..about(numbers(16)) });
    assert_eq!((cut.text.as_str(), cut.notes[0].outcome), ("is 1", Outcome::Left));
    // The source has nothing to put there.
    let lacks = Request { ids: vec![0, 65, 66], ..stopped(rule(), &[]) };
    assert_eq!(read(&over("code:", Drafting::Off), lacks).notes[0].outcome, Outcome::NothingToCopy);
}

#[test]
fn a_token_that_can_be_taken_back_is_not_told_as_certain() {
    for token_events in [TokenEvents::Verified, TokenEvents::Provisional] {
        let scheduler = over("is 17 ok", Drafting::Off);
        let looked_at = read(&scheduler, Request { token_events, ..about(numbers(16)) });
        assert_eq!((looked_at.shown.as_str(), looked_at.certain), ("is 42 ok", 0));
        let plain = read(&scheduler, Request { token_events, ids: vec![0, 52, 50], ..request(0) });
        assert_eq!((plain.shown.as_str(), plain.certain), ("is 17 ok", 8));
    }
}

#[test]
fn what_is_sent_stays() {
    // The mark comes when the number has been sent.
    let rule = Rule::new("code", "a", "b", 9).unwrap();
    let validation = Validation { rules: vec![rule].into(), reach_tokens: 5, ..Validation::default() };
    let read = read(&over("a 1 2 3 4 5 6 7", Drafting::Off), about(validation));
    assert_eq!(read.text, "a 1 2 3 4 5 6 7");
    assert_eq!(read.notes[0].outcome, Outcome::NothingToCopy);
    assert!(read.pieces > 5);
}

#[test]
fn nothing_is_held_back_of_others() {
    let scheduler = over("is 17 ok", Drafting::Off);
    let read = read(&scheduler, Request { ids: vec![0, 52, 50], ..request(0) });
    assert_eq!((read.text.as_str(), read.pieces, read.notes.len()), ("is 17 ok", 8, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]
    #[test]
    fn what_is_shown_and_sent_is_one_answer(
        text in "[0-9a .é]{0,40}",
        reach_tokens in 5_usize..20,
        repetition in any::<bool>(),
        with_rule in any::<bool>(),
        stop in proptest::option::of("[a1 ]{1,3}"),
        max_tokens in 1_usize..50,
        always in any::<bool>(),
    ) {
        let drafting = if always { Drafting::Always } else { Drafting::Off };
        let scheduler = over(&text, drafting);
        let mut validation = Validation { repetition, ..numbers(reach_tokens) };
        if with_rule {
            validation.rules = vec![Rule::new("code", "[a.é]", " ?42", 3).unwrap()].into();
        }
        let asked = Request { max_tokens, stop: stop.into_iter().collect(), ..about(validation) };
        let whole = read(&scheduler, asked.clone());
        for token_events in [TokenEvents::Verified, TokenEvents::Provisional] {
            let seen = read(&scheduler, Request { token_events, ..asked.clone() });
            prop_assert_eq!(&seen.text, &whole.text);
            prop_assert_eq!(&seen.shown, &whole.text);
            prop_assert_eq!(seen.output_tokens, seen.ids.len());
            prop_assert_eq!(&seen.notes, &whole.notes);
            prop_assert_eq!(&seen.end, &whole.end);
            prop_assert!(seen.output_tokens <= max_tokens);
        }
        prop_assert_eq!(scheduler.statistics().unwrap().kv_blocks_used, 0);
    }

    #[test]
    fn no_wrong_number_goes_out_without_a_note(
        text in "[0-9a .–é\n]{0,40}",
        reach_tokens in 5_usize..20,
        stops in proptest::collection::vec("[a17.–é\n ]{1,3}", 0..3),
        max_tokens in 1_usize..50,
    ) {
        let asked = Request { max_tokens, stop: stops, ..about(numbers(reach_tokens)) };
        let read = read(&over(&text, Drafting::Off), asked);
        let source = Source::new("42".to_owned());
        let numbers = atoms(&read.text).filter(|atom| atom.kind == AtomKind::Number);
        for number in numbers.map(|atom| &read.text[atom.range]).filter(|number| !source.has(number)) {
            let mut left = read.notes.iter().filter(|note| note.outcome != Outcome::Redone);
            prop_assert!(left.any(|note| note.text == number), "{} {:?}", number, read.notes);
        }
    }
}
