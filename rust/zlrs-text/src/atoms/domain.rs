//! Identifiers of a business: the built-in patterns and configured ones.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use crate::atoms::pattern::compiled;
use crate::error::TextError;

/// Longest name of a configured pattern, in bytes.
pub const PATTERN_NAME_BYTES: usize = 32;
/// Longest source of a configured pattern, in bytes.
pub const PATTERN_BYTES: usize = 500;
/// Most configured patterns.
pub const PATTERNS: usize = 64;
/// Largest compiled form of a configured pattern, in bytes.
const COMPILED_BYTES: usize = 256 * 1024;

/// A configured pattern: what the identifiers of a business look like.
#[derive(Clone, Debug)]
pub struct DomainPattern {
    name: String,
    regex: Regex,
}

impl DomainPattern {
    /// A pattern with a name of lower-case letters, digits and `_`. The regular expression is searched for in linear
    /// time; its group `id`, or the whole match, is the identifier.
    ///
    /// # Errors
    /// A name or a source that is too long or not well-formed, or a pattern that matches nothing at all.
    pub fn new(name: &str, source: &str) -> Result<DomainPattern, TextError> {
        let is_name = !name.is_empty()
            && name.len() <= PATTERN_NAME_BYTES
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if !is_name {
            return Err(TextError::PatternName { name: name.chars().take(40).collect() });
        }
        if source.len() > PATTERN_BYTES {
            return Err(TextError::PatternTooLong { name: name.to_owned(), bytes: source.len() });
        }
        let regex = RegexBuilder::new(source)
            .size_limit(COMPILED_BYTES)
            .dfa_size_limit(COMPILED_BYTES)
            .nest_limit(32)
            .build()
            .map_err(|error| TextError::Pattern { name: name.to_owned(), reason: error.to_string() })?;
        if regex.is_match("") {
            return Err(TextError::PatternEmpty { name: name.to_owned() });
        }
        Ok(DomainPattern { name: name.to_owned(), regex })
    }

    /// The pattern's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The regular expression as it was given.
    pub(crate) fn source(&self) -> &str {
        self.regex.as_str()
    }

    fn find(&self, text: &str, out: &mut Vec<(Range<usize>, String, String)>) {
        for captures in self.regex.captures_iter(text) {
            if let Some(id) = captures.name("id").or_else(|| captures.get(0)).filter(|id| !id.is_empty()) {
                out.push((id.range(), self.name.clone(), id.as_str().to_owned()));
            }
        }
    }
}

/// Words before an identifier, in English and in Chinese, and shapes that are one without a word.
const KEYED: &[(&str, &str, &str, &str)] = &[
    ("order", "order|purchase order|po", "订单", r"(?:ORD|SO|PO)-?[0-9][0-9-]{2,24}"),
    ("invoice", "invoice|inv|bill", "发票|账单", r"INV-?[0-9][0-9-]{2,24}"),
    ("ticket", "ticket|case|incident|support request", "工单|案件", r"(?:TCK|TKT|INC|CS)-?[0-9][0-9-]{2,24}"),
    (
        "tracking",
        "tracking|shipment|parcel|package|waybill|consignment",
        "运单|快递单|物流单|快递|物流",
        "1Z[0-9A-Z]{16}",
    ),
    (
        "customer",
        "customer|account|member|membership|client",
        "客户|会员|账号|账户",
        r"CUST-?[0-9][0-9-]{2,24}",
    ),
    ("booking", "booking|reservation|confirmation|pnr", "预订|预约|确认", r"(?:BKG|RES)-?[0-9][0-9-]{2,24}"),
    (
        "transaction",
        "transaction|payment|transfer|txn|refund",
        "交易|流水|支付|退款",
        r"(?:TXN|PAY)-?[0-9][0-9-]{2,24}",
    ),
    ("product", "sku|product|item|part|model|serial", "商品|产品|型号|序列", r"SKU-?[A-Z0-9][A-Z0-9-]{2,24}"),
    ("flight", "flight|train", "航班|车次", r"(?:CA|MU|CZ|HU|BA|LH|AF|UA|AA|DL|EK|QR|SQ)\s?[0-9]{3,4}"),
];

static BUILT_IN: LazyLock<Vec<(&'static str, Regex)>> = LazyLock::new(|| {
    KEYED
        .iter()
        .filter_map(|(name, english, chinese, shape)| {
            let source = format!(
                r"(?i:(?-u:\b)(?:{english})(?P<mark>s?(?:\s+(?:number|num|no|nr|id|reference|ref|code)(?-u:\b))?\.?\s?[:#№]?\s?(?:is\s)?)(?P<a>[A-Z0-9][A-Z0-9-]{{0,31}})(?-u:\b))|(?:{chinese})(?:单?号码?|编号|ID)?\s?[:：#是为]?\s?(?P<b>[A-Za-z0-9][A-Za-z0-9-]{{3,31}})|(?-u:\b)(?P<c>{shape})(?-u:\b)"
            );
            Some((*name, compiled(&source)?))
        })
        .collect()
});

static VERSION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    compiled(
        r"(?i)(?-u:\b)(?:version|ver\.?|v)\s?(?P<a>[0-9]+(?:\.[0-9]+)*(?:-[a-z0-9.]+)?)(?-u:\b)|(?P<b>(?-u:\b)[0-9]+(?:\.[0-9]+){2,}(?:-[a-z0-9.]+)?(?-u:\b))",
    )
});
static UUID: LazyLock<Option<Regex>> =
    LazyLock::new(|| compiled(r"(?i)(?-u:\b)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?-u:\b)"));
static EMAIL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    compiled(r"(?i)(?-u:\b)[a-z0-9._%+-]{1,64}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})+(?-u:\b)")
});
static PHONE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    compiled(
        r"\+[0-9][0-9 ().-]{6,18}[0-9]|\([0-9]{2,4}\)\s?[0-9][0-9 -]{5,12}[0-9]|(?-u:\b)0[0-9]{2,3}-[0-9]{7,8}(?-u:\b)|(?-u:\b)[0-9]{3}[-.][0-9]{3}[-.][0-9]{4}(?-u:\b)|(?-u:\b)1[3-9][0-9]{9}(?-u:\b)|(?-u:\b)1[3-9][0-9][ -][0-9]{4}[ -][0-9]{4}(?-u:\b)",
    )
});

/// Names of the built-in patterns.
pub const BUILT_IN_PATTERNS: [&str; 13] = [
    "order",
    "invoice",
    "ticket",
    "tracking",
    "customer",
    "booking",
    "transaction",
    "product",
    "flight",
    "phone",
    "email",
    "uuid",
    "version",
];

/// Identifiers by the built-in patterns: range, pattern, canonical value.
pub(crate) fn built_in(text: &str) -> Vec<(Range<usize>, String, String)> {
    let mut out = Vec::new();
    if !text.bytes().any(|byte| byte.is_ascii_digit() || byte == b'@') {
        return out;
    }
    for (name, pattern) in [("uuid", &UUID), ("email", &EMAIL)] {
        for found in pattern.iter().flat_map(|pattern| pattern.find_iter(text)) {
            out.push((found.range(), name.to_owned(), found.as_str().to_owned()));
        }
    }
    for found in PHONE.iter().flat_map(|pattern| pattern.find_iter(text)) {
        let digits: String = found
            .as_str()
            .chars()
            .filter(|character| character.is_ascii_digit() || *character == '+')
            .collect();
        // +1.5000000 is a number, and +1000 - 2000 are two.
        let separators = found.as_str().bytes().filter(|byte| !byte.is_ascii_digit() && *byte != b'+');
        let is_sum =
            found.as_str().contains(" - ") || found.as_str().contains('.') && separators.count() == 1;
        let is_whole = !text[..found.start()]
            .ends_with(|last: char| last.is_ascii_alphanumeric() || last == '-')
            && !text[found.end()..].starts_with(|next: char| next.is_ascii_alphanumeric());
        if (8..=16).contains(&digits.len()) && is_whole && !is_sum {
            out.push((found.range(), "phone".to_owned(), digits));
        }
    }
    for (name, pattern) in BUILT_IN.iter() {
        for captures in pattern.captures_iter(text) {
            let Some(id) = ["a", "b", "c"].iter().find_map(|group| captures.name(group)) else { continue };
            let is_marked = captures
                .name("mark")
                .is_none_or(|mark| mark.as_str().trim().len() > 1 || mark.as_str().contains(['#', ':']));
            let digits = id.as_str().bytes().filter(u8::is_ascii_digit).count();
            // "order 100 pizzas" is an amount, "order 1002003" is not.
            if digits >= if is_marked { 1 } else { 2 } && (is_marked || id.len() >= 5) {
                out.push((id.range(), (*name).to_owned(), id.as_str().to_owned()));
            }
        }
    }
    for captures in VERSION.iter().flat_map(|pattern| pattern.captures_iter(text)) {
        if let Some(id) = captures.name("a").or_else(|| captures.name("b")) {
            out.push((id.range(), "version".to_owned(), id.as_str().to_owned()));
        }
    }
    out
}

/// Identifiers by configured patterns.
pub(crate) fn configured(text: &str, patterns: &[DomainPattern]) -> Vec<(Range<usize>, String, String)> {
    let mut out = Vec::new();
    for pattern in patterns {
        pattern.find(text, &mut out);
    }
    out
}
