//! Readers who see guesses end with the answer of those who do not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use proptest::prelude::*;
use support::scripted::*;
use support::wild::Wild;
use zlrs_engine::ring::{RING_DEPTH, TokenEvent, TokenEvents};
use zlrs_engine::scheduler::SchedulerOptions;
use zlrs_engine::{Drafting, Event, Generation, Request};

/// What a reader of token events keeps.
#[derive(Debug, Default)]
struct Reader {
    texts: Vec<String>,
    open: Vec<usize>,
    corrections: usize,
    guessed: usize,
}

impl Reader {
    fn read(&mut self, event: TokenEvent) {
        match event {
            TokenEvent::Token { index, text, provisional } => {
                assert!(index <= self.texts.len(), "a gap before {index}");
                if index == self.texts.len() {
                    self.texts.push(text);
                } else {
                    // Taken back before.
                    assert_eq!(self.texts[index], "");
                    self.texts[index] = text;
                }
                if provisional {
                    self.guessed += 1;
                    self.open.push(index);
                } else {
                    self.open.retain(|&open| open > index);
                }
            }
            TokenEvent::Correction { index, original, corrected } => {
                assert_eq!(self.texts[index], original);
                assert_ne!(original, corrected);
                assert!(self.open.contains(&index), "{index} of {:?}", self.open);
                self.texts[index] = corrected;
                self.corrections += 1;
            }
        }
        let last = self.texts.len().saturating_sub(1);
        self.open.retain(|&open| open + RING_DEPTH > last);
    }
}

/// The answer's text, what the reader of token events has, and how it ended.
fn read(mut generation: Generation) -> (String, Vec<u32>, Reader, String) {
    let (mut text, mut ids, mut reader) = (String::new(), Vec::new(), Reader::default());
    loop {
        match generation.next_blocking().unwrap().unwrap() {
            Event::Started { .. } => {}
            Event::Delta { text: more, ids: more_ids } => {
                text.push_str(&more);
                ids.extend(more_ids);
            }
            Event::Token(event) => reader.read(event),
            Event::Finished(end) => {
                return (text, ids, reader, format!("{:?} {:?}", end.reason, end.stop_sequence));
            }
            Event::Failed(error) => return (text, ids, reader, error.to_string()),
        }
    }
}

/// Reads the rest with the gate open. The step that shuts it may come later than what is shown before it.
fn go_on(gate: &Gate, generation: &mut Generation, reader: &mut Reader) {
    while !generation.is_ended() {
        gate.open();
        for event in generation.wait(std::time::Duration::from_millis(5)).unwrap() {
            if let Event::Token(event) = event {
                reader.read(event);
            }
        }
    }
}

#[test]
fn guesses_are_shown_before_the_step_that_verifies_them() {
    let mut backend = Scripted::new(vec![says("abababab")]);
    // The gate shuts before the first step that has guesses.
    backend.shut_after = 4;
    let gate = std::sync::Arc::clone(&backend.gate);
    let options = SchedulerOptions { drafting: Drafting::Always, ..SchedulerOptions::default() };
    let scheduler = scheduler(backend, options);
    let asked = Request { max_tokens: 8, token_events: TokenEvents::Provisional, ..request(0) };
    let mut generation = scheduler.submit(asked).unwrap();
    let mut seen = Vec::new();
    while !seen.iter().any(|event| matches!(event, TokenEvent::Token { provisional: true, .. })) {
        if let Event::Token(event) = generation.next_blocking().unwrap().unwrap() {
            seen.push(event);
        }
    }
    // Nothing but the three steps before the gate is certain.
    let certain = seen.iter().filter(|event| matches!(event, TokenEvent::Token { provisional: false, .. }));
    assert_eq!(certain.count(), 3);
    let mut reader = Reader::default();
    for event in seen {
        reader.read(event);
    }
    go_on(&gate, &mut generation, &mut reader);
    assert_eq!(reader.texts.concat(), "abababab");
}

#[test]
fn nobody_is_told_of_tokens_who_did_not_ask() {
    let options = SchedulerOptions { drafting: Drafting::Always, ..SchedulerOptions::default() };
    let scheduler = scheduler(Scripted::new(vec![says(&"ab".repeat(20))]), options);
    let (text, _, reader, _) = read(scheduler.submit(request(0)).unwrap());
    assert_eq!((text, reader.texts.len()), ("ab".repeat(20), 0));
    let asked = Request { token_events: TokenEvents::Verified, ..request(0) };
    let (text, _, reader, _) = read(scheduler.submit(asked).unwrap());
    assert_eq!((text, reader.guessed, reader.corrections), (reader.texts.concat(), 0, 0));
    assert_eq!(reader.texts.len(), 40);
}

fn say() -> impl Strategy<Value = Say> {
    prop_oneof![
        12 => (97_u32..100).prop_map(Say::Token),
        1 => Just(Say::Token(CONTROL)),
        2 => Just(Say::Token(0xC3)),
        2 => Just(Say::Token(0xA9)),
        1 => Just(Say::Token(END)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
    #[test]
    fn what_is_shown_ends_as_what_is_answered(
        script in proptest::collection::vec(say(), 0..60),
        guesses in proptest::collection::vec(
            prop_oneof![6 => 97_u32..100, 2 => Just(0xC3), 2 => Just(0xA9), 1 => Just(END), 1 => Just(CONTROL)], 1..12),
        max_tokens in 1_usize..70,
        stop in proptest::option::of("[abcé]{1,4}"),
    ) {
        let asked = Request { max_tokens, stop: stop.into_iter().collect(), ..request(0) };
        let plain = scheduler(Scripted::new(vec![script.clone()]), SchedulerOptions::default());
        let (text, ids, _, end) = read(plain.submit(asked.clone()).unwrap());
        for source in [None, Some(Wild(guesses))] {
            let mut options = SchedulerOptions { drafting: Drafting::Always, ..SchedulerOptions::default() };
            if let Some(source) = source {
                options.drafts = Box::new(source);
            }
            let scheduler = scheduler(Scripted::new(vec![script.clone()]), options);
            for _ in 0..2 {
                let asked = Request { token_events: TokenEvents::Provisional, ..asked.clone() };
                let seen = read(scheduler.submit(asked).unwrap());
                prop_assert_eq!((&seen.0, &seen.1, &seen.3), (&text, &ids, &end));
                prop_assert_eq!(seen.2.texts.concat(), text.clone());
            }
        }
    }
}

#[test]
fn a_question_that_is_asked_again_is_guessed_from_its_first_token() {
    let mut backend = Scripted::new(vec![says("vwxyz")]);
    let gate = std::sync::Arc::clone(&backend.gate);
    // The first answer takes a step for the prompt and one for each token but the last, then one for the end.
    backend.shut_after = 7;
    let options = SchedulerOptions { drafting: Drafting::Always, ..SchedulerOptions::default() };
    let scheduler = scheduler(backend, options);
    let asked = Request { max_tokens: 9, token_events: TokenEvents::Provisional, ..request(0) };
    assert_eq!(read(scheduler.submit(asked.clone()).unwrap()).0, "vwxyz");
    assert_eq!(gate.steps.load(std::sync::atomic::Ordering::SeqCst), 6);
    let mut again = scheduler.submit(asked).unwrap();
    let mut reader = Reader::default();
    while reader.guessed < RING_DEPTH {
        if let Event::Token(event) = again.next_blocking().unwrap().unwrap() {
            reader.read(event);
        }
    }
    // No step of it is done.
    assert_eq!((reader.texts.concat(), reader.corrections), ("vwxyz".to_owned(), 0));
    go_on(&gate, &mut again, &mut reader);
    assert_eq!((reader.texts.concat(), reader.corrections), ("vwxyz".to_owned(), 0));
}
