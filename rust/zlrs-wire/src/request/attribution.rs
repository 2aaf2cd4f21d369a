//! A client's per-request attribution line at the head of the system prompt.
//!
//! One coding client puts a line with its version and a check value that changes with every request before its
//! system prompt. It is for billing and says nothing to a model, so it is left out of the scope. The shape is held
//! narrow, so that nothing else can hide in it: known keys, short plain values, one line, only at the head.

const PREFIX: &str = "x-anthropic-billing-header:";
const KEYS: &[&str] = &["cc_version", "cc_entrypoint", "cc_workload", "cch"];
const LONGEST_VALUE: usize = 32;

/// What follows the attribution line at the head of `text`, without its line end; `None` without such a line.
pub(super) fn strip(text: &str) -> Option<&str> {
    let line = text.split('\n').next()?;
    let pairs = line.strip_prefix(PREFIX)?.trim_end_matches(['\r', ' ']);
    let mut keys = Vec::with_capacity(KEYS.len());
    for pair in pairs.split_terminator(';') {
        let (key, value) = pair.trim_start_matches(' ').split_once('=')?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !KEYS.contains(&key)
            || keys.contains(&key)
            || value.len() > LONGEST_VALUE
            || !value.bytes().all(plain)
        {
            return None;
        }
        keys.push(key);
    }
    if keys.is_empty() {
        return None;
    }
    Some(text[line.len()..].strip_prefix('\n').unwrap_or(""))
}
