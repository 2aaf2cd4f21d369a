//! What a network is worth on texts it has not seen.

use super::Sample;
use crate::{Fingerprint, Network};

/// Figures on held-out texts beside the texts it learned from.
#[derive(Clone, Debug, PartialEq)]
pub struct Quality {
    /// Held-out texts with a fingerprint.
    pub texts: usize,
    /// Share whose nearest known text asks the same.
    pub nearest: f64,
    /// For each threshold: the threshold, the share of held-out texts whose nearest known text is at least that near
    /// (recall), and the share of those that ask the same (precision).
    pub at: Vec<(f64, f64, f64)>,
}

/// Looks every held-out text up among the known ones. Quadratic: held-out times known texts.
pub fn quality(network: &Network, known: &[Sample], held_out: &[Sample], thresholds: &[f64]) -> Quality {
    let of = |samples: &[Sample]| -> Vec<(Fingerprint, String)> {
        samples
            .iter()
            .filter_map(|sample| Some((network.fingerprint(&sample.text)?, sample.label.clone())))
            .collect()
    };
    let mut forms = crate::Forms::new(usize::MAX);
    for (fingerprint, label) in of(known) {
        forms.add(&fingerprint, label);
    }
    let held_out = of(held_out);
    let mut results = Vec::with_capacity(held_out.len());
    for (fingerprint, label) in &held_out {
        if let Some(near) = forms.nearest(fingerprint, -1.0, 1).first() {
            results.push((f64::from(near.cosine), near.value == label));
        }
    }
    let all = held_out.len().max(1) as f64;
    let at = thresholds
        .iter()
        .map(|threshold| {
            let near = results.iter().filter(|(cosine, _)| cosine >= threshold);
            let (found, right) =
                near.fold((0_u32, 0_u32), |(found, right), (_, same)| (found + 1, right + u32::from(*same)));
            (*threshold, f64::from(found) / all, f64::from(right) / f64::from(found.max(1)))
        })
        .collect();
    let nearest = results.iter().filter(|(_, same)| *same).count() as f64 / all;
    Quality { texts: held_out.len(), nearest, at }
}
