//! English asks that differ in one thing.

use super::{Pairs, neighbours};

pub(super) const OBJECTS: &[&str] = &[
    "order",
    "account",
    "subscription",
    "invoice",
    "card",
    "password",
    "delivery",
    "reservation",
    "refund",
    "ticket",
    "profile",
    "policy",
    "membership",
    "device",
    "branch",
    "backup",
];

pub(super) const NAMES: &[&str] = &[
    "France",
    "Norway",
    "Japan",
    "Brazil",
    "Canada",
    "Kenya",
    "Poland",
    "Paris",
    "Oslo",
    "Tokyo",
    "Toronto",
    "Seattle",
    "Google",
    "Spotify",
    "PayPal",
    "Windows",
    "Android",
    "Python",
    "Acme",
    "Zanzibar",
    "Ljubljana",
    "Marie Curie",
    "Niels Bohr",
    "Volta",
    "Orion",
];

const SWAPS: &[(&str, &str)] = &[
    ("USD", "EUR"),
    ("euros", "dollars"),
    ("usd", "gbp"),
    ("Celsius", "Fahrenheit"),
    ("Paris", "Rome"),
    ("London", "Berlin"),
    ("savings", "checking"),
    ("Oslo", "Bergen"),
    ("PDF", "Word"),
    ("Python", "Rust"),
    ("miles", "kilometers"),
    ("cats", "dogs"),
    ("tea", "coffee"),
    ("staging", "production"),
    ("the bank", "the shop"),
    ("iron", "copper"),
    ("Mars", "Venus"),
    ("Alice", "Bob"),
    ("version A", "version B"),
    ("yen", "won"),
];

const OPPOSITES: &[(&str, &str)] = &[
    ("enable", "disable"),
    ("open", "close"),
    ("lock", "unlock"),
    ("activate", "deactivate"),
    ("renew", "cancel"),
    ("upgrade", "downgrade"),
    ("add", "remove"),
    ("import", "export"),
    ("upload", "download"),
    ("hide", "show"),
    ("freeze", "unfreeze"),
    ("approve", "reject"),
    ("extend", "shorten"),
    ("accept", "decline"),
    ("connect", "disconnect"),
    ("start", "stop"),
    ("increase", "decrease"),
    ("keep", "discard"),
    ("link", "unlink"),
    ("encrypt", "decrypt"),
];

const ACTIONS: &[&str] = &[
    "return the shoes",
    "cancel the contract",
    "change the address",
    "pay in cash",
    "bring a dog",
    "share the login",
    "use the pool",
    "enter with a ticket",
    "park here",
    "ship to Norway",
    "open the box",
    "delete the file",
    "print the label",
    "book two rooms",
    "smoke on the balcony",
];

pub(super) fn generate(pairs: &mut Pairs) {
    polarity(pairs);
    values(pairs);
    names_and_order(pairs);
    small_words(pairs);
}

fn polarity(pairs: &mut Pairs) {
    pairs.fill_with(
        "polarity",
        &["How do I {} my {o}?", "Can you tell me how to {} the {o}?", "what happens if I {} an old {o}"],
        OBJECTS,
        OPPOSITES,
    );
    let negations = [
        ("Can I {}?", "Can't I {}?"),
        ("Why can I {}?", "Why can I not {}?"),
        ("Are we allowed to {}?", "Are we not allowed to {}?"),
        ("What if I {}?", "What if I don't {}?"),
        ("Do people ever {}?", "Do people never {}?"),
        ("Is it fine to {}?", "Is it fine not to {}?"),
        ("Who can {}?", "Who cannot {}?"),
        ("with a receipt, may I {}", "without a receipt, may I {}"),
    ];
    for (left, right) in negations {
        for action in ACTIONS {
            pairs.add("polarity", "", &left.replace("{}", action), &right.replace("{}", action));
        }
    }
}

fn values(pairs: &mut Pairs) {
    for (at, object) in OBJECTS.iter().enumerate() {
        for step in 0..9_usize {
            let (n, m) = (at * 7 + step * 13 + 2, at * 7 + step * 13 + 3);
            let swapped = n * 10 + 1;
            for (template, left, right) in [
                ("Where is {o} #{}?", 10_000 + n, 10_000 + m),
                ("Can I split the {o} into {} parts?", n, m),
                ("What is {} * 23?", n, swapped),
                ("Is {}% off every {o} possible?", n, m),
                ("Does the {o} cost ${}?", n, n * 10),
            ] {
                let text = template.replace("{o}", object);
                pairs.add(
                    "number",
                    "",
                    &text.replace("{}", &left.to_string()),
                    &text.replace("{}", &right.to_string()),
                );
            }
            let (day, next) = (step + 1, step + 2);
            let months =
                ["January", "March", "May", "June", "July", "October", "December", "August", "April"];
            let (month, other) = (months[step], months[(step + 1) % months.len()]);
            for (left, right) in [
                (format!("{month} {day}, 2025"), format!("{month} {next}, 2025")),
                (format!("{day} {month} 2025"), format!("{day} {other} 2025")),
                (format!("2025-03-1{step}"), format!("2024-03-1{step}")),
            ] {
                pairs.add(
                    "date",
                    "",
                    &format!("Was the {object} due on {left}?"),
                    &format!("Was the {object} due on {right}?"),
                );
            }
        }
    }
    let times = [
        ("3 pm", "3 am"),
        ("9:30", "9:15"),
        ("noon", "midnight"),
        ("Monday", "Tuesday"),
        ("next Friday", "last Friday"),
        ("tomorrow", "yesterday"),
        ("2024", "2025"),
        ("May", "June"),
    ];
    pairs.fill_with("date", &["Will the {o} be ready on {}?"], OBJECTS, &times[3..]);
    pairs.fill_with("date", &["Will the {o} be ready at {}?"], OBJECTS, &times[..3]);
    let units = [
        ("km", "miles"),
        ("m", "cm"),
        ("kg", "lb"),
        ("MB", "Mb"),
        ("MB", "GB"),
        ("hours", "days"),
        ("minutes", "seconds"),
        ("°C", "°F"),
        ("m", "m²"),
        ("mW", "MW"),
        ("ml", "l"),
        ("days", "working days"),
        ("dollars", "euros"),
        ("percent", "percentage of users"),
    ];
    for n in [2, 5, 12, 40, 300, 750] {
        for (template, _) in [
            ("Is {n} {} too much?", 0),
            ("how far does {n} {} get me", 0),
            ("What does {n} {} cost?", 0),
            ("explain a limit of {n} {}", 0),
        ] {
            pairs.fill("unit", &[template.replace("{n}", &n.to_string()).as_str()], &units);
        }
    }
    for base in ["2", "3", "5", "7", "10", "12", "20", "99", "x", "n", "cm", "m", "2x", "r"] {
        for (left, right) in [
            ("²", "³"),
            ("²", "2"),
            ("³", "3"),
            ("²", ""),
            ("³", ""),
            ("⁴", "²"),
            ("²", "^3"),
            ("¹⁰", "10"),
            ("⁻¹", "1"),
            ("²", "₂"),
        ] {
            for template in
                ["What is {} in words?", "is {} prime", "How do I compute {}?", "give an example of {}"]
            {
                pairs.add(
                    "superscript",
                    "",
                    &template.replace("{}", &format!("{base}{left}")),
                    &template.replace("{}", &format!("{base}{right}")),
                );
            }
        }
    }
}

fn names_and_order(pairs: &mut Pairs) {
    let templates = [
        "What is the tax in {}?",
        "Who founded {}?",
        "do you ship to {}",
        "Does it work with {}?",
        "is {} open on Sunday",
        "How did {} become so well known?",
        "what's the weather usually like in {}",
        "Is my data stored by {}?",
    ];
    pairs.fill("entity", &templates, &neighbours(NAMES));
    for (a, b) in SWAPS {
        for template in [
            "convert {a} to {b}",
            "How do I move from {a} to {b}?",
            "Is {a} better than {b}?",
            "transfer 50 from {a} to {b}",
            "Which came first, {a} or {b}?",
            "what is {a} minus {b}",
            "Does {a} depend on {b}?",
            "translate between {a} and {b} in that order",
            "Can {a} replace {b}?",
            "when did {a} overtake {b}",
        ] {
            let (left, right) =
                (template.replace("{a}", a).replace("{b}", b), template.replace("{a}", b).replace("{b}", a));
            pairs.add("order", "", &left, &right);
        }
    }
}

fn small_words(pairs: &mut Pairs) {
    let possessives =
        [("my", "your"), ("my", "his"), ("her", "his"), ("our", "their"), ("your", "their"), ("my", "our")];
    pairs.fill_with(
        "possessive",
        &["delete {} {o}", "How do I find {} {o}?", "Is {} {o} safe?", "when does {} {o} expire"],
        OBJECTS,
        &possessives,
    );
    let quantifiers = [
        ("all", "some"),
        ("all", "most"),
        ("every", "any"),
        ("only", "also"),
        ("at least", "at most"),
        ("many", "few"),
        ("both", "either"),
        ("always", "sometimes"),
        ("usually", "rarely"),
        ("exactly", "approximately"),
    ];
    pairs.fill_with(
        "quantifier",
        &["Do {} customers need the {o}?", "are {} parts of the {o} free"],
        OBJECTS,
        &quantifiers[..4],
    );
    pairs.fill_with(
        "quantifier",
        &["Does the {o} take {} 5 days?", "is the {o} {} free"],
        OBJECTS,
        &quantifiers[4..],
    );
    let tenses = [
        ("Does the {o} arrive?", "Did the {o} arrive?"),
        ("Is the {o} active?", "Was the {o} active?"),
        ("Is the {o} active?", "Will the {o} be active?"),
        ("Did you send the {o}?", "Will you send the {o}?"),
        ("who manages the {o}", "who managed the {o}"),
        ("why is the {o} late", "why was the {o} late"),
        ("What does the {o} cost?", "What did the {o} cost?"),
        ("is the {o} still open", "is the {o} already open"),
        ("Does the {o} change?", "Will the {o} change?"),
    ];
    let modals = [
        ("Can I keep the {o}?", "Must I keep the {o}?"),
        ("Should I renew the {o}?", "May I renew the {o}?"),
        ("Do I have to show the {o}?", "Can I show the {o}?"),
        ("may we share the {o}", "must we share the {o}"),
        ("Who can see the {o}?", "Who should see the {o}?"),
        ("Could the {o} fail?", "Should the {o} fail?"),
        ("is the {o} mandatory", "is the {o} optional"),
        ("I want to share the {o}", "I have to share the {o}"),
    ];
    for object in OBJECTS {
        for (class, list) in [("tense", &tenses[..]), ("modality", &modals[..])] {
            for (left, right) in list {
                pairs.add(class, "", &left.replace("{o}", object), &right.replace("{o}", object));
            }
        }
    }
    let comparisons = [
        ("before", "after"),
        ("more than", "less than"),
        ("above", "below"),
        ("within", "after"),
        ("until", "since"),
    ];
    pairs.fill_with(
        "comparison",
        &["Can I change the {o} {} 5 days?", "what applies to a {o} {} 100 units"],
        OBJECTS,
        &comparisons,
    );
}
