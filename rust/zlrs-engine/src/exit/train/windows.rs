//! Which windows of text are for what.

use std::collections::BTreeMap;

use super::Domain;
use crate::exit::SHORTLIST_LIMIT;

/// What a window is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Fit,
    Tune,
    Test,
}

/// The windows for one use, with the index of their domain.
pub(super) fn windows_of(domains: &[Domain], wanted: Use) -> impl Iterator<Item = (usize, &[u32])> {
    domains.iter().enumerate().flat_map(move |(domain, texts)| {
        let of = |index: usize| match index % 5 {
            0 | 3 => Use::Fit,
            2 => Use::Tune,
            _ => Use::Test,
        };
        let own = texts.windows.iter().enumerate().filter(move |(index, _)| of(*index) == wanted);
        own.map(move |(_, ids)| (domain, ids.as_slice()))
    })
}

/// The tokens that come most often in the texts to fit on; the lower of equals.
pub(super) fn shortlist(domains: &[Domain]) -> Vec<u32> {
    let mut counts = BTreeMap::new();
    for (_, ids) in windows_of(domains, Use::Fit) {
        for &id in ids {
            *counts.entry(id).or_insert(0_usize) += 1;
        }
    }
    let mut order: Vec<(u32, usize)> = counts.into_iter().collect();
    order.sort_by_key(|&(id, count)| (usize::MAX - count, id));
    order.into_iter().take(SHORTLIST_LIMIT).map(|(id, _)| id).collect()
}
