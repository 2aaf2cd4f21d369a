//! Values that are written alike: what is one value, what is two, and what is none.

use zlrs_text::{Agreement, Canon, Extractor, Value, agree, guard};

fn key(text: &str) -> String {
    Extractor::default().form(text, Canon::C2).entry_key()
}

fn one(text: &str) -> Value {
    let mut found = Extractor::default().slots(text);
    assert_eq!(found.len(), 1, "{text:?}: {found:?}");
    found.remove(0).value
}

fn never_meet(pairs: &[(&str, &str)]) {
    for (left, right) in pairs {
        assert_ne!(key(left), key(right), "{left:?} {right:?}");
    }
}

fn refused(pairs: &[(&str, &str)]) {
    never_meet(pairs);
    for (left, right) in pairs {
        assert!(guard(left, right).is_some(), "{left:?} {right:?}");
    }
}

#[test]
fn parts_of_the_day() {
    let time = |text: &str| match Extractor::default().slots(text).first().map(|atom| atom.value.clone()) {
        Some(Value::Time(time)) => Some((time.hour, time.minute, time.is_certain)),
        _ => None,
    };
    for (text, want) in [
        ("中午11点", Some((11, 0, true))),
        ("中午12点", Some((12, 0, true))),
        ("中午十二点半", Some((12, 30, true))),
        ("中午1点", Some((13, 0, true))),
        ("中午6点", None),
        ("凌晨12点", Some((0, 0, true))),
        ("凌晨3点", Some((3, 0, true))),
        ("凌晨9点", None),
        ("早上8点", Some((8, 0, true))),
        ("上午12点", None),
        ("下午12点", Some((12, 0, true))),
        ("下午两点", Some((14, 0, true))),
        ("傍晚6点", Some((18, 0, true))),
        ("晚上8点", Some((20, 0, true))),
        ("晚上二十三点", Some((23, 0, true))),
        // The end of the day, not its start.
        ("晚上12点", Some((24, 0, true))),
        ("夜里12点", Some((24, 0, true))),
        ("半夜12点", Some((24, 0, true))),
        ("深夜12点", Some((24, 0, true))),
        ("深夜11点", Some((23, 0, true))),
        ("半夜2点", Some((2, 0, true))),
        // One may mean either.
        ("晚上1点", None),
        ("3点", Some((3, 0, false))),
        ("12点", Some((12, 0, false))),
        ("积分123点", None),
        ("noon", Some((12, 0, true))),
        ("12 pm", Some((12, 0, true))),
        ("12:30 am", Some((0, 30, true))),
        ("11:59 pm", Some((23, 59, true))),
        ("10.05 am", Some((10, 5, true))),
        // Of which day is not said.
        ("midnight", Some((0, 0, false))),
        ("12 am", Some((0, 0, false))),
        ("0:00", Some((0, 0, true))),
        ("13 am", None),
    ] {
        assert_eq!(time(text), want, "{text:?}");
    }
    refused(&[
        ("中午12点可以送货吗？", "凌晨12点可以送货吗？"),
        ("晚上12点可以送货吗？", "中午12点可以送货吗？"),
        ("晚上12点可以送货吗？", "下午12点可以送货吗？"),
        ("今天晚上12点能到吗", "今天凌晨12点能到吗"),
        ("Is it due on Friday at midnight?", "Is it due on Friday at 0:00?"),
    ]);
    assert_eq!(key("晚上12点可以送货吗？"), key("夜里12点可以送货吗？"));
    assert_eq!(key("Do you open at noon?"), key("do you open at 12 pm"));
    assert_eq!(key("do you open at 09:05"), key("do you open at 9:05"));
}

#[test]
fn percentage_points_are_no_percentage() {
    refused(&[
        ("If a 20% tax rises by 5%, what is it?", "If a 20% tax rises by 5 percentage points, what is it?"),
        ("税率上升5%是多少", "税率上升5个百分点是多少"),
        ("did it rise by 50 basis points", "did it rise by 50 percentage points"),
    ]);
    assert_eq!(one("up 50 basis points"), one("up 0.5 percentage points"));
    assert_eq!(key("上升5个百分点吗"), key("上升五个百分点吗"));
    let verdict = agree("What is new?", "The tax rises by 5%.", "The tax rises by 5 percentage points.");
    assert_ne!(verdict.agreement, Agreement::Agree);
}

#[test]
fn zeros_before_a_number_count() {
    refused(&[
        ("Which city has the postcode 01067?", "Which city has the postcode 1067?"),
        ("is 01 a dialling code", "is 1 a dialling code"),
        ("where is room 007", "where is room 07"),
        ("is 00 a number", "is 0 a number"),
        ("is 10 000 enough", "is 10 0 enough"),
        ("邮编010001在哪里", "邮编10001在哪里"),
    ]);
    for (left, right) in [
        // Where a zero means nothing.
        ("is the shop open on 03/04", "is the shop open on 3/4"),
        ("is the shop open on 03/04/25", "is the shop open on 3/4/25"),
        ("is the shop open on 03-04-2025", "is the shop open on 3-4-2025"),
        ("is it due on 2025-03-04", "is it due on 2025-3-4"),
        ("3月04日有票吗", "3月4日有票吗"),
        ("wait for 05 minutes", "wait for 5 minutes"),
        ("is it .5", "is it 0.5"),
    ] {
        assert_eq!(key(left), key(right), "{left:?} {right:?}");
    }
    assert_eq!(agree("Which?", "01067", "1067").agreement, Agreement::Contradict);
    assert_eq!(agree("Which?", "The code is 007.", "The code is 7.").agreement, Agreement::Contradict);
    assert_eq!(agree("Which?", "0", "0").agreement, Agreement::Agree);
}

#[test]
fn versions_keep_their_last_zero() {
    for (left, right) in [
        ("You need Python 3.10 or newer.", "You need Python 3.1 or newer."),
        ("您需要 Python 3.10 以上。", "您需要 Python 3.1 以上。"),
    ] {
        assert_ne!(agree("?", left, right).agreement, Agreement::Agree, "{left:?}");
    }
    let verdict = agree("?", "It is 3.50 m long for all.", "It is 3.5 m long for all.");
    assert_eq!(verdict.agreement, Agreement::Agree);
    never_meet(&[
        ("Is 1.10 out?", "Is 1.1 out?"),
        ("Is v1.10 out?", "Is v1.1 out?"),
        ("Is it 1.1!", "Is it 1.1"),
    ]);
}

#[test]
fn units_and_currencies_that_look_alike() {
    refused(&[
        ("Is 5g safe?", "Is 5 grams safe?"),
        ("Is 4K worth it?", "Is 4000 worth it?"),
        ("is 7B enough", "is 7 bytes enough"),
        ("where is 5A", "where is 5 amps"),
        ("how many bytes are 5 KB", "how many bytes are 5 kB"),
        ("is 5 MB enough", "is 5 MiB enough"),
        ("is 5 Mb enough", "is 5 MB enough"),
        ("is 5 mA enough", "is 5 mAh enough"),
        ("is 5 ℃ cold", "is 5 ℉ cold"),
        ("Is the $20 day pass valid?", "Is the $20 week pass valid?"),
        ("Is 500 rupees enough in Lahore?", "Is 500 INR enough in Lahore?"),
        ("在香港50元够吗", "在香港50人民币够吗"),
        ("在日本¥50够吗", "在日本50元够吗"),
        ("5块蛋糕够吗", "5元蛋糕够吗"),
        ("买3点5公斤", "买3点05公斤"),
        ("二十千克够吗", "一千零二十克够吗"),
        ("is +1.2345678 right", "is +12.345678 right"),
    ]);
    never_meet(&[
        ("Is the $20 day pass valid?", "Is the $20 pass valid?"),
        ("are you open on Mondays", "are you open on Monday"),
        ("is it 5 kg", "is it 5"),
        ("is it $5", "is it US$5"),
        ("现在20块够吗", "现在20元够吗"),
    ]);
    for (left, right) in [
        ("Is 5 kg enough?", "is 5kg enough"),
        ("is 5 km far", "is 5 kilometres far"),
        ("is 2h enough", "is 2 hours enough"),
        ("Is $5k enough?", "is $5,000 enough"),
        ("¥50够吗", "50元够吗"),
        ("50块钱够吗", "50元够吗"),
        ("is US$5 enough", "is 5 USD enough"),
        ("is $5 CAD enough", "is C$5 enough"),
        ("is it open next Monday", "is it open next monday"),
        ("上周一开门吗", "上星期一开门吗"),
    ] {
        assert_eq!(key(left), key(right), "{left:?} {right:?}");
    }
    assert_eq!(agree("?", "20元", "20块").agreement, Agreement::Agree);
}

#[test]
fn digits_of_other_scripts_are_no_values() {
    never_meet(&[("on \u{662}\u{660}\u{662}\u{665}-03-04", "on \u{662}\u{660}\u{662}\u{664}-03-04")]);
    assert_eq!(Extractor::default().slots("\u{FF15}:\u{FF10}\u{FF15}"), vec![]);
}
