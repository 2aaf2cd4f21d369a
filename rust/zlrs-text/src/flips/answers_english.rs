//! English answers of which at most one can be right.

use super::asks_english::NAMES;
use super::{Flips, Pairs, closed, neighbours};

/// What stands around an answer: most of the words of both sides are the same.
const AROUND: &[&str] = &[
    "{}",
    "Thanks for reaching out! {} You can read more in the help center.",
    "{}\n\nThe same rules hold for gift cards and for accounts that are shared within a family. Our team updates this page every month, and the support desk answers within a day.",
];

const ASKS: &[&str] = &["What are the rules?", "Can you tell me how this works?"];

pub(super) fn generate(pairs: &mut Pairs) {
    values(pairs);
    words(pairs);
    names_and_order(pairs);
    closed::english(pairs);
}

/// Each pair in each surrounding.
fn around(pairs: &mut Pairs, class: &'static str, left: &str, right: &str) {
    for (at, frame) in AROUND.iter().enumerate() {
        pairs.add(class, ASKS[at % ASKS.len()], &frame.replace("{}", left), &frame.replace("{}", right));
    }
}

fn fill(pairs: &mut Pairs, class: &'static str, templates: &[&str], words: &[(&str, &str)]) {
    for template in templates {
        for (left, right) in words {
            around(pairs, class, &template.replace("{}", left), &template.replace("{}", right));
        }
    }
}

fn values(pairs: &mut Pairs) {
    let lists: [Flips; 7] = [
        (
            "number",
            &[
                "You can return it within {} days of delivery.",
                "The plan includes {} seats and a shared calendar.",
                "Step {} of the guide explains the details.",
                "Each box holds {} bottles.",
            ],
            &[
                ("30", "14"),
                ("5", "15"),
                ("100", "1000"),
                ("12", "21"),
                ("two", "three"),
                ("1.5", "15"),
                ("7", "seventeen"),
                ("1,000", "1,001"),
            ],
        ),
        (
            "unit",
            &["The limit is 20 {} for each account.", "It moves about 5 {} in that time."],
            &[
                ("MB", "GB"),
                ("kg", "lb"),
                ("minutes", "hours"),
                ("days", "weeks"),
                ("km", "miles"),
                ("m", "cm"),
                ("MB", "Mb"),
                ("days", "working days"),
                ("°C", "°F"),
            ],
        ),
        (
            "money",
            &[
                "Shipping costs {} for orders inside the country.",
                "The late fee is {} and is added to the next bill.",
            ],
            &[
                ("$5", "$15"),
                ("$5", "€5"),
                ("€20", "€25"),
                ("5 dollars", "50 dollars"),
                ("$1.50", "$1.05"),
                ("£3", "$3"),
                ("free", "$5"),
            ],
        ),
        (
            "percent",
            &["The tax rate is {} of the net price.", "You save {} with a yearly plan."],
            &[("7%", "19%"), ("10%", "1%"), ("12 percent", "21 percent"), ("50%", "5%")],
        ),
        (
            "date",
            &[
                "The offer ends on {} for all members.",
                "Your contract was renewed on {} and runs for a year.",
            ],
            &[
                ("March 4, 2025", "March 5, 2025"),
                ("2025-03-04", "2024-03-04"),
                ("Monday", "Tuesday"),
                ("4 May 2025", "4 June 2025"),
                ("next Friday", "last Friday"),
                ("tomorrow", "today"),
                ("2024", "2025"),
                ("03/04/2025", "04/03/2025"),
            ],
        ),
        (
            "time",
            &["The desk opens at {} on working days.", "Orders placed before {} leave the same day."],
            &[
                ("9:00", "10:00"),
                ("9 am", "9 pm"),
                ("noon", "midnight"),
                ("15:30", "15:45"),
                ("3 pm", "3:30 pm"),
            ],
        ),
        (
            "id",
            &["Your order {} has left the warehouse.", "Please write to {} with the details."],
            &[
                ("#10023", "#10032"),
                ("ORD-2024-001", "ORD-2024-002"),
                ("help@example.org", "sales@example.org"),
                ("+1 555 010 9999", "+1 555 010 9998"),
                ("https://example.org/a", "https://example.org/b"),
                ("\"Gold\"", "\"Silver\""),
                ("`zip`", "`unzip`"),
            ],
        ),
    ];
    for (class, templates, words) in lists {
        fill(pairs, class, templates, words);
    }
    let powers = [("²", "³"), ("²", "2"), ("³", ""), ("⁻¹", "1"), ("⁶", "⁹")];
    for base in ["10", "2", "x", "5", "r"] {
        for (left, right) in powers {
            around(
                pairs,
                "superscript",
                &format!("The result grows with {base}{left} in the long run."),
                &format!("The result grows with {base}{right} in the long run."),
            );
        }
    }
    for (a, b) in [
        ("5", "10"),
        ("3 days", "7 days"),
        ("red", "blue"),
        ("$10", "$20"),
        ("Monday", "Friday"),
        ("Paris", "Rome"),
    ] {
        let ask = format!("Is it {a} or {b}?");
        for frame in AROUND {
            let say = |word: &str| {
                frame.replace(
                    "{}",
                    &format!("The right one for this plan is {word} as far as the contract says."),
                )
            };
            pairs.add("asked", &ask, &say(a), &say(b));
        }
    }
}

fn words(pairs: &mut Pairs) {
    let actions = [
        "return opened items",
        "change the address after payment",
        "share the account with friends",
        "bring a dog into the store",
        "cancel the plan at any time",
        "use the voucher twice",
        "pay with a foreign card",
    ];
    for action in actions {
        for (left, right) in [
            ("You can {}.", "You cannot {}."),
            ("You can {}.", "You can't {}."),
            ("Customers may {} in every branch.", "Customers may not {} in every branch."),
            ("Yes, you can {}.", "No, you can {}."),
            ("It is possible to {}.", "It is impossible to {}."),
            ("It is allowed to {}.", "It is forbidden to {}."),
            ("You can always {}.", "You can never {}."),
            ("You must {}.", "You can {}."),
            ("You should {}.", "You must {}."),
            ("You may {} if the box is sealed.", "You may {} unless the box is sealed."),
            ("Only members can {}.", "Members can {}."),
            ("All members can {}.", "Some members can {}."),
            ("We will {} for you.", "You will {} for us."),
            ("They had to {}.", "They will have to {}."),
            ("You can {} before the deadline.", "You can {} after the deadline."),
            ("With a receipt you can {}.", "Without a receipt you can {}."),
            ("Most people {} for free.", "Few people {} for free."),
            ("He asked her to {}.", "She asked him to {}."),
            ("You usually {}.", "You rarely {}."),
            ("I will {} today.", "I will not {} today."),
        ] {
            around(pairs, "small_word", &left.replace("{}", action), &right.replace("{}", action));
        }
    }
    fill(
        pairs,
        "possessive",
        &[
            "The file is stored in {} folder until the end of the month.",
            "Only {} manager can approve the change.",
        ],
        &[("your", "our"), ("my", "your"), ("his", "her"), ("their", "our")],
    );
    fill(
        pairs,
        "tense",
        &["The parcel {} at the sorting hub."],
        &[
            ("is", "was"),
            ("will be", "was"),
            ("arrives", "arrived"),
            ("stays", "stayed"),
            ("was", "will be"),
            ("waits", "waited"),
        ],
    );
    let opposites = [
        ("enable", "disable"),
        ("open", "close"),
        ("lock", "unlock"),
        ("increase", "decrease"),
        ("accept", "reject"),
        ("add", "remove"),
        ("import", "export"),
        ("renew", "cancel"),
        ("hide", "show"),
        ("start", "stop"),
        ("tighten", "loosen"),
        ("inflate", "deflate"),
        ("praise", "blame"),
        ("ascend", "descend"),
        ("mount", "dismount"),
    ];
    fill(
        pairs,
        "antonym",
        &[
            "You should {} the switch in the settings page first.",
            "To finish, {} the setting and restart the device.",
            "Press the button to {} it.",
        ],
        &opposites,
    );
    let adjectives = [
        ("safe", "dangerous"),
        ("refundable", "non-refundable"),
        ("available", "unavailable"),
        ("legal", "illegal"),
        ("free", "paid"),
        ("optional", "mandatory"),
        ("valid", "invalid"),
        ("temporary", "permanent"),
        ("public", "private"),
        ("red", "blue"),
        ("oak", "pine"),
        ("left", "right"),
        ("waterproof", "fireproof"),
        ("bigger", "smaller"),
        ("active", "inactive"),
        ("reusable", "disposable"),
        ("fragile", "sturdy"),
    ];
    fill(
        pairs,
        "adjective",
        &[
            "The new model is {} and comes in one size.",
            "For this product the cover is {} by default.",
            "The {} version is the one that you need.",
        ],
        &adjectives,
    );
    for (left, right) in [
        ("You can return items.", "You can return unopened items."),
        ("Shipping is free.", "Shipping is free for members."),
        ("Shipping is free.", "Shipping is nearly free."),
        ("The jacket is waterproof.", "The jacket is supposedly waterproof."),
        ("It supports printing.", "It hardly supports printing."),
        ("Refunds go to your card.", "Refunds go to your expired card."),
        ("The plan covers glass.", "The plan covers broken glass."),
        ("The plan covers glass.", "The plan covers glass except mirrors."),
        ("You can park here.", "You can park here at night."),
        ("You can pay by card.", "You can pay by gift card."),
        ("The ticket is valid.", "The ticket is no longer valid."),
        ("The ticket is valid.", "The ticket is not yet valid."),
        ("The door opens.", "The door opens halfway."),
        ("Pay the courier.", "Pay for the courier."),
        ("Turn the machine.", "Turn on the machine."),
        ("Children enter free.", "Accompanied children enter free."),
        ("The answer is correct.", "The answer is correct. The opposite is true."),
        ("The rule applies.", "The rule applies. That is a myth."),
        ("The rule applies.", "The rule applies. It was dropped last year."),
        ("The rule applies.", "The rule applies. This used to help."),
        ("The rule applies.", "The rule applies. It applies to bikes."),
        ("Dogs may enter.", "Guide dogs may enter."),
        ("The cover is removable.", "The inner cover is removable."),
        ("It runs on water.", "It runs on salt water."),
        ("You get a bonus.", "You get a theoretical bonus."),
        ("The rate is fixed.", "The rate is fixed in theory."),
        ("The exam is passed.", "The practice exam is passed."),
        ("Employees get a discount.", "Former employees get a discount."),
        ("We deliver sofas.", "We deliver small sofas."),
        ("The shop sells bread.", "The shop sells stale bread."),
    ] {
        around(pairs, "insertion", left, right);
    }
    fill(
        pairs,
        "direction",
        &["Money moves {} your savings account every month.", "Turn {} the machine after use."],
        &[("into", "out of"), ("to", "from"), ("on", "off"), ("up", "down")],
    );
    fill(
        pairs,
        "comparison",
        &["It takes {} 5 days to arrive.", "The price is {} the average."],
        &[
            ("more than", "less than"),
            ("at least", "at most"),
            ("above", "below"),
            ("over", "under"),
            ("exactly", "approximately"),
        ],
    );
}

fn names_and_order(pairs: &mut Pairs) {
    fill(
        pairs,
        "entity",
        &[
            "The office in {} handles these requests.",
            "It was first built by {} in a small workshop.",
            "We ship the parts from {} twice a week.",
        ],
        &neighbours(NAMES),
    );
    let swaps = [
        ("Basic", "Premium"),
        ("savings", "checking"),
        ("Alice", "Bob"),
        ("dollars", "euros"),
        ("the seller", "the buyer"),
        ("iron", "copper"),
        ("Mars", "Venus"),
        ("5", "9"),
        ("$5", "$9"),
        ("wood", "steel"),
        ("the bank", "the shop"),
    ];
    for (a, b) in swaps {
        for template in [
            "In this case {a} comes before {b} in the list.",
            "First use {a}, then {b}, and wait a minute.",
            "The amount moves from {a} to {b} at night.",
            "Standard shipping uses {a} and express shipping uses {b}.",
            "We replaced {a} with {b} in the last release.",
            "{a} is heavier than {b} by a wide margin.",
        ] {
            around(
                pairs,
                "order",
                &template.replace("{a}", a).replace("{b}", b),
                &template.replace("{a}", b).replace("{b}", a),
            );
        }
    }
    let steps = [
        "Open the settings.",
        "Click the profile icon.",
        "Choose your plan.",
        "Restart the device.",
        "Enter the code.",
    ];
    for i in 0..steps.len() {
        for j in 0..steps.len() {
            if i != j {
                let rest: Vec<&str> =
                    (0..steps.len()).filter(|at| *at != i && *at != j).map(|at| steps[at]).collect();
                let list = |first: &str, second: &str| {
                    format!("1. {first}\n2. {}\n3. {second}\n4. {}", rest[0], rest[1])
                };
                pairs.add("steps", ASKS[0], &list(steps[i], steps[j]), &list(steps[j], steps[i]));
            }
        }
    }
}
