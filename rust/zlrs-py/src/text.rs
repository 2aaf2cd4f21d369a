//! Places of texts in request bodies, hygiene and personal numbers.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use zlrs_text::hygiene::{Rule, Rules, clean};
use zlrs_text::redact::{Personal, masked, personal};
use zlrs_wire::places::places;

type Place = (String, &'static str, usize, usize, String);
type Member = (String, usize, usize);

/// The texts of a body (path, writer, start, end, text), the members of its outermost object (name, start, end), and
/// where that object's inside begins; None where the strict reading refuses the body.
#[pyfunction]
pub fn text_places(py: Python<'_>, body: &[u8]) -> Option<(Vec<Place>, Vec<Member>, usize)> {
    let found = py.detach(|| places(body)).ok()?;
    let texts = found
        .texts
        .into_iter()
        .map(|text| (text.path, text.writer.name(), text.range.start, text.range.end, text.text))
        .collect();
    let members = found.members.into_iter().map(|(name, range)| (name, range.start, range.end)).collect();
    Some((texts, members, found.inside))
}

/// A text cleaned by the named rules, and how much each of them took away.
#[pyfunction]
pub fn clean_text(
    py: Python<'_>,
    text: &str,
    rules: Vec<String>,
) -> PyResult<(String, HashMap<&'static str, usize>)> {
    let mut chosen = Rules::none();
    for name in &rules {
        let rule = Rule::ALL.iter().find(|rule| rule.name() == name);
        chosen =
            chosen.with(*rule.ok_or_else(|| PyValueError::new_err(format!("there is no rule {name:?}")))?);
    }
    let cleaned = py.detach(|| clean(text, chosen));
    Ok((cleaned.text, cleaned.applied.into_iter().map(|(rule, count)| (rule.name(), count)).collect()))
}

/// A text with its personal numbers of the named kinds masked, and how many of each there were.
#[pyfunction]
pub fn mask_personal(
    py: Python<'_>,
    text: &str,
    kinds: Vec<String>,
    mark: char,
    kept: usize,
) -> PyResult<(String, HashMap<&'static str, usize>)> {
    let mut chosen = Vec::with_capacity(kinds.len());
    for name in &kinds {
        let kind = Personal::ALL.iter().find(|kind| kind.name() == name);
        chosen.push(*kind.ok_or_else(|| PyValueError::new_err(format!("there is no kind {name:?}")))?);
    }
    Ok(py.detach(|| {
        let spans = personal(text, &chosen);
        let mut counts = HashMap::new();
        for (_, kind) in &spans {
            *counts.entry(kind.name()).or_insert(0) += 1;
        }
        (masked(text, &spans, mark, kept), counts)
    }))
}

/// Names of all hygiene rules with whether each is on by default, and of all kinds of personal numbers.
#[pyfunction]
pub fn text_names() -> (Vec<(&'static str, bool)>, Vec<&'static str>) {
    (
        Rule::ALL.iter().map(|rule| (rule.name(), rule.is_safe())).collect(),
        Personal::ALL.iter().map(|kind| kind.name()).collect(),
    )
}
