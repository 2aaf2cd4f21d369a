//! The network against its plain form, its file, its search and its trainer.
#![allow(clippy::unwrap_used, reason = "a test stops at what is wrong")]

use zlrs_fingerprint::train::{Options, Sample, TrainError, generated_samples, quality, train};
use zlrs_fingerprint::{
    DIMENSIONS, FileError, Fingerprint, Forms, Network, PREPARED_BYTES_MAX, Weights, naive, prepared,
};

/// Numbers without a pattern.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

fn cosine(one: &str, other: &str) -> f64 {
    let network = Network::shipped().unwrap();
    network.fingerprint(one).unwrap().cosine(&network.fingerprint(other).unwrap())
}

#[test]
fn wordings_of_one_question_are_near_and_another_subject_is_far() {
    let one = "Where is my order 4711?";
    let other = "Could you tell me where my order 4711 is right now?";
    assert!(cosine(one, other) >= 0.9, "{}", cosine(one, other));
    for programming in [
        "How do I implement a binary tree in Python?",
        "Write a Java function that computes prime numbers.",
        "Why does the borrow checker reject this closure?",
    ] {
        for order in [one, other] {
            assert!(cosine(order, programming) <= 0.2, "{programming}: {}", cosine(order, programming));
        }
    }
}

#[test]
fn integers_in_any_registers_are_the_plain_ones() {
    let network = Network::shipped().unwrap();
    let mut numbers = Numbers(1);
    let letters: Vec<char> =
        "abcdefghijklmnopqrstuvwxyz  ,.'?-ÄéЖ订单號1234567890\u{E000};🙂".chars().collect();
    let mut seen = 0;
    for length in (0..260).chain([1000]) {
        let text: String =
            (0..length).map(|_| letters[(numbers.next() % letters.len() as u64) as usize]).collect();
        let fast = network.fingerprint(&text);
        assert_eq!(fast, naive::fingerprint(network.weights(), &text), "{text:?}");
        seen += u32::from(fast.is_some());
    }
    assert!(seen > 150);
    assert_eq!(network.fingerprint("1234 ?!"), None, "no letters");
    assert_eq!(network.fingerprint(&"word ".repeat(60)), None, "too long");
}

#[test]
fn values_and_spelling_of_the_ask_change_nothing() {
    let network = Network::shipped().unwrap();
    let of = |text: &str| network.fingerprint(text).unwrap();
    assert_eq!(of("Where is order 1042?"), of("where is order 7,000.5"));
    assert_eq!(of("Where is order 1042?"), of("where is order \u{E000}number;?"));
    assert_eq!(prepared("Was  kostet's?").unwrap(), " was kostets ");
    assert!(prepared(&"é".repeat(127)).is_some_and(|text| text.len() == PREPARED_BYTES_MAX));
    assert_eq!(prepared(&"é".repeat(128)), None);
}

#[test]
fn the_file_is_small_whole_and_says_when_it_is_not() {
    let file = Network::shipped_bytes();
    assert!(file.len() <= 1 << 20 && Weights::COUNT <= 800_000, "{} {}", file.len(), Weights::COUNT);
    let weights = Weights::from_bytes(file).unwrap();
    assert_eq!(weights.to_bytes(), file);
    assert_eq!(Weights::from_bytes(b""), Err(FileError::Foreign));
    assert_eq!(Weights::from_bytes(&file[1..]), Err(FileError::Foreign));
    let short = Weights::from_bytes(&file[..file.len() - 1]);
    assert_eq!(short, Err(FileError::Length { given: file.len() - 1, expected: file.len() }));
    let spoiled = Weights { factor_3: vec![f32::NAN; DIMENSIONS], ..weights.clone() };
    assert_eq!(Weights::from_bytes(&spoiled.to_bytes()), Err(FileError::Range));
    let spoiled = Weights { bias_2: vec![i32::MIN; weights.bias_2.len()], ..weights };
    assert_eq!(Weights::from_bytes(&spoiled.to_bytes()), Err(FileError::Range));
}

#[test]
fn no_bytes_of_a_file_make_it_fail_later() {
    let mut numbers = Numbers(2);
    for _ in 0..20 {
        let mut file = Network::shipped_bytes().to_vec();
        for _ in 0..2000 {
            let at = 8 + (numbers.next() as usize) % (file.len() - 8);
            file[at] = numbers.next() as u8;
        }
        if let Ok(weights) = Weights::from_bytes(&file) {
            let text = "where is my order and what does it cost to send it back to you";
            let plain = naive::fingerprint(&weights, text);
            assert_eq!(Network::new(weights).fingerprint(text), plain);
        }
    }
}

#[test]
fn the_nearest_are_those_of_a_plain_sort() {
    let mut numbers = Numbers(3);
    let mut random = || Fingerprint(std::array::from_fn(|_| (numbers.next() % 255) as i8));
    let all: Vec<Fingerprint> = (0..2000).map(|_| random()).collect();
    let mut forms = Forms::new(5000);
    for (name, fingerprint) in all.iter().enumerate() {
        assert_eq!(forms.add(fingerprint, name), None);
    }
    for _ in 0..20 {
        let wanted = random();
        let mut plain: Vec<(f64, usize)> =
            all.iter().enumerate().map(|(name, found)| (wanted.cosine(found), name)).collect();
        plain.sort_by(|left, right| right.0.total_cmp(&left.0));
        let near = forms.nearest(&wanted, -1.0, 7);
        assert_eq!(near.len(), 7);
        for (near, (cosine, name)) in near.iter().zip(&plain) {
            assert!((f64::from(near.cosine) - cosine).abs() < 1e-6 && near.value == name);
        }
        let least = plain[3].0 as f32 - 1e-6;
        assert_eq!(forms.nearest(&wanted, least, 7).len(), 4);
    }
    assert!(forms.nearest(&Fingerprint([0; DIMENSIONS]), -1.0, 3).is_empty());
}

#[test]
fn the_oldest_form_gives_way() {
    let one = |at: usize| {
        let mut row = [0; DIMENSIONS];
        row[at] = 9;
        Fingerprint(row)
    };
    let mut forms = Forms::new(3);
    let gone: Vec<Option<usize>> = (0..5).map(|at| forms.add(&one(at), at)).collect();
    assert_eq!(gone, [None, None, None, Some(0), Some(1)]);
    let found = |at: usize| forms.nearest(&one(at), 0.9, 1).first().map(|near| *near.value);
    assert_eq!((0..5).map(found).collect::<Vec<_>>(), [None, None, Some(2), Some(3), Some(4)]);
    assert_eq!(Forms::new(0).add(&one(1), 1), Some(1));
}

/// Questions enough for a batch.
fn questions() -> Vec<Sample> {
    let mut samples = generated_samples();
    for topic in 0..80 {
        let topic = format!("{}{}", char::from(b'a' + topic % 26), char::from(b'a' + topic / 26));
        for wording in ["where is the", "please show me the", "i look for the"] {
            samples.push(Sample { text: format!("{wording} {topic} {topic}{topic}"), label: topic.clone() });
        }
    }
    samples
}

#[test]
fn training_gives_the_same_bytes_with_any_number_of_threads_and_others_from_another_seed() {
    let samples = questions();
    let file =
        |seed, threads| train(&samples, Options { seed, steps: 3, threads }, |_, _| true).unwrap().to_bytes();
    let first = file(1, 1);
    assert!(first == file(1, 2) && first == file(1, 7));
    assert!(first != file(2, 2));
    // What the first machine made; every other one makes the same.
    let sum = first
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    assert_eq!(format!("{sum:016x}"), THREE_STEPS);
}

/// FNV-1a of the file after three steps from seed 1.
const THREE_STEPS: &str = "debc50ddab034813";

#[test]
fn training_teaches() {
    let samples = questions();
    let mut losses = Vec::new();
    let options = Options { seed: 1, steps: 200, threads: 2 };
    let weights = train(&samples, options, |_, loss| {
        losses.push(loss);
        true
    })
    .unwrap();
    assert!(losses.len() == 2 && losses[1] < losses[0] * 0.9, "{losses:?}");
    let network = Network::new(weights);
    let held_out = [Sample { text: "where is the aa aaaa please".into(), label: "aa".into() }];
    let quality = quality(&network, &samples, &held_out, &[0.0]);
    assert_eq!((quality.texts, quality.nearest), (1, 1.0));
}

#[test]
fn too_little_is_an_error() {
    let samples = vec![Sample { text: "one wording".into(), label: "a".into() }; 9];
    let options = Options { seed: 1, steps: 1, threads: 1 };
    assert_eq!(train(&samples, options, |_, _| true), Err(TrainError::TooLittle { given: 1 }));
}
