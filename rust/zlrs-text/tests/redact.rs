//! Personal numbers: check digits, ranges, masks.

use proptest::prelude::*;
use zlrs_text::redact::{Personal, is_chinese_id, is_iban, is_luhn, masked, personal};

fn found(text: &str) -> Vec<(&str, &'static str)> {
    personal(text, Personal::ALL).into_iter().map(|(range, kind)| (&text[range], kind.name())).collect()
}

#[test]
fn what_is_found() {
    for (text, value, kind) in [
        ("身份证11010519491231002X。", "11010519491231002X", "chinese_id"),
        ("card 4111 1111 1111 1111 ok", "4111 1111 1111 1111", "bank_card"),
        ("card 5500-0000-0000-0004", "5500-0000-0000-0004", "bank_card"),
        ("手机13800138000，谢谢", "13800138000", "chinese_mobile"),
        ("+86 138 0013 8000", "+86 138 0013 8000", "chinese_mobile"),
        ("call +1 (555) 010-9999 now", "+1 (555) 010-9999", "phone"),
        ("to GB82 WEST 1234 5698 7654 32 PLEASE", "GB82 WEST 1234 5698 7654 32", "iban"),
        ("mail a.b+c@example.org.", "a.b+c@example.org", "email"),
    ] {
        assert_eq!(found(text), [(value, kind)], "{text:?}");
    }
}

#[test]
fn what_is_not_found() {
    for text in [
        "11010519491231002Y",
        "110105194912310021",
        "11010519491331002X",
        "4111 1111 1111 1112",
        "0000 0000 0000 0000",
        "12800138000",
        "138001380001",
        "GB82 WEST 1234 5698 7654 33",
        "x4111111111111111",
        "order 1234567890",
        "2025-03-04 12:00:00",
        "3.14159265358979",
    ] {
        assert_eq!(found(text), [], "{text:?}");
    }
    assert_eq!(personal("4111 1111 1111 1111", &[Personal::Email]), []);
}

#[test]
fn masks_keep_the_last_places_and_the_separators() {
    let text = "card 4111 1111 1111 1111, id 11010519491231002X";
    let spans = personal(text, Personal::ALL);
    assert_eq!(masked(text, &spans, '*', 4), "card **** **** **** 1111, id **************002X");
    assert_eq!(masked(text, &spans, '*', 0), "card **** **** **** ****, id ******************");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any one digit changed, and any two neighbours swapped but 0 and 9, are found out.
    #[test]
    fn luhn_finds_single_errors_and_swaps(digits in prop::collection::vec(0_u8..10, 12..18), at in 0_usize..12, by in 1_u8..10) {
        let text = |digits: &[u8]| digits.iter().map(|digit| char::from(b'0' + digit)).collect::<String>();
        let mut number = digits;
        let check = (0..10).find(|last| { let mut all = number.clone(); all.push(*last); is_luhn(&text(&all)) });
        prop_assume!(number.iter().any(|digit| *digit > 0));
        number.push(check.unwrap());
        let mut wrong = number.clone();
        wrong[at] = (wrong[at] + by) % 10;
        prop_assert!(!is_luhn(&text(&wrong)) || wrong.iter().all(|digit| *digit == 0));
        let mut swapped = number.clone();
        swapped.swap(at, at + 1);
        let pair = [number[at], number[at + 1]];
        if pair[0] != pair[1] && pair != [0, 9] && pair != [9, 0] {
            prop_assert!(!is_luhn(&text(&swapped)));
        }
    }

    #[test]
    fn one_check_digit_in_eleven_fits(area in 110_000_u32..660_000, year in 1900_u32..2020, month in 1_u32..13, day in 1_u32..29, serial in 0_u32..1000) {
        let body = format!("{area}{year}{month:02}{day:02}{serial:03}");
        let fits = "0123456789X".chars().filter(|last| is_chinese_id(&format!("{body}{last}"))).count();
        prop_assert_eq!(fits, 1);
    }

    #[test]
    fn an_iban_has_one_pair_of_check_digits(country in "[A-Z]{2}", body in "[A-Z0-9]{11,30}") {
        let fits = (2..=98).filter(|check| is_iban(&format!("{country}{check:02}{body}"))).count();
        prop_assert_eq!(fits, 1);
    }

    #[test]
    fn ranges_are_in_order_and_masks_keep_the_length(text in prop_oneof![any::<String>(), "[0-9 +@a-cX-]{0,60}"]) {
        let spans = personal(&text, Personal::ALL);
        prop_assert!(spans.windows(2).all(|pair| pair[0].0.end <= pair[1].0.start));
        prop_assert_eq!(masked(&text, &spans, '*', 4).chars().count(), text.chars().count());
    }
}
