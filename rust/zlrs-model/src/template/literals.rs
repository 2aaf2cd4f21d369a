//! The string literals of a chat template: the texts it may look for in messages.

/// The string literals inside `{{ … }}` and `{% … %}`, escapes resolved as far as they are common.
pub(super) fn string_literals(source: &str) -> Vec<String> {
    let mut literals = Vec::new();
    let mut rest = source;
    while let Some(start) = rest.find(['{']) {
        rest = &rest[start..];
        let Some(close) = [("{{", "}}"), ("{%", "%}")].iter().find(|(open, _)| rest.starts_with(open)) else {
            rest = if rest.starts_with("{#") {
                rest.split_once("#}").map_or("", |(_, after)| after)
            } else {
                &rest[1..]
            };
            continue;
        };
        rest = tag(&rest[2..], close.1, &mut literals);
    }
    literals
}

/// Collects the literals of one tag; what follows the tag.
fn tag<'s>(mut rest: &'s str, close: &str, literals: &mut Vec<String>) -> &'s str {
    loop {
        let Some(next) = rest.find(['\'', '"', '}', '%']) else { return "" };
        rest = &rest[next..];
        if let Some(after) = rest.strip_prefix(close) {
            return after;
        }
        let Some(quote) = rest.chars().next() else { return "" };
        rest = &rest[quote.len_utf8()..];
        if matches!(quote, '\'' | '"') {
            let (literal, after) = literal(rest, quote);
            literals.push(literal);
            rest = after;
        }
    }
}

/// The literal up to `quote`, and what follows it.
fn literal(text: &str, quote: char) -> (String, &str) {
    let mut out = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        if character == quote {
            return (out, &text[at + quote.len_utf8()..]);
        }
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some((_, 'n')) => out.push('\n'),
            Some((_, 't')) => out.push('\t'),
            Some((_, 'r')) => out.push('\r'),
            Some((_, other)) => out.push(other),
            None => {}
        }
    }
    (out, "")
}
