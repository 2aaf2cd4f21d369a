//! Answers that refuse or do not know.

use std::sync::LazyLock;

use regex::Regex;

use crate::atoms::compiled;

/// Refusals say so early.
const CHARACTERS: usize = 240;

static REFUSAL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    compiled(
        r"(?ix)
        \bi(?:\s?(?:'|’)m|\s+am)\s+(?:sorry|afraid),?\s+(?:but\s+)?(?:that\s+)?i\s*(?:(?:'|’)m\s+(?:unable|not\s+able)|can(?:'|’)?t|cannot|can\s+not|am\s+(?:unable|not\s+able)|won(?:'|’)t|don(?:'|’)t)
        |\bi\s+(?:can(?:'|’)t|cannot|can\s+not|won(?:'|’)t|will\s+not|am\s+unable\s+to|am\s+not\s+able\s+to|must\s+decline)\s*(?:to\s+)?(?:help|assist|provide|answer|do\s+that|fulfil|fulfill|comply|discuss|share|give|offer|support|create|generate|write)?\b
        |\bi(?:'|’)m\s+(?:unable|not\s+able)\s+to\b
        |\bas\s+an?\s+(?:ai|artificial\s+intelligence|language\s+model)\b
        |\bunable\s+to\s+(?:help|assist|answer|comply|process\s+(?:this|your)\s+request)
        |\bi\s+(?:do\s+not|don(?:'|’)t)\s+(?:know|have\s+(?:access|information|enough))
        |\bsorry,\s+(?:but\s+)?(?:i|we)\s+(?:can(?:'|’)t|cannot|are\s+unable|do\s+not|don(?:'|’)t)
        |(?:抱歉|对不起|很遗憾|不好意思).{0,12}(?:无法|不能|没办法|不知道|不清楚)
        |我(?:们)?(?:无法|不能|没办法)(?:回答|提供|帮助|协助|处理|满足|透露|讨论)
        |作为(?:一个|一名)?(?:AI|人工智能|语言模型)
        |我不(?:知道|清楚|了解)
        |不便(?:回答|透露|提供)",
    )
});

/// Whether an answer refuses or says that it does not know.
pub(crate) fn is_refusal(answer: &str) -> bool {
    let end = answer.char_indices().nth(CHARACTERS).map_or(answer.len(), |(at, _)| at);
    REFUSAL.as_ref().is_some_and(|pattern| pattern.is_match(&answer[..end]))
}
