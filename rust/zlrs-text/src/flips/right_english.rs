//! English answers that say the same in other words.

use super::Pairs;

const ANSWERS: &[&str] = &[
    "You can return the item within 30 days of delivery if you have the receipt.",
    "The premium plan costs $12.50 per month and includes 5 seats.",
    "To reset your password, open the settings page, choose Security and click the reset link.",
    "Our store is open from 9 am to 6 pm on weekdays, and it is closed on Sunday.",
    "Your order will arrive in 3 to 5 working days, and you will receive an email when it ships.",
    "No, you cannot change the address after the parcel has left the warehouse.",
    "Yes, all members can cancel the subscription at any time without a fee.",
    "The battery lasts about 10 hours, and a full charge takes 90 minutes.",
    "The capital of France is Paris, and about 2 million people live there.",
    "You need a valid passport and a printed ticket to board the train in Lyon.",
    "The warranty covers defects for 2 years, but it does not cover water damage.",
    "1. Open the app.\n2. Tap your profile.\n3. Choose Delete account.\n4. Enter your password.",
    "A refund takes up to 10 days because the bank must approve it first.",
    "Water boils at 100 °C at sea level, and at a lower temperature in the mountains.",
    "We do not share your data with other companies unless you allow it.",
    "The meeting was moved to March 4, 2025 at 3:30 pm in room 12.",
    "You should back up your files before you update the system.",
    "The function returns the sum of both numbers, or zero if the list is empty.",
    "Tickets for children under 12 are free, and adults pay 20 euros.",
    "Please send the documents to help@example.org and wait for a reply.",
];

/// A word, what may stand for it, and the class of the difference.
const SWAPS: &[(&str, &str, &str)] = &[
    ("number format", "30 days", "thirty days"),
    ("number format", "$12.50 per", "$12.5 per"),
    ("number format", "2 million", "2,000,000"),
    ("number format", "5 seats", "five seats"),
    ("number format", "2 years", "two years"),
    ("unit", "10 hours", "10 hrs"),
    ("unit", "90 minutes", "1.5 hours"),
    ("unit", "100 °C", "100°C"),
    ("money", "20 euros", "€20"),
    ("time", "9 am to 6 pm", "9:00 am to 6:00 pm"),
    ("time", "3:30 pm", "15:30"),
    ("date", "March 4, 2025", "4 March 2025"),
    ("date", "March 4, 2025", "2025-03-04"),
    ("contraction", "cannot", "can't"),
    ("contraction", "does not", "doesn't"),
    ("contraction", "do not", "don't"),
    ("contraction", "you will", "you'll"),
    ("contraction", "it is", "it's"),
    ("synonym", "store", "shop"),
    ("synonym", "choose", "select"),
    ("synonym", "Choose", "Select"),
    ("synonym", "click", "press"),
    ("synonym", "parcel", "package"),
    ("synonym", "change", "modify"),
    ("synonym", "cancel", "call off"),
    ("synonym", "send", "dispatch"),
    ("synonym", "allow", "permit"),
    ("synonym", "the app", "the application"),
    ("synonym", "Enter", "Type in"),
    ("synonym", "reply", "response"),
    ("synonym", "tickets", "passes"),
    ("synonym", "documents", "papers"),
    ("inflection", "ships", "is shipped"),
    ("inflection", "files", "file"),
    ("inflection", "numbers", "number"),
    ("light", "You can return", "You can also return"),
    ("light", "you will receive", "you will then receive"),
    ("light", "The battery lasts", "The battery actually lasts"),
    ("light", "wait for", "just wait for"),
    ("light", "open the settings", "please open the settings"),
    ("light", "You should back", "Note that you should back"),
    ("addition", "the settings page", "the account settings page"),
    ("addition", "a reply", "a short reply"),
    ("addition", "The meeting was moved", "The team meeting was moved"),
    ("addition", "the receipt", "the original receipt"),
    ("grammar", "of delivery", "after delivery"),
    ("grammar", ", and ", "; "),
    ("grammar", ", and it", " and it"),
];

pub(super) fn generate(pairs: &mut Pairs) {
    let ask = "What should I know?";
    let frames = [
        ("opening", "Sure! {}"),
        ("opening", "Great question! {}"),
        ("opening", "Of course. {}"),
        ("opening", "Thanks for reaching out! {}"),
        ("closing", "{} I hope this helps!"),
        ("closing", "{} Let me know if you have any other questions."),
        ("closing", "{}\n\nFeel free to ask if anything is unclear."),
        ("layout", "**{}**"),
        ("layout", "- {}"),
        ("layout", "> {}"),
        ("space", " {} \n"),
        ("extra sentence", "{} The support desk looks forward to hearing about it."),
    ];
    for answer in ANSWERS {
        for (class, frame) in frames {
            pairs.add(class, ask, answer, &frame.replace("{}", answer));
        }
        pairs.add("space", ask, answer, &answer.replace(' ', "  "));
        pairs.add("punctuation", ask, answer, &answer.replace(',', ""));
        pairs.add("punctuation", ask, answer, answer.trim_end_matches('.'));
        for (class, from, to) in SWAPS {
            if answer.contains(from) {
                let other = answer.replace(from, to);
                pairs.add(class, ask, answer, &other);
                for (frame_class, frame) in [
                    ("swap and opening", "Sure! {}"),
                    ("swap and closing", "{} I hope this helps!"),
                    ("swap and layout", "**{}**"),
                ] {
                    pairs.add(frame_class, ask, answer, &frame.replace("{}", &other));
                }
                for (_, second, third) in
                    SWAPS.iter().filter(|swap| swap.1 != *from && other.contains(swap.1))
                {
                    pairs.add("two swaps", ask, answer, &other.replace(second, third));
                }
            }
        }
    }
    reworded(pairs);
    for (left, right) in [
        (r#"{"a": 1, "b": [1, 2]}"#, r#"{"b":[1,2],"a":1}"#),
        (r#"{"p": 1.10}"#, r#"{"p": 1.1}"#),
        ("```json\n{\"a\": 1}\n```", r#"{"a": 1}"#),
        ("```python\nx = a+b\n```", "```python\nx = a + b\n```"),
        ("42", "42."),
        ("1,000", "1000"),
        ("5 km", "5000 m"),
        ("Yes", "yes."),
        ("Yes.", "Correct"),
        ("A", "(A)"),
        ("Option B", "B"),
        ("A and C", "C, A"),
        ("Paris", "paris."),
        ("$5", "$5.00"),
        ("90 minutes", "1.5 hours"),
        ("3 pm", "15:00"),
        ("2025-03-04", "March 4, 2025"),
        ("12%", "12 percent"),
        ("**42**", "42"),
        ("positive", "Positive"),
    ] {
        pairs.add("closed", "Answer shortly.", left, right);
    }
}

/// Free rewording, as a model might do it. No table knows these.
fn reworded(pairs: &mut Pairs) {
    for (left, right) in [
        (
            "You can return the item within 30 days of delivery.",
            "Items may be returned up to 30 days after they were delivered.",
        ),
        ("The premium plan costs $12 per month.", "For the premium plan you pay $12 each month."),
        ("Our store is open from 9 am to 6 pm on weekdays.", "On weekdays we are open from 9 am until 6 pm."),
        ("Your order will arrive in 3 days.", "Expect your order within 3 days."),
        ("The capital of France is Paris.", "Paris is the capital of France."),
        ("You need a valid passport to board.", "A valid passport is required for boarding."),
        ("A refund takes 10 days.", "It takes 10 days to get a refund."),
        ("We do not share your data.", "Your data is never shared by us."),
        ("You should back up your files first.", "Make sure to back up your files first."),
        ("The meeting was moved to 3 pm.", "They rescheduled the meeting to 3 pm."),
    ] {
        pairs.add("reworded", "What should I know?", left, right);
    }
}
