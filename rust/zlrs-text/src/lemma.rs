//! A small lemmatiser for English, by rules of our own.

/// How a word stands to its lemma.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inflection {
    /// The lemma itself.
    Base,
    /// A plural, or a verb with -s.
    S,
    /// A past form.
    Past,
    /// A form in -ing.
    Ing,
}

/// Irregular forms: lemma, then past forms. Forms that equal the lemma are not here.
const IRREGULAR: &[(&str, &str)] = &[
    ("go", "went gone"),
    ("take", "took taken"),
    ("send", "sent"),
    ("pay", "paid"),
    ("buy", "bought"),
    ("get", "got gotten"),
    ("give", "gave given"),
    ("make", "made"),
    ("find", "found"),
    ("lose", "lost"),
    ("steal", "stole stolen"),
    ("break", "broke broken"),
    ("choose", "chose chosen"),
    ("come", "came"),
    ("see", "saw seen"),
    ("say", "said"),
    ("tell", "told"),
    ("know", "knew known"),
    ("keep", "kept"),
    ("leave", "left"),
    ("bring", "brought"),
    ("write", "wrote written"),
    ("hold", "held"),
    ("sell", "sold"),
    ("spend", "spent"),
    ("forget", "forgot forgotten"),
    ("begin", "began begun"),
    ("win", "won"),
    ("meet", "met"),
    ("feel", "felt"),
    ("build", "built"),
    ("run", "ran"),
    ("grow", "grew grown"),
    ("rise", "rose risen"),
    ("fall", "fell fallen"),
    ("drive", "drove driven"),
    ("fly", "flew flown"),
    ("teach", "taught"),
    ("think", "thought"),
    ("speak", "spoke spoken"),
    ("stand", "stood"),
    ("understand", "understood"),
    ("withdraw", "withdrew withdrawn"),
    ("lend", "lent"),
    ("catch", "caught"),
    ("draw", "drew drawn"),
    ("eat", "ate eaten"),
    ("sleep", "slept"),
    ("freeze", "froze frozen"),
    ("become", "became"),
    ("show", "shown"),
    ("wear", "wore worn"),
];

const PLURALS: &[(&str, &str)] = &[
    ("people", "person"),
    ("children", "child"),
    ("men", "man"),
    ("women", "woman"),
    ("feet", "foot"),
    ("teeth", "tooth"),
    ("mice", "mouse"),
    ("lives", "life"),
    ("wives", "wife"),
    ("knives", "knife"),
    ("halves", "half"),
    ("leaves", "leaf"),
    ("shelves", "shelf"),
    ("data", "data"),
    ("goes", "go"),
    ("does", "do"),
];

/// Words that end like an inflected form and are none.
const WHOLE: &[&str] = &[
    "always",
    "address",
    "business",
    "process",
    "access",
    "class",
    "glass",
    "this",
    "plus",
    "bus",
    "gas",
    "news",
    "series",
    "species",
    "status",
    "less",
    "express",
    "press",
    "pass",
    "miss",
    "loss",
    "focus",
    "bonus",
    "virus",
    "minus",
    "is",
    "was",
    "has",
    "its",
    "us",
    "yes",
    "thus",
    "perhaps",
    "sos",
    "ios",
    "gps",
    "sms",
    "dns",
    "https",
    "css",
    "bless",
    "boss",
    "chess",
    "across",
    "success",
    "canvas",
    "atlas",
    "lens",
    "analysis",
    "basis",
    "crisis",
    "thesis",
    "need",
    "feed",
    "speed",
    "seed",
    "exceed",
    "proceed",
    "indeed",
    "bed",
    "red",
    "shed",
    "hundred",
    "kindred",
    "embed",
    "breed",
    "bleed",
    "thing",
    "bring",
    "ring",
    "king",
    "sing",
    "spring",
    "string",
    "wing",
    "during",
    "morning",
    "evening",
    "ceiling",
    "nothing",
    "something",
    "anything",
    "everything",
    "sibling",
    "building",
    "wedding",
    "string",
    "physics",
    "mathematics",
    "politics",
    "united",
    "used",
    "paris",
    "texas",
    "mars",
    "james",
    "charles",
    "wales",
    "windows",
    "sacred",
    "naked",
    "wicked",
];

/// The lemma of an English word in lower case, and its inflection. What no rule knows is its own lemma.
#[must_use]
pub fn lemma(word: &str) -> (String, Inflection) {
    if !word.is_ascii() || word.len() < 3 || WHOLE.contains(&word) {
        return (word.to_owned(), Inflection::Base);
    }
    if let Some((base, _)) = IRREGULAR.iter().find(|(_, forms)| forms.split(' ').any(|form| form == word)) {
        return ((*base).to_owned(), Inflection::Past);
    }
    if let Some((_, base)) = PLURALS.iter().find(|(plural, _)| *plural == word) {
        return ((*base).to_owned(), Inflection::S);
    }
    if let Some(stem) = word.strip_suffix("ied").filter(|stem| stem.len() > 1) {
        return (format!("{stem}y"), Inflection::Past);
    }
    if let Some(stem) = word.strip_suffix("ed").filter(|stem| has_vowel(stem) && stem.len() > 2) {
        return (restored(stem), Inflection::Past);
    }
    if let Some(stem) = word.strip_suffix("ing").filter(|stem| has_vowel(stem) && stem.len() > 2) {
        return (restored(stem), Inflection::Ing);
    }
    if let Some(stem) = word.strip_suffix("ies").filter(|stem| stem.len() > 1) {
        return (format!("{stem}y"), Inflection::S);
    }
    if let Some(stem) = word
        .strip_suffix("es")
        .filter(|stem| stem.ends_with(['s', 'x', 'z']) || stem.ends_with("ch") || stem.ends_with("sh"))
    {
        // "cases" and "sizes" are of "case" and "size"; "boxes" and "losses" are not of "boxe".
        let base = if stem.ends_with("ss") || stem.ends_with('x') || stem.ends_with('h') {
            stem
        } else {
            &word[..word.len() - 1]
        };
        return (base.to_owned(), Inflection::S);
    }
    if let Some(stem) =
        word.strip_suffix('s').filter(|stem| stem.len() > 2 && !stem.ends_with(['s', 'u', 'i']))
    {
        return (stem.to_owned(), Inflection::S);
    }
    (word.to_owned(), Inflection::Base)
}

/// Ends of stems that lost an e, and stems that end so and lost none.
const E_ENDINGS: &[&str] =
    &["at", "bl", "tl", "dl", "pl", "gl", "iz", "ur", "ir", "quir", "ib", "id", "ut", "or"];
const NO_E: &[&str] = &[
    "treat", "repeat", "cheat", "seat", "heat", "beat", "defeat", "float", "coat", "boat", "chat", "format",
    "avoid", "paid", "monitor", "editor", "tutor", "layout", "shout", "about", "put", "doctor", "author",
    "sponsor", "occur", "stir", "repair", "pair", "hair", "air", "aid", "raid", "tour", "pour", "favour",
    "colour", "labour", "honour", "color", "favor", "anchor", "factor", "mirror", "floor", "door",
];

fn has_vowel(text: &str) -> bool {
    text.bytes().any(|byte| b"aeiouy".contains(&byte))
}

fn is_vowel(byte: u8) -> bool {
    b"aeiou".contains(&byte)
}

/// The verb of a stem before -ed or -ing: a doubled letter is one, a dropped e comes back.
fn restored(stem: &str) -> String {
    let bytes = stem.as_bytes();
    let (last, before) = (bytes[bytes.len() - 1], bytes[bytes.len() - 2]);
    if last == before && !is_vowel(last) {
        let keeps = matches!(last, b's' | b'z' | b'f') || last == b'l' && stem.len() < 6;
        return if keeps { stem.to_owned() } else { stem[..stem.len() - 1].to_owned() };
    }
    let vowels = (1..bytes.len()).filter(|at| is_vowel(bytes[*at]) && !is_vowel(bytes[at - 1])).count()
        + usize::from(is_vowel(bytes[0]));
    let is_short = bytes.len() >= 3
        && vowels == 1
        && !is_vowel(last)
        && !matches!(last, b'w' | b'x' | b'y')
        && is_vowel(before)
        && !is_vowel(bytes[bytes.len() - 3]);
    let needs_e = matches!(last, b'c' | b'v' | b'u' | b'z')
        || last == b'g' && before != b'n'
        || last == b's' && before != b's'
        || E_ENDINGS.iter().any(|end| stem.ends_with(end)) && !NO_E.contains(&stem)
        || is_short;
    if needs_e { format!("{stem}e") } else { stem.to_owned() }
}

/// Whether one lemma is the other with a prefix that turns it round, or -less for -ful.
pub(crate) fn opposite_by_form(one: &str, two: &str) -> bool {
    const PREFIXES: [&str; 9] = ["un", "in", "im", "ir", "il", "dis", "non", "de", "mis"];
    let turns = |long: &str, short: &str| {
        short.len() > 2
            && PREFIXES.iter().any(|prefix| {
                long.strip_prefix(prefix).is_some_and(|rest| rest.trim_start_matches('-') == short)
            })
    };
    turns(one, two)
        || turns(two, one)
        || matches!((one.strip_suffix("ful"), two.strip_suffix("less")), (Some(a), Some(b)) if a == b)
        || matches!((two.strip_suffix("ful"), one.strip_suffix("less")), (Some(a), Some(b)) if a == b)
}
