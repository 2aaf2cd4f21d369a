//! The word lists of C2. They are short on purpose: a word that is missing costs a merge, a wrong one an answer.

/// First words of questions.
pub(crate) const INTERROGATIVE: &[&str] = &[
    "what", "how", "why", "when", "where", "who", "whose", "which", "is", "are", "was", "were", "do", "does",
    "did", "can", "could", "should", "would", "has", "have",
];

/// First words of commands that ask for an answer.
pub(crate) const IMPERATIVE: &[&str] = &[
    "tell", "explain", "give", "show", "list", "describe", "find", "help", "send", "check", "cancel",
    "track", "compare", "name", "define",
];

/// First words of statements that stand for a question.
pub(crate) const STATEMENT: &[&str] = &["i", "my", "we", "our", "there", "the"];

/// Words after which a wording is itself the subject: nothing may be changed in it.
pub(crate) const ABOUT_WORDING: &[&str] = &[
    "abbreviation",
    "accent",
    "capital",
    "capitalize",
    "capitalise",
    "case",
    "character",
    "characters",
    "classify",
    "comma",
    "contraction",
    "correct",
    "count",
    "echo",
    "edit",
    "exclamation",
    "expand",
    "formal",
    "grammar",
    "grammatical",
    "letter",
    "letters",
    "lowercase",
    "mark",
    "match",
    "matches",
    "mean",
    "means",
    "paraphrase",
    "phrase",
    "polite",
    "pronounce",
    "pronounced",
    "proofread",
    "punctuate",
    "punctuation",
    "quote",
    "regex",
    "repeat",
    "rephrase",
    "reverse",
    "rewrite",
    "rhyme",
    "rhymes",
    "said",
    "say",
    "says",
    "sentence",
    "sentiment",
    "spell",
    "spelled",
    "spelling",
    "summarise",
    "summarize",
    "syllables",
    "synonym",
    "text",
    "title",
    "tone",
    "translate",
    "translation",
    "uppercase",
    "word",
    "words",
    "write",
    "written",
];

/// Endings that look like a word before a full stop and are not.
pub(crate) const ABBREVIATIONS: &[&str] = &[
    "approx", "apr", "aug", "corp", "dec", "dept", "est", "etc", "feb", "fig", "inc", "jan", "jul", "jun",
    "ltd", "mar", "max", "min", "nov", "oct", "sep", "sept", "vol", "vs",
];

/// Contractions with one reading, or whose readings never stand in the same sentence ("what's" is "what has" only
/// where "what is" would not be English). `'d`, `let's` and `ain't` are ambiguous and stay.
pub(crate) const CONTRACTIONS: &[(&str, &str)] = &[
    ("can't", "cannot"),
    ("won't", "will not"),
    ("don't", "do not"),
    ("doesn't", "does not"),
    ("didn't", "did not"),
    ("isn't", "is not"),
    ("aren't", "are not"),
    ("wasn't", "was not"),
    ("weren't", "were not"),
    ("haven't", "have not"),
    ("hasn't", "has not"),
    ("hadn't", "had not"),
    ("couldn't", "could not"),
    ("shouldn't", "should not"),
    ("wouldn't", "would not"),
    ("i'm", "I am"),
    ("i'll", "I will"),
    ("i've", "I have"),
    ("you're", "you are"),
    ("you'll", "you will"),
    ("you've", "you have"),
    ("we're", "we are"),
    ("we'll", "we will"),
    ("we've", "we have"),
    ("they're", "they are"),
    ("they'll", "they will"),
    ("they've", "they have"),
    ("it's", "it is"),
    ("it'll", "it will"),
    ("that's", "that is"),
    ("there's", "there is"),
    ("what's", "what is"),
    ("where's", "where is"),
    ("who's", "who is"),
    ("how's", "how is"),
    ("when's", "when is"),
];

/// Openings that say hello.
pub(crate) const GREETINGS: &[&str] = &["hi", "hello", "hey", "hi there", "hello there"];

/// Closings that say thanks.
pub(crate) const THANKS: &[&str] = &[
    "thanks",
    "thank you",
    "thx",
    "many thanks",
    "thanks in advance",
    "thank you in advance",
    "thank you very much",
    "thanks a lot",
];

/// Words of two letters that can end a sentence and abbreviate nothing.
pub(crate) const SHORT_ENDINGS: &[&str] = &["do", "in", "it", "me", "on", "so", "to", "up"];
