//! Answers that are followed by a checker go back to where they are likely wrong, and no reader sees two answers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use std::sync::Arc;

use proptest::prelude::*;
use support::scripted::*;
use zlrs_engine::ring::{Note, Outcome, Rule, TokenEvent, TokenEvents, Validation};
use zlrs_engine::scheduler::{Scheduler, SchedulerOptions};
use zlrs_engine::{Drafting, Event, Request};

/// A prompt of script 0 whose text is "42".
fn about(validation: Validation) -> Request {
    Request { ids: vec![0, 52, 50], validation: Some(Arc::new(validation)), ..request(0) }
}

fn over(text: &str, drafting: Drafting) -> Scheduler {
    scheduler(Scripted::new(vec![says(text)]), SchedulerOptions { drafting, ..SchedulerOptions::default() })
}

struct Read {
    text: String,
    ids: Vec<u32>,
    shown: String,
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
            Event::Token(TokenEvent::Token { index, text, .. }) => {
                assert!(index <= texts.len());
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
        stop in proptest::option::of("[a1 ]{1,3}"),
        max_tokens in 1_usize..50,
        always in any::<bool>(),
    ) {
        let drafting = if always { Drafting::Always } else { Drafting::Off };
        let scheduler = over(&text, drafting);
        let validation = Validation { repetition, ..numbers(reach_tokens) };
        let asked = Request { max_tokens, stop: stop.into_iter().collect(), ..about(validation) };
        let whole = read(&scheduler, asked.clone());
        for token_events in [TokenEvents::Verified, TokenEvents::Provisional] {
            let seen = read(&scheduler, Request { token_events, ..asked.clone() });
            prop_assert_eq!(&seen.text, &whole.text);
            prop_assert_eq!(&seen.shown, &whole.text);
            prop_assert_eq!(seen.output_tokens, seen.ids.len());
            prop_assert_eq!(&seen.notes, &whole.notes);
        }
        prop_assert_eq!(scheduler.statistics().unwrap().kv_blocks_used, 0);
    }
}
