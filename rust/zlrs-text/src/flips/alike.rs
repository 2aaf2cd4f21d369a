//! Values that are written alike and are not the same: asks that differ in one, and answers of which at most one can be
//! right.

use super::{Flips, Pairs};

const ENGLISH: &[Flips] = &[
    (
        "time of day",
        &["Does the desk close at {}?", "can I come on Friday at {}"],
        &[
            ("noon", "midnight"),
            ("12 am", "12 pm"),
            ("midnight", "0:00"),
            ("12:30 am", "12:30 pm"),
            ("12:00", "12 pm"),
        ],
    ),
    (
        "points",
        &["If a 20% tax rises by {}, what is it then?", "did the rate fall by {} last spring"],
        &[
            ("5%", "5 percentage points"),
            ("5 percent", "5 percentage points"),
            ("50 basis points", "50 percentage points"),
            ("50 basis points", "50%"),
            ("1 percentage point", "1 percent"),
        ],
    ),
    (
        "leading zero",
        &[
            "Which city has the postcode {}?",
            "where is room {}",
            "What does error {} mean for me?",
            "is {} a dialling code",
        ],
        &[("01067", "1067"), ("007", "7"), ("01", "1"), ("0012", "012"), ("00", "0"), ("0123456", "123456")],
    ),
    (
        "numeral",
        &["Are there {} seats?", "what happens with {} guests"],
        &[
            ("two hundred and six", "200 and 6"),
            ("twenty five", "20 5"),
            ("10 000", "10 0"),
            ("10 005", "10 5"),
            ("one hundred twenty", "100 20"),
            ("-5", "5"),
            ("±5", "5"),
            ("1/2", "1.2"),
            ("½", "1/2"),
        ],
    ),
    (
        "version",
        &["Is {} out?", "what is new in {}"],
        &[("1.10", "1.1"), ("v1.10", "v1.1"), ("Python 3.10", "Python 3.1")],
    ),
    (
        "unit",
        &["Is {} enough?", "what can I do with {}"],
        &[
            ("5g", "5 grams"),
            ("7B", "7 bytes"),
            ("4K", "4000"),
            ("the 90s", "the 90 seconds"),
            ("5 mA", "5 mAh"),
            ("5 KB", "5 kB"),
            ("5 MB", "5 MiB"),
            ("5 Mb", "5 MB"),
            ("5 °C", "5 °F"),
            ("5 m", "5 m²"),
        ],
    ),
    (
        "ordinal",
        &["Is it the {} one?", "what was on the {} day"],
        &[("5th", "5"), ("twenty-second", "20-second"), ("2nd", "2")],
    ),
    (
        "currency",
        &["Is {} a lot in Lahore?", "how much is {} there"],
        &[
            ("US$5", "HK$5"),
            ("A$5", "C$5"),
            ("$5", "US$5"),
            ("500 rupees", "500 INR"),
            ("5 euros", "5 dollars"),
            ("$20 a day", "$20 a week"),
        ],
    ),
    (
        "currency",
        &["Is the {} pass valid?"],
        &[("$20 day", "$20 week"), ("$5 m", "$5 km"), ("$20 day", "€20 day")],
    ),
    (
        "limit",
        &["Do I have {} days?", "are {} guests allowed"],
        &[
            ("at least 5", "at most 5"),
            ("at least 5", "more than 5"),
            ("at most 5", "less than 5"),
            ("5 to 7", "7 to 5"),
            (">5", "<5"),
            ("5+", "5"),
        ],
    ),
    (
        "date",
        &["Does it end on {}?", "is the shop open on {}"],
        &[
            ("3/4/2025", "4/3/2025"),
            ("03/04/2025", "04/03/2025"),
            ("Q1 2025", "Q2 2025"),
            ("\u{662}\u{660}\u{662}\u{665}-03-04", "\u{662}\u{660}\u{662}\u{664}-03-04"),
            ("3 pm EST", "3 pm PST"),
            ("15:00 UTC", "15:00 UTC+1"),
        ],
    ),
];

const CHINESE: &[Flips] = &[
    (
        "time of day",
        &["{}可以送货吗？", "商店{}关门吗", "今天{}能到吗？"],
        &[
            ("中午12点", "凌晨12点"),
            ("中午12点", "晚上12点"),
            ("下午12点", "晚上12点"),
            ("半夜12点", "中午12点"),
            ("晚上12点", "凌晨12点"),
            ("晚上1点", "凌晨1点"),
            ("晚上1点", "下午1点"),
            ("中午1点", "凌晨1点"),
            ("中午11点", "晚上11点"),
            ("深夜2点", "下午2点"),
            ("晚上二十三点", "下午1点"),
        ],
    ),
    (
        "points",
        &["税率上升{}是多少？", "利率下降{}吗"],
        &[("5%", "5个百分点"), ("百分之五", "五个百分点"), ("50个基点", "50个百分点"), ("50个基点", "50%")],
    ),
    (
        "leading zero",
        &["邮编{}是哪里？", "{}房间在哪里", "区号{}是什么地方"],
        &[("01067", "1067"), ("007", "7"), ("010", "10"), ("00", "0")],
    ),
    (
        "numeral",
        &["{}元够吗？", "有{}公里吗"],
        &[
            ("一亿三千万", "十三万亿"),
            ("一亿三千万", "一亿零三千"),
            ("一亿三千万", "一千零三万"),
            ("两亿五千万", "两亿五千"),
            ("五〇", "五"),
            ("零五", "五"),
            ("三百五", "三百零五"),
            ("万", "亿"),
        ],
    ),
    (
        "unit",
        &["{}够吗？", "要用{}吗"],
        &[
            ("二十千克", "一千零二十克"),
            ("一百千米", "一千一百米"),
            ("5g", "5克"),
            ("5毫安", "5毫安时"),
            ("5度", "5℃"),
            ("3点5公斤", "3点05公斤"),
        ],
    ),
    (
        "sign",
        &["{}会结冰吗？", "昨晚是{}吗"],
        &[("零下5度", "5度"), ("零下5℃", "零上5℃"), ("-5℃", "5℃"), ("负5度", "5度")],
    ),
    (
        "currency",
        &["在香港{}够吗？", "在日本要{}吗"],
        &[
            ("5元", "5美元"),
            ("5元", "5港元"),
            ("5元", "5人民币"),
            ("5块蛋糕", "5元蛋糕"),
            ("5日元", "5元"),
            ("万元", "亿元"),
        ],
    ),
    (
        "limit",
        &["要{}天吗？", "可以带{}人吗"],
        &[("至少5", "至多5"), ("至少5", "超过5"), ("不到5", "超过5"), ("5到7", "7到5")],
    ),
];

/// Asks that differ in one value.
pub(super) fn asks(pairs: &mut Pairs) {
    for (class, templates, words) in ENGLISH.iter().chain(CHINESE) {
        pairs.fill(class, templates, words);
    }
    for n in [3_u64, 12, 47, 90, 208, 1067, 5004, 12_345] {
        for zeros in ["0", "00"] {
            let (left, right) = (format!("{zeros}{n}"), n.to_string());
            for template in ["Who lives in {}?", "explain code {}", "{}是谁的号码？"] {
                pairs.add(
                    "leading zero",
                    "",
                    &template.replace("{}", &left),
                    &template.replace("{}", &right),
                );
            }
        }
        for (template, one, two) in [
            ("Does it rise by {}?", "%", " percentage points"),
            ("was it {} less", " percent", " percentage points"),
            ("上升{}吗？", "%", "个百分点"),
        ] {
            let say = |unit: &str| template.replace("{}", &format!("{n}{unit}"));
            pairs.add("points", "", &say(one), &say(two));
        }
    }
}

/// Answers to one ask that hold another value each.
pub(super) fn answers(pairs: &mut Pairs) {
    for (ask, frames, flips) in [
        (
            "What are the rules?",
            ["The answer is {}.", "Thanks for asking! As far as we know it is {} for all members."],
            ENGLISH,
        ),
        ("有什么规定？", ["答案是{}。", "感谢您的咨询。据我们所知是{}，所有会员都一样。"], CHINESE),
    ] {
        // In an answer 5g are 5 grams, and 1.10 is 1.1: what only a spelling sets apart differs in asks alone.
        let is_told = |class: &str| !matches!(class, "unit" | "currency" | "version");
        let flips = flips.iter().filter(|(class, ..)| is_told(class));
        for (class, _, words) in flips {
            for (left, right) in *words {
                for frame in frames {
                    pairs.add(class, ask, &frame.replace("{}", left), &frame.replace("{}", right));
                }
            }
        }
    }
    for (left, right) in [
        ("01067", "1067"),
        ("5%", "5 percentage points"),
        ("007", "7"),
        ("一亿三千万", "十三万亿"),
        ("中午12点", "凌晨12点"),
        ("Python 3.10", "Python 3.1"),
        ("12 am", "12 pm"),
        ("零下5度", "5度"),
    ] {
        pairs.add("closed", "Answer shortly.", left, right);
    }
    for version in ["3.1", "3.2", "17.1", "22.1"] {
        for frame in ["You need Python {} or newer.", "It runs on Android {} and has been tested there."] {
            let long = format!("{version}0");
            pairs.add(
                "version",
                "What do I need?",
                &frame.replace("{}", version),
                &frame.replace("{}", &long),
            );
        }
    }
}
