//! Guesses change no token: whatever is guessed, answers, endings and errors are those without guesses.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use std::sync::atomic::Ordering;

use proptest::prelude::*;
use support::scripted::*;
use support::wild::Wild;
use zlrs_engine::sampling::Sampling;
use zlrs_engine::scheduler::{Scheduler, SchedulerOptions};
use zlrs_engine::{Drafting, EngineError, Event, FinishReason, Request, Tenant};

fn over(scripts: Vec<Vec<Say>>, drafting: Drafting) -> Scheduler {
    scheduler(Scripted::new(scripts), SchedulerOptions { drafting, ..SchedulerOptions::default() })
}

/// Text, ids and how it ended, with what a caller cannot see left out.
fn answer(scheduler: &Scheduler, request: Request) -> (String, Vec<u32>, String) {
    let (text, ids, last) = collect(scheduler.submit(request).unwrap());
    let end = match last {
        Event::Finished(last) => {
            assert!(last.usage.accepted_tokens <= last.usage.drafted_tokens);
            format!("{:?} {:?} {}", last.reason, last.stop_sequence, last.usage.output_tokens)
        }
        Event::Failed(error) => error.to_string(),
        other => panic!("{other:?}"),
    };
    (text, ids, end)
}

#[test]
fn what_repeats_takes_few_steps() {
    let text = "serving ".repeat(24);
    let plain = over(vec![says(&text)], Drafting::Off);
    let drafted = over(vec![says(&text)], Drafting::Always);
    let asked = Request { max_tokens: 180, ..request(0) };
    assert_eq!(answer(&plain, asked.clone()), answer(&drafted, asked.clone()));
    let (few, many) = (drafted.statistics().unwrap(), plain.statistics().unwrap());
    assert_eq!((many.steps, many.tokens_drafted), (180, 0));
    assert!(few.steps < 60, "{few:?}");
    assert!(few.tokens_accepted > 100 && few.tokens_drafted >= few.tokens_accepted);
    assert_eq!(few.tokens_decoded, 180);
    // The second time the whole answer is known.
    answer(&drafted, asked);
    let again = drafted.statistics().unwrap();
    assert!(again.steps - few.steps <= few.steps);
}

#[test]
fn answers_of_one_tenant_are_not_guessed_for_another() {
    let text: String = (67..127).map(char::from).collect();
    let scheduler = over(vec![says(&text)], Drafting::Always);
    let of = |tenant| Request { max_tokens: 60, tenant: Tenant([tenant; 32]), ..request(0) };
    let accepted = |tenant| finished(scheduler.submit(of(tenant)).unwrap()).2.usage.accepted_tokens;
    assert_eq!(accepted(1), 0);
    assert!(accepted(1) > 40);
    assert_eq!(accepted(2), 0);
}

fn say() -> impl Strategy<Value = Say> {
    prop_oneof![
        12 => (97_u32..100).prop_map(Say::Token),
        1 => Just(Say::Token(CONTROL)),
        1 => Just(Say::Token(0xC3)),
        1 => Just(Say::Token(END)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]
    #[test]
    fn any_guesses_give_the_same_answers(
        script in proptest::collection::vec(say(), 0..60),
        guesses in proptest::collection::vec(prop_oneof![6 => 97_u32..100, 1 => Just(END), 1 => Just(259)], 1..12),
        max_tokens in 1_usize..70,
        stop in proptest::option::of("[abc]{1,4}"),
        temperature in prop_oneof![Just(0.0_f32), Just(0.7)],
        repetition_penalty in prop_oneof![Just(1.0_f32), Just(1.4)],
        bias in proptest::option::of((97_u32..100, -2.0_f32..2.0)),
        fails_at in proptest::option::of(0_usize..60),
    ) {
        let mut script = script;
        if let Some(index) = fails_at.filter(|&index| index < script.len()) {
            script[index] = Say::NotANumber(5);
        }
        let sampling = Sampling {
            temperature, repetition_penalty, seed: Some(7), logit_bias: bias.into_iter().collect(), ..Sampling::default()
        };
        let asked = Request { max_tokens, sampling, stop: stop.into_iter().collect(), ..request(0) };
        let plain = answer(&over(vec![script.clone()], Drafting::Off), asked.clone());
        for source in [None, Some(Wild(guesses))] {
            let mut options = SchedulerOptions { drafting: Drafting::Always, ..SchedulerOptions::default() };
            if let Some(source) = source {
                options.drafts = Box::new(source);
            }
            let scheduler = scheduler(Scripted::new(vec![script.clone()]), options);
            prop_assert_eq!(&answer(&scheduler, asked.clone()), &plain);
            prop_assert_eq!(&answer(&scheduler, asked.clone()), &plain);
            let statistics = scheduler.statistics().unwrap();
            prop_assert_eq!((statistics.kv_blocks_used, statistics.running), (0, 0));
        }
    }
}

#[test]
fn guesses_make_nobody_wait_for_memory() {
    // Three answers of 7 blocks in 9: with or without guesses the same number has to make way.
    let run = |drafting| {
        let mut backend = Scripted::new((0..3).map(|_| says(&"ab".repeat(50))).collect());
        backend.shape.blocks = 9;
        let scheduler = scheduler(backend, SchedulerOptions { drafting, ..SchedulerOptions::default() });
        let of = |script| Request { max_tokens: 100, ..request(script) };
        let all: Vec<_> = (0..3).map(|script| scheduler.submit(of(script)).unwrap()).collect();
        for generation in all {
            assert_eq!(finished(generation).0, "ab".repeat(50));
        }
        let statistics = scheduler.statistics().unwrap();
        assert_eq!(statistics.kv_blocks_used, 0);
        assert!(statistics.kv_blocks_peak <= 9);
    };
    run(Drafting::Off);
    run(Drafting::Always);
}

#[test]
fn a_panic_in_a_step_with_guesses_loses_its_requests_only() {
    let mut panics = says(&"ab".repeat(10));
    panics.push(Say::Panic);
    let backend = Scripted::new(vec![panics, says("fine")]);
    let recovered = std::sync::Arc::clone(&backend.recovered);
    let scheduler =
        scheduler(backend, SchedulerOptions { drafting: Drafting::Always, ..SchedulerOptions::default() });
    let (text, _, last) = collect(scheduler.submit(request(0)).unwrap());
    assert!("ab".repeat(10).starts_with(&text));
    assert!(matches!(last, Event::Failed(EngineError::Panicked { .. })));
    let (text, _, last) = finished(scheduler.submit(request(1)).unwrap());
    assert_eq!((text.as_str(), last.reason), ("fine", FinishReason::Stop));
    assert_eq!(recovered.load(Ordering::SeqCst), 1);
    assert_eq!(scheduler.statistics().unwrap().kv_blocks_used, 0);
}
