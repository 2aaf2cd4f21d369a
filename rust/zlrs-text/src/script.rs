//! Scripts and the language of a text.

/// Whether `character` is a Chinese character.
pub(crate) fn is_han(character: char) -> bool {
    matches!(character, '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{323AF}')
}

/// Whether `character` is Japanese hiragana or katakana.
pub(crate) fn is_kana(character: char) -> bool {
    matches!(character, '\u{3041}'..='\u{30FF}')
}

/// The languages that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// Words of English.
    English,
    /// Chinese characters without kana.
    Chinese,
    /// Chinese characters and kana.
    Japanese,
    /// Hangul.
    Korean,
    /// Cyrillic letters.
    Cyrillic,
    /// Arabic letters.
    Arabic,
    /// Words of German.
    German,
    /// Words of French.
    French,
    /// Words of Spanish.
    Spanish,
    /// Words of Italian.
    Italian,
    /// Words of Portuguese.
    Portuguese,
}

/// Words that are frequent in one of the languages and rare in the others.
const COMMON: &[(Language, &[&str])] = &[
    (
        Language::English,
        &[
            "the", "and", "is", "are", "of", "you", "your", "it", "with", "this", "that", "for", "can", "to",
            "be", "what", "how", "my", "we", "from", "not", "have", "will",
        ],
    ),
    (
        Language::German,
        &[
            "der", "die", "das", "und", "ist", "nicht", "sie", "ein", "eine", "mit", "für", "ich", "wir",
            "zu", "den", "wird", "auf", "ihre", "kann", "können",
        ],
    ),
    (
        Language::French,
        &[
            "le", "la", "les", "et", "est", "vous", "une", "des", "pour", "dans", "votre", "nous", "avec",
            "pas", "sur", "du", "sont", "pouvez", "je",
        ],
    ),
    (
        Language::Spanish,
        &[
            "el", "los", "las", "es", "una", "para", "con", "su", "usted", "puede", "del", "por", "y",
            "está", "más", "mi", "cómo", "en",
        ],
    ),
    (
        Language::Italian,
        &[
            "il", "gli", "è", "una", "per", "con", "di", "che", "sono", "può", "della", "non", "nel", "lo",
            "suo", "e",
        ],
    ),
    (
        Language::Portuguese,
        &[
            "o", "os", "uma", "você", "não", "com", "para", "é", "seu", "em", "da", "do", "pode", "são",
            "mais",
        ],
    ),
];

/// The language of `text`; `None` where there is too little to tell. Linear in its length.
#[must_use]
pub fn language(text: &str) -> Option<Language> {
    let (mut han, mut kana, mut hangul, mut cyrillic, mut arabic, mut latin) = (0, 0, 0, 0, 0, 0);
    for character in text.chars() {
        match character {
            _ if is_han(character) => han += 1,
            _ if is_kana(character) => kana += 1,
            '\u{AC00}'..='\u{D7AF}' => hangul += 1,
            '\u{0400}'..='\u{04FF}' => cyrillic += 1,
            '\u{0600}'..='\u{06FF}' => arabic += 1,
            _ if character.is_alphabetic() => latin += 1,
            _ => {}
        }
    }
    // A Chinese character says about as much as three letters.
    if kana > 0 && (kana + han) * 3 >= latin && kana * 10 >= han {
        return Some(Language::Japanese);
    }
    let scripts = [
        (han * 3, Language::Chinese),
        (hangul * 2, Language::Korean),
        (cyrillic, Language::Cyrillic),
        (arabic, Language::Arabic),
    ];
    if let Some((_, found)) = scripts.into_iter().find(|(weight, _)| *weight > 0 && *weight >= latin) {
        return Some(found);
    }
    by_words(text)
}

fn by_words(text: &str) -> Option<Language> {
    let mut counts = [0_usize; 6];
    for word in text.split(|character: char| !character.is_alphabetic()).filter(|word| !word.is_empty()) {
        let word = word.to_lowercase();
        for (count, (_, words)) in counts.iter_mut().zip(COMMON) {
            *count += usize::from(words.contains(&word.as_str()));
        }
    }
    let best = (0..counts.len()).max_by_key(|at| (counts[*at], std::cmp::Reverse(*at)))?;
    let second = (0..counts.len()).filter(|at| *at != best).map(|at| counts[at]).max()?;
    (counts[best] >= 2 && counts[best] > second).then(|| COMMON[best].0)
}
