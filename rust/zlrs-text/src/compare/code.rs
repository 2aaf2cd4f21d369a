//! Code by tokens.

/// The code that an answer is: one fenced block and nothing else, or lines of which most look like code.
pub(crate) fn of(text: &str) -> Option<(&str, &str)> {
    if let Some(rest) = text.strip_prefix("```") {
        let body = rest.strip_suffix("```")?;
        let (info, body) = body.split_once('\n')?;
        return (!body.contains("```")).then_some((info.trim(), body));
    }
    if text.len() > 2
        && text.starts_with('`')
        && text.ends_with('`')
        && !text[1..text.len() - 1].contains('`')
    {
        return Some(("", &text[1..text.len() - 1]));
    }
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let code = lines.iter().filter(|line| is_code_line(line)).count();
    (code > 0 && code * 10 >= lines.len() * 6).then_some(("", text))
}

fn is_code_line(line: &str) -> bool {
    const STARTS: [&str; 16] = [
        "def ",
        "class ",
        "import ",
        "from ",
        "#include",
        "function ",
        "const ",
        "let ",
        "var ",
        "public ",
        "return ",
        "SELECT ",
        "INSERT ",
        "UPDATE ",
        "fn ",
        "if (",
    ];
    let ends = line.ends_with([';', '{', '}']) || line.ends_with("):");
    let calls = line.contains(['(', '=', '{', '*']) || line.contains(" FROM ");
    ends && line.contains(['(', ')', '=', '{', '}'])
        || STARTS.iter().any(|start| line.starts_with(start)) && calls && !line.ends_with('.')
}

/// Tokens: words, numbers, quotations with their spaces, single signs. Line ends and indentation count where blocks are
/// made by them.
pub(crate) fn tokens(info: &str, code: &str) -> Vec<String> {
    let is_indented = matches!(info, "python" | "py" | "yaml" | "yml" | "makefile" | "haskell")
        || code.lines().any(|line| line.trim_end().ends_with(':'));
    let mut out = Vec::new();
    let mut depths = vec![0];
    for line in code.lines().filter(|line| !line.trim().is_empty()) {
        if is_indented {
            let depth = line.len() - line.trim_start().len();
            out.push("\n".to_owned());
            if depths.last().is_some_and(|last| depth > *last) {
                depths.push(depth);
                out.push("indent".to_owned());
            }
            while depths.last().is_some_and(|last| depth < *last) {
                depths.pop();
                out.push("dedent".to_owned());
            }
        }
        line_tokens(line.trim(), &mut out);
    }
    out
}

fn line_tokens(line: &str, out: &mut Vec<String>) {
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        let length = if matches!(first, '"' | '\'' | '`') {
            closing(rest, first)
        } else if is_word(first) {
            rest.find(|character| !is_word(character)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        if !first.is_whitespace() {
            out.push(rest[..length].to_owned());
        }
        rest = &rest[length..];
    }
}

/// The length of the quotation at the start of `text`.
fn closing(text: &str, mark: char) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        if character == mark && !is_escaped {
            return at + 1;
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    text.len()
}
