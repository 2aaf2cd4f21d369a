//! Exact decimals against integer arithmetic.

use proptest::prelude::*;
use zlrs_text::Decimal;

/// The reference: an integer of 128 bits and a power of ten.
fn written(value: i64, places: usize) -> String {
    let digits = format!("{:0width$}", value.unsigned_abs(), width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    let sign = if value < 0 { "-" } else { "" };
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equal_exactly_where_the_values_are(a in -9999_i64..9999, b in -9999_i64..9999, p in 0_usize..5, q in 0_usize..5) {
        let (one, two) = (Decimal::parse(&written(a, p)).unwrap(), Decimal::parse(&written(b, q)).unwrap());
        let is_equal = i128::from(a) * 10_i128.pow(q as u32) == i128::from(b) * 10_i128.pow(p as u32);
        prop_assert_eq!(one == two, is_equal);
        prop_assert_eq!(one.to_string() == two.to_string(), is_equal);
    }

    #[test]
    fn products_are_exact(a in -99_999_i64..99_999, b in -99_999_i64..99_999, p in 0_usize..6, q in 0_usize..6) {
        let product = Decimal::parse(&written(a, p)).unwrap().times(&Decimal::parse(&written(b, q)).unwrap());
        prop_assert_eq!(product, Decimal::parse(&written(a * b, p + q)).unwrap());
    }

    #[test]
    fn the_canonical_spelling_is_read_back(text in "[-+]?[0-9]{1,40}(\\.[0-9]{1,20})?(e-?[0-9]{1,4})?") {
        let value = Decimal::parse(&text).unwrap();
        prop_assert_eq!(Decimal::parse(&value.to_string()).unwrap(), value);
    }

    #[test]
    fn shifting_is_a_product(a in -9999_i64..9999, power in 0_u32..8) {
        let value = Decimal::parse(&a.to_string()).unwrap();
        prop_assert_eq!(value.clone().shifted(i64::from(power)), value.times(&Decimal::from_integer(10_u64.pow(power))));
    }
}

#[test]
fn what_is_no_number_is_none() {
    for text in ["", "-", ".", "1.", "1,0", "1e", "1.2.3", "0x1", "１", "1e9999999", "NaN"] {
        assert_eq!(Decimal::parse(text), None, "{text:?}");
    }
}
