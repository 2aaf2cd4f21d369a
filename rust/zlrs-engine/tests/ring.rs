//! What marks tokens: rules, sources, heads from anywhere, and how a head is fitted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use safetensors::{Dtype, tensor::TensorView};
use support::scripted::{Bytes, END};
use zlrs_engine::ring::features::{FeatureReader, RowFacts, SCALARS};
use zlrs_engine::ring::fit::{FitOptions, Samples, auroc, fit, threshold};
use zlrs_engine::ring::*;

const WIDTH: usize = 24;

fn spans(text: &str) -> Vec<(&str, AtomKind)> {
    atoms(text).map(|atom| (&text[atom.range], atom.kind)).collect()
}

#[test]
fn words_and_numbers() {
    use AtomKind::{Name, Number, Word};
    let text = "On 12.03.2024, Anna paid 1,250.50 (A12) twice.";
    let expected = [
        ("On", Name),
        ("12.03.2024", Number),
        ("Anna", Name),
        ("paid", Word),
        ("1,250.50", Number),
        ("A12", Number),
        ("twice", Word),
    ];
    assert_eq!(spans(text), expected);
    assert_eq!(spans("2020年5月"), [("2020", Number), ("年", Word), ("5", Number), ("月", Word)]);
    assert_eq!(canonical("1,250,000.5"), "1250000.5");
    assert_eq!(canonical("1,2"), "1,2");
    let source = Source::new(text.to_owned());
    assert!(source.has("1250.50") && source.has("A12") && !source.has("12") && !source.has("250"));
    assert_eq!(source.spans(Number), ["12.03.2024", "1,250.50", "A12"]);
    assert!(source.has_beginning("1,25") && !source.has_beginning("13"));
}

#[test]
fn a_rule_waits_until_it_can_tell() {
    let rule = Rule::new("icd", r"Diagnosis: [A-Z][a-z]+", r" \([A-Z]\d\d\)", 20).unwrap();
    let check = |text: &str| rule.check(text, 0, false);
    assert_eq!(check("Diagnosis: As"), Verdict::Absent);
    assert_eq!(check("Diagnosis: Asthma ("), Verdict::Open);
    assert_eq!(check("Diagnosis: Asthma (J45)"), Verdict::Kept(0, 17));
    assert_eq!(check("Diagnosis: Asthma\n"), Verdict::Broken(0, 17));
    assert_eq!(check("Diagnosis: Asthma, since the year 2001"), Verdict::Broken(0, 17));
    assert_eq!(rule.check("Diagnosis: Asthma (", 0, true), Verdict::Broken(0, 17));
    assert_eq!(rule.check("Diagnosis: Asthma", 0, true), Verdict::Broken(0, 17));
    assert_eq!(rule.spans("x (J45) y (J46) z (J45)", 9), [" (J45)", " (J46)"]);
    for bad in ["(", r"(?=a)", r"(a)\1", "(a{1000}){1000}"] {
        let error = Rule::new("bad", bad, "x", 9).unwrap_err();
        assert!(error.to_string().starts_with("rule \"bad\": "), "{error}");
    }
}

fn validation() -> Validation {
    Validation { reach_tokens: 64, ..Validation::default() }
}

/// Feeds a text byte by byte; the first redo.
fn feed(checker: &mut Checker, text: &str, oldest: usize) -> Option<Redo> {
    for (index, byte) in text.bytes().enumerate() {
        checker.read(u32::from(byte), &text[index..=index], None);
        if let Some(redo) = checker.judge(false, oldest) {
            return Some(redo);
        }
    }
    checker.judge(true, oldest)
}

fn copies(redo: &Redo) -> Vec<String> {
    match &redo.constraint {
        Constraint::Copy { spans, .. } => {
            spans.iter().map(|span| String::from_utf8_lossy(span).into_owned()).collect()
        }
        Constraint::Ban(token) => vec![format!("not {token}")],
    }
}

#[test]
fn numbers_that_the_source_lacks_are_decoded_again() {
    let settings = Arc::new(Validation { numbers: true, ..validation() });
    let checker = || Checker::new(Arc::clone(&settings), "born 1904, died 1,987".to_owned());
    assert_eq!(feed(&mut checker(), "She died in 1987, 1904 was the year.", 0), None);
    let mut wrong = checker();
    let redo = feed(&mut wrong, "It was 1905 then", 0).unwrap();
    assert_eq!((redo.start, copies(&redo)), (7, vec!["1904".to_owned(), "1,987".to_owned()]));
    // Twice at most from one place.
    for outcome in [Outcome::Redone, Outcome::Left] {
        wrong.rewind(7);
        assert_eq!(feed(&mut wrong, "1906 x", 0).is_some(), outcome == Outcome::Redone);
        assert_eq!(wrong.notes().last().unwrap().outcome, outcome);
    }
    let mut sent = checker();
    assert_eq!(feed(&mut sent, "It was 1905 then", 9), None);
    assert_eq!(sent.notes()[0].outcome, Outcome::BeyondRing);
    assert_eq!(sent.notes()[0].text, "1905");
    // At the end, and behind a point that may go on.
    assert!(feed(&mut checker(), "1905", 0).is_some());
    assert_eq!(feed(&mut checker(), "1904.", 0), None);
    assert!(feed(&mut checker(), "1904.5", 0).is_some());
    // Without a source there is nothing to compare with.
    assert_eq!(feed(&mut Checker::new(Arc::clone(&settings), String::new()), "1905", 0), None);
}

#[test]
fn repetition_and_rules() {
    let settings = Arc::new(Validation { repetition: true, ..validation() });
    let redo = feed(&mut Checker::new(settings, String::new()), "so abcdabcdabcd", 0).unwrap();
    assert_eq!((redo.start, copies(&redo)), (11, vec!["not 97".to_owned()]));
    let rule = Rule::new("icd", "code:", r" [A-Z]\d\d", 4).unwrap();
    let settings = Arc::new(Validation { rules: vec![rule].into(), ..validation() });
    let mut checker = Checker::new(settings, "asthma is J45".to_owned());
    let redo = feed(&mut checker, "code: J45 code: J4x", 0).unwrap();
    assert_eq!((redo.start, copies(&redo)), (15, vec![" J45".to_owned()]));
    assert_eq!(checker.notes()[0].by, "icd");
    checker.rewind(redo.start);
    assert_eq!(feed(&mut checker, " J45.", 0), None);
}

#[test]
fn a_copy_begins_where_bytes_and_text_are_the_same() {
    let settings = Arc::new(Validation { numbers: true, ..validation() });
    let mut checker = Checker::new(Arc::clone(&settings), "42".to_owned());
    // A character in two tokens, the second of which has a number too; then one that is never whole.
    checker.read(0, "", None);
    checker.cut();
    checker.read(1, "é17", None);
    let redo = checker.judge(true, 0).unwrap();
    assert_eq!((redo.start, copies(&redo)), (0, vec!["é42".to_owned()]));
    checker.rewind(0);
    checker.read(2, "\u{FFFD}17", None);
    assert_eq!(checker.judge(true, 0), None);
    assert_eq!(checker.notes()[1].outcome, Outcome::NothingToCopy);
    // Text that comes at the end belongs to tokens before it.
    let mut checker = Checker::new(settings, "42".to_owned());
    checker.read(3, "is ", None);
    for token in [4, 5] {
        checker.read(token, "", None);
        checker.cut();
    }
    checker.finish("17");
    let redo = checker.judge(true, 0).unwrap();
    assert_eq!((redo.start, copies(&redo)), (1, vec!["42".to_owned()]));
}

#[test]
fn a_copy_must_fit() {
    let spans = || vec![b" 1904".to_vec(), b"42".to_vec()];
    let copy = |spans| Constraint::Copy { spans, written: Vec::new() };
    assert_eq!(copy(spans()).within(5), Some(copy(spans())));
    assert_eq!(copy(spans()).within(4), Some(copy(vec![b"42".to_vec()])));
    assert_eq!(copy(spans()).within(1), None);
    assert_eq!(
        (Constraint::Ban(7).within(1), Constraint::Ban(7).within(0)),
        (Some(Constraint::Ban(7)), None)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn atoms_are_in_order_and_whole(text in "\\PC{0,24}|[0-9a,.A ]{0,24}") {
        let mut end = 0;
        for atom in atoms(&text) {
            prop_assert!(atom.range.start >= end && atom.range.end > atom.range.start);
            prop_assert!(text[end..atom.range.start].chars().all(|character| !character.is_alphanumeric()));
            end = atom.range.end;
        }
        prop_assert!(text[end..].chars().all(|character| !character.is_alphanumeric()));
    }

    #[test]
    fn a_bound_answer_spells_a_span(
        spans in proptest::collection::vec("[ab12]{1,4}", 1..4),
        logits in proptest::collection::vec(-4.0_f32..4.0, 260 * 6),
    ) {
        let vocabulary = Bytes::new();
        let bytes: Vec<Vec<u8>> = spans.iter().map(|span| span.clone().into_bytes()).collect();
        let mut constraint = Constraint::Copy { spans: bytes, written: Vec::new() };
        let mut written = String::new();
        for row in logits.chunks_exact(260) {
            let token = constraint.choose(row, &*vocabulary).unwrap();
            let allowed = |token: u32| {
                let byte = u8::try_from(token).ok();
                let extends = byte.is_some_and(|byte| {
                    let next = format!("{written}{}", char::from(byte));
                    byte.is_ascii() && spans.iter().any(|span| span.starts_with(&next))
                });
                let free = spans.contains(&written)
                    && token <= END + 1 && !byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
                extends || free
            };
            prop_assert!(allowed(token));
            let best = (0..260_u32).filter(|&token| allowed(token)).map(|token| row[token as usize]);
            prop_assert_eq!(row[token as usize], best.fold(f32::NEG_INFINITY, f32::max));
            let Ok(byte) = u8::try_from(token) else { break };
            if !constraint.advance(&[byte]) {
                break;
            }
            written.push(char::from(byte));
        }
        prop_assert!(written.is_empty() || spans.iter().any(|span| span.starts_with(&written)));
    }

    #[test]
    fn no_bytes_are_a_danger(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0_usize..2000) {
        prop_assert!(Head::read(&bytes).is_err());
        let file = some_head().write(false, 0.5, described()).unwrap();
        let mut damaged = file.clone();
        damaged.truncate(cut.min(file.len() - 1));
        prop_assert!(Head::read(&damaged).is_err());
        let mut changed = file;
        for (index, byte) in bytes.iter().enumerate() {
            let at = (cut + index * 7) % changed.len();
            changed[at] ^= byte;
        }
        // Read or refused, and if read then finite.
        if let Ok(head) = Head::read(&changed) {
            prop_assert!(head.score(&vec![1.0; head.width()], &[1.0; SCALARS]).is_finite());
        }
    }

    #[test]
    fn the_area_counts_pairs(items in proptest::collection::vec((0_u8..6, any::<bool>()), 0..40)) {
        let scores: Vec<f32> = items.iter().map(|item| f32::from(item.0)).collect();
        let labels: Vec<bool> = items.iter().map(|item| item.1).collect();
        let (mut pairs, mut won) = (0.0, 0.0);
        for (index, &label) in labels.iter().enumerate() {
            for other in (0..labels.len()).filter(|&other| label && !labels[other]) {
                pairs += 1.0;
                won += match scores[index].total_cmp(&scores[other]) {
                    std::cmp::Ordering::Greater => 1.0,
                    std::cmp::Ordering::Equal => 0.5,
                    std::cmp::Ordering::Less => 0.0,
                };
            }
        }
        match auroc(&scores, &labels) {
            None => prop_assert_eq!(pairs, 0.0),
            Some(area) => prop_assert!((area - won / pairs).abs() < 1e-9),
        }
        let limit = threshold(&scores, &labels, 0.25);
        let right = labels.iter().filter(|&&label| !label).count();
        let marked = scores.iter().zip(&labels).filter(|&(&score, &label)| !label && score >= limit).count();
        prop_assert!(right == 0 || marked <= right / 4 || limit >= 1.0);
    }
}

fn described() -> HashMap<String, String> {
    HashMap::from([("model_sha256".to_owned(), "ab".repeat(32))])
}

/// Samples whose label is the sign of one value of the state.
fn separable(count: usize) -> Samples {
    let mut samples = Samples::new(WIDTH);
    let mut seed = 7_u32;
    for _ in 0..count {
        let mut state = [0.0; WIDTH];
        for value in &mut state {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *value = (seed >> 8) as f32 / (1 << 23) as f32 - 1.0;
        }
        samples.push(&state, [0.0; SCALARS], state[3] > 0.3);
    }
    samples
}

fn some_head() -> Head {
    fit(&separable(200), &FitOptions { hidden: 4, epochs: 1, ..FitOptions::default() })
}

#[test]
fn a_head_learns_and_survives_its_file() {
    let options = FitOptions { hidden: 8, epochs: 20, learning_rate: 0.01, ..FitOptions::default() };
    let head = fit(&separable(2000), &options);
    assert_eq!(head, fit(&separable(2000), &options));
    let test = separable(3000);
    let area = auroc(&test.scores(&head), test.labels()).unwrap();
    assert!(area > 0.95, "{area}");
    for int8 in [false, true] {
        let read = Head::read(&head.write(int8, 0.25, described()).unwrap()).unwrap();
        assert_eq!((read.width(), read.weights(), read.threshold()), (WIDTH, head.weights(), 0.25));
        assert_eq!(read.model_sha256(), "ab".repeat(32));
        let area = auroc(&test.scores(&read), test.labels()).unwrap();
        assert!(area > 0.94, "{area}");
    }
}

/// A tensor of a file.
type Part = (&'static str, Dtype, Vec<usize>, Vec<u8>);

#[test]
fn hostile_heads_are_refused_by_name() {
    let f16 = |count: usize| vec![0_u8; 2 * count];
    let good = || {
        vec![
            ("state", Dtype::F16, vec![2, WIDTH], f16(2 * WIDTH)),
            ("scalars", Dtype::F16, vec![2, SCALARS], f16(2 * SCALARS)),
            ("bias", Dtype::F16, vec![2], f16(2)),
            ("out", Dtype::F16, vec![2], f16(2)),
            ("out_bias", Dtype::F16, vec![1], f16(1)),
        ]
    };
    let file = |parts: &[Part], more: &[(&str, &str)]| {
        let mut metadata = described();
        metadata.insert("format".to_owned(), FORMAT.to_owned());
        metadata.insert("threshold".to_owned(), "0.5".to_owned());
        metadata.extend(more.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())));
        let views = parts
            .iter()
            .map(|(name, kind, shape, bytes)| (*name, TensorView::new(*kind, shape.clone(), bytes).unwrap()));
        safetensors::serialize(views, Some(metadata)).unwrap()
    };
    Head::read(&file(&good(), &[])).unwrap();
    let refused = |parts: &[Part], more: &[(&str, &str)], says: &str| {
        let error = Head::read(&file(parts, more)).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    };
    let with = |index: usize, part: Part| {
        let mut parts = good();
        parts[index] = part;
        parts
    };
    let mut nan = f16(2);
    nan[..2].copy_from_slice(&0x7E00_u16.to_le_bytes());
    refused(&with(2, ("bias", Dtype::F16, vec![2], nan)), &[], "all must be finite");
    let mut infinite = f16(2 * WIDTH);
    infinite[2..4].copy_from_slice(&0x7C00_u16.to_le_bytes());
    refused(&with(0, ("state", Dtype::F16, vec![2, WIDTH], infinite)), &[], "number 1 is inf");
    refused(&with(3, ("out", Dtype::F32, vec![2], vec![0; 8])), &[], "allowed: F16, I8");
    refused(&with(3, ("out", Dtype::F16, vec![3], f16(3))), &[], "wanted is [2]");
    refused(&with(1, ("scalars", Dtype::F16, vec![SCALARS, 2], f16(2 * SCALARS))), &[], "wanted is [2, 12]");
    refused(&with(0, ("state", Dtype::F16, vec![2 * WIDTH], f16(2 * WIDTH))), &[], "the model's width");
    refused(&with(0, ("state", Dtype::F16, vec![0, WIDTH], vec![])), &[], "hidden units");
    refused(
        &with(0, ("state", Dtype::I8, vec![2, WIDTH], vec![0; 2 * WIDTH])),
        &[],
        "\"state.scale\": is missing",
    );
    refused(&good()[1..], &[], "\"state\": is missing");
    let mut more = good();
    more.push(("extra", Dtype::F16, vec![1], f16(1)));
    refused(&more, &[], "\"extra\": is not part of a head");
    for scale in [0.0_f32, -1.0, f32::NAN] {
        let mut parts = with(0, ("state", Dtype::I8, vec![2, WIDTH], vec![0; 2 * WIDTH]));
        parts.push(("state.scale", Dtype::F32, vec![1], scale.to_le_bytes().to_vec()));
        refused(&parts, &[], "one finite F32 above 0");
    }
    refused(&good(), &[("format", "other")], "has format \"other\"");
    refused(&good(), &[("model_sha256", "12")], "64 hexadecimal digits");
    refused(&good(), &[("threshold", "nan")], "a number from 0 to 1");
    let wide: Part = ("state", Dtype::I8, vec![200, 1700], vec![0; 200 * 1700]);
    refused(&with(0, wide), &[], "300000 numbers");
    let long = Head::read(&vec![0; HEAD_BYTES_LIMIT + 1]).unwrap_err();
    assert!(long.to_string().contains("393217"), "{long}");
    // A header that says it is as long as memory.
    let mut lies = file(&good(), &[]);
    lies[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(matches!(Head::read(&lies), Err(HeadError::Format(_))));
}

#[test]
fn features_of_tokens() {
    let source = Source::new("Anna was born in 1904".to_owned());
    let mut reader = FeatureReader::default();
    let row = RowFacts::new(&[1.0, 3.0, 2.0, -1.0], 2);
    assert!((row.distance - 1.0).abs() < 1e-6 && (row.margin - 1.0).abs() < 1e-6);
    let mut read = |token: u32, text: &str| reader.read(&source, token, text, row);
    let anna = read(1, "Anna");
    assert_eq!(anna[4..9], [1.0, 1.0, 0.0, 1.0, 0.0]);
    assert_eq!(read(2, " not")[4..9], [0.0, 1.0, 0.0, 0.0, 1.0]);
    assert_eq!(read(3, " 19")[4..7], [1.0, 1.0, 1.0]);
    assert_eq!(read(4, "05")[4], 0.0);
    assert_eq!(read(5, ",")[9], 1.0);
    for (token, repeats) in [(1, 0.0), (2, 0.0), (3, 0.0), (4, 1.0)] {
        assert_eq!(read(token, " x")[11], repeats);
    }
}
