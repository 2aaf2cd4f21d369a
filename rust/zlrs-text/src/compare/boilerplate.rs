//! What answers say around what they say: marks of layout, openings, closings, and yes or no at the start.

use crate::script::is_han;

/// Openings that say nothing, in lower case, as whole sentences or before a comma.
const OPENINGS: &[&str] = &[
    "sure",
    "sure thing",
    "of course",
    "certainly",
    "great question",
    "good question",
    "thanks for your question",
    "thank you for your question",
    "thanks for asking",
    "thanks for reaching out",
    "thank you for reaching out",
    "happy to help",
    "i'd be happy to help",
    "i'm happy to help",
    "hello",
    "hi",
    "hi there",
    "hello there",
    "no problem",
    "okay",
    "ok",
    "here is the answer",
    "here's the answer",
    "here you go",
    "absolutely",
    "您好",
    "你好",
    "好的",
    "当然",
    "当然可以",
    "没问题",
    "感谢您的提问",
    "感谢您的咨询",
    "谢谢您的提问",
    "很高兴为您服务",
    "亲",
];

/// Starts of closing sentences that say nothing.
const CLOSINGS: &[&str] = &[
    "hope this helps",
    "i hope this helps",
    "hope that helps",
    "i hope that helps",
    "let me know if",
    "please let me know if",
    "feel free to",
    "please feel free to",
    "is there anything else",
    "if you have any other questions",
    "if you have any questions",
    "if you have further questions",
    "if you need anything else",
    "have a great day",
    "have a nice day",
    "thank you",
    "thanks",
    "happy to help",
    "希望这对您有帮助",
    "希望对您有帮助",
    "希望能帮到您",
    "如果您还有其他问题",
    "如果还有其他问题",
    "如有其他问题",
    "如有疑问",
    "如果您有任何问题",
    "祝您生活愉快",
    "祝您愉快",
    "谢谢",
    "感谢您的理解",
    "请随时联系我们",
    "欢迎随时咨询",
];

const AFFIRMATIVE: &[&str] = &[
    "yes",
    "yeah",
    "yep",
    "correct",
    "that is correct",
    "that's correct",
    "true",
    "absolutely",
    "certainly",
    "definitely",
    "sure",
    "of course",
    "indeed",
    "right",
    "是的",
    "是",
    "对",
    "对的",
    "可以",
    "可以的",
    "能",
    "当然",
    "当然可以",
    "没错",
    "有的",
    "会的",
    "没问题",
];
const NEGATIVE: &[&str] = &[
    "no",
    "nope",
    "not really",
    "no way",
    "of course not",
    "certainly not",
    "absolutely not",
    "definitely not",
    "incorrect",
    "false",
    "that is not correct",
    "that's not correct",
    "that is incorrect",
    "unfortunately not",
    "unfortunately no",
    "not at all",
    "不是",
    "不",
    "不对",
    "不可以",
    "不能",
    "不行",
    "没有",
    "不会",
    "否",
    "不是的",
    "当然不",
    "当然不可以",
    "很遗憾不可以",
    "不能的",
];

/// Without headings, emphasis, list marks and line ends: steps keep their order, not their numbers.
pub(crate) fn without_layout(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let text = text.replace("**", "").replace("__", "");
    for line in text.lines() {
        let mut line = line.trim().trim_start_matches('#').trim_start();
        for mark in ["- ", "* ", "+ ", "• ", "> "] {
            line = line.strip_prefix(mark).unwrap_or(line).trim_start();
        }
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        if (1..=2).contains(&digits) {
            let rest = &line[digits..];
            for mark in [". ", ") ", "、", "）"] {
                line = rest.strip_prefix(mark).unwrap_or(line);
            }
        }
        if !line.is_empty() {
            if !out.is_empty() {
                // A line end ends a clause.
                out.push('\n');
            }
            out.push_str(line);
        }
    }
    out
}

/// Yes or no at the start, and the text without it and without empty openings and closings.
pub(crate) fn stripped(text: &str) -> (Option<bool>, &str) {
    let mut rest = text.trim();
    let mut polarity = None;
    let mut is_courtesy = false;
    while let Some((clause, after)) = first_clause(rest) {
        let clause = clause.to_lowercase().replace('\u{2019}', "'");
        let clause = clause.trim();
        if NEGATIVE.contains(&clause) || AFFIRMATIVE.contains(&clause) {
            // "Sure! No, …": a courtesy gives way to a word that answers.
            if polarity.is_some() && !is_courtesy {
                break;
            }
            polarity = Some(AFFIRMATIVE.contains(&clause));
            is_courtesy = OPENINGS.contains(&clause);
        } else if !OPENINGS.contains(&clause) {
            break;
        }
        if after.trim().is_empty() {
            break;
        }
        rest = after.trim_start();
    }
    while let Some((before, sentence)) = last_sentence(rest) {
        let lower = sentence.trim().to_lowercase();
        let is_closing = lower.chars().count() <= 120
            && !lower.bytes().any(|byte| byte.is_ascii_digit())
            && CLOSINGS.iter().any(|start| lower.starts_with(start));
        if !is_closing {
            break;
        }
        rest = before.trim_end();
    }
    (polarity, rest)
}

const ENDS: [char; 11] = ['.', '!', '?', '\n', ',', '，', '。', '！', '？', ':', '：'];

/// The text up to the first mark, and what follows it.
fn first_clause(text: &str) -> Option<(&str, &str)> {
    let at = text.find(ENDS)?;
    let mark = text[at..].chars().next()?;
    // A mark inside a number or an address ends nothing.
    let after = &text[at + mark.len_utf8()..];
    let ends = !mark.is_ascii()
        || after.is_empty()
        || after.starts_with(|next: char| next.is_whitespace() || is_han(next));
    ends.then_some((&text[..at], after))
}

/// The text before its last sentence, and that sentence, where there are two.
fn last_sentence(text: &str) -> Option<(&str, &str)> {
    let body = text.trim_end_matches(['.', '!', '?', '。', '！', '？', ' ', '\n', '～', '~']);
    let at = body.rfind(['.', '!', '?', '\n', '。', '！', '？'])?;
    let mark = body[at..].chars().next()?;
    let cut = at + mark.len_utf8();
    let starts = !mark.is_ascii() || text[cut..].starts_with(char::is_whitespace) || mark == '\n';
    starts.then(|| (&text[..cut], &text[cut..]))
}
