//! The request headers that the graph obeys.

use super::{CACHE_ONLY, COHORT, DIAGNOSTIC, MULTI_MODAL, NO_GRAPH};

/// What the client asked of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one for each header")]
pub struct GraphHeaders {
    /// `X-ZLRS-No-Graph`: do not answer from the graph.
    pub no_graph: bool,
    /// `X-ZLRS-Cache-Only`: answer from the graph or not at all.
    pub cache_only: bool,
    /// `X-ZLRS-Multi-Modal`: text alone does not decide the answer.
    pub multi_modal: bool,
    /// `X-ZLRS-Diagnostic: full`.
    pub diagnostic: bool,
    /// `X-ZLRS-Cohort`, 1 to 64 characters of `[A-Za-z0-9._-]`.
    pub cohort: Option<String>,
    /// Whether a historical spelling was read: the response may answer in kind.
    pub historical: bool,
    /// Canonical names of headers that came under their historical name with a value that is not in the table
    /// and run as the default; for the receipt.
    pub degraded: Vec<&'static str>,
}

/// A header whose value is not in its table; an `invalid_request_error`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("header {header}: the value {value:?} is not allowed; allowed: {allowed}")]
pub struct HeaderError {
    /// The canonical name.
    pub header: &'static str,
    /// The value as given: the first 64 characters.
    pub value: String,
    /// The allowed values, for people.
    pub allowed: &'static str,
}

/// One header and how its value is read.
struct Known {
    name: &'static str,
    /// Historical spellings, read by engine and sidecar.
    historical: &'static [&'static str],
    /// A historical spelling in the vendor's own name space, read by the engine only.
    vendor: Option<&'static str>,
    allowed: &'static str,
    apply: fn(&mut GraphHeaders, &str) -> Option<()>,
}

const BOOLEAN: &str = "false, true";

const KNOWN: &[Known] = &[
    Known {
        name: NO_GRAPH,
        historical: &["bypass-zero-layer", "bypass_zero_layer"],
        vendor: None,
        allowed: BOOLEAN,
        apply: |headers, value| boolean(value).map(|on| headers.no_graph = on),
    },
    Known {
        name: CACHE_ONLY,
        historical: &["cache-only"],
        vendor: None,
        allowed: BOOLEAN,
        apply: |headers, value| boolean(value).map(|on| headers.cache_only = on),
    },
    Known {
        name: MULTI_MODAL,
        historical: &["x-multi-modal"],
        vendor: None,
        allowed: BOOLEAN,
        apply: |headers, value| boolean(value).map(|on| headers.multi_modal = on),
    },
    Known {
        name: DIAGNOSTIC,
        historical: &[],
        vendor: Some("x-anthropic-diagnostic"),
        allowed: "off, full",
        apply: |headers, value| choice(value, &["off", "full"]).map(|index| headers.diagnostic = index == 1),
    },
    Known {
        name: COHORT,
        historical: &[],
        vendor: None,
        allowed: "1 to 64 characters of [A-Za-z0-9._-]",
        apply: |headers, value| is_cohort(value).then(|| headers.cohort = Some(value.to_owned())),
    },
];

impl GraphHeaders {
    /// Reads them from all request headers. `vendor_names`: whether `X-Anthropic-*` spellings are read too (the
    /// engine does, the sidecar never). A canonical spelling wins over a historical one. Values ignore case but
    /// for the cohort.
    ///
    /// # Errors
    /// [`HeaderError`] for a canonical header whose value is not in its table, or that came twice with two values.
    /// Under a historical name such a value degrades to the default.
    pub fn parse<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        headers: &[(N, V)],
        vendor_names: bool,
    ) -> Result<GraphHeaders, HeaderError> {
        let mut parsed = GraphHeaders::default();
        for known in KNOWN {
            let named = |spelling: &str| {
                headers
                    .iter()
                    .filter(move |(name, _)| name.as_ref().eq_ignore_ascii_case(spelling.as_bytes()))
                    .map(|(_, value)| value.as_ref())
                    .collect::<Vec<&[u8]>>()
            };
            let canonical = named(known.name);
            if !canonical.is_empty() {
                read(known, &canonical, &mut parsed).map_err(|value| HeaderError {
                    header: known.name,
                    value: String::from_utf8_lossy(value).chars().take(64).collect(),
                    allowed: known.allowed,
                })?;
                continue;
            }
            let vendor = known.vendor.filter(|_| vendor_names);
            for spelling in known.historical.iter().copied().chain(vendor) {
                let values = named(spelling);
                if values.is_empty() {
                    continue;
                }
                parsed.historical = true;
                if read(known, &values, &mut parsed).is_err() {
                    parsed.degraded.push(known.name);
                }
                break;
            }
        }
        Ok(parsed)
    }
}

/// Applies the one value that all of `values` agree on; gives back the value that cannot be used.
fn read<'v>(known: &Known, values: &[&'v [u8]], into: &mut GraphHeaders) -> Result<(), &'v [u8]> {
    let Some((first, others)) = values.split_first() else { return Ok(()) };
    if let Some(other) = others.iter().find(|other| *other != first) {
        return Err(other);
    }
    let text = std::str::from_utf8(first).map_err(|_| *first)?.trim_matches([' ', '\t']);
    (known.apply)(into, text).ok_or(*first)
}

fn boolean(value: &str) -> Option<bool> {
    choice(value, &["false", "true"]).map(|index| index == 1)
}

fn choice(value: &str, allowed: &[&str]) -> Option<usize> {
    allowed.iter().position(|known| known.eq_ignore_ascii_case(value))
}

fn is_cohort(value: &str) -> bool {
    (1..=64).contains(&value.len())
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}
