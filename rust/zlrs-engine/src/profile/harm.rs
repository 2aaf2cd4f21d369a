//! What one row loses when parts are left out.

use zlrs_kernels::{Isa, exp};

/// How far the logits of one row are from those of the full model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Harm {
    /// Kullback-Leibler divergence of the masked distribution from the full one, in nats.
    pub kl: f64,
    /// Whether the likeliest token is another.
    pub differs: bool,
    /// Minus the logarithm of the probability that the masked model gives the text's own next token, less the
    /// full model's, in nats; 0 after the last token.
    pub loss_change: f64,
    /// Whether every logit is the same, bit for bit.
    pub identical: bool,
}

/// What the full model says after one token.
pub(super) struct Row {
    pub position: usize,
    logits: Vec<f32>,
    /// The logarithm of the sum of their exponentials.
    sum: f64,
}

impl Row {
    /// `spare` is working memory.
    pub fn new(isa: Isa, position: usize, logits: Vec<f32>, spare: &mut Vec<f32>) -> Self {
        let sum = log_sum_exp(isa, &logits, spare);
        Self { position, logits, sum }
    }

    /// O(vocabulary). Exponentials are f32, everything that is summed up is f64.
    pub fn harm(&self, isa: Isa, logits: &[f32], next: Option<u32>, spare: &mut Vec<f32>) -> Harm {
        let identical = self.logits.iter().zip(logits).all(|(a, b)| a.to_bits() == b.to_bits());
        if identical {
            return Harm { kl: 0.0, differs: false, loss_change: 0.0, identical };
        }
        let sum = log_sum_exp(isa, logits, spare);
        // What the text's own next token loses, in nats.
        let lost =
            |index: usize| (f64::from(self.logits[index]) - self.sum) - (f64::from(logits[index]) - sum);
        let least = self.sum as f32;
        spare.clear();
        spare.extend(self.logits.iter().map(|&logit| logit - least));
        exp(isa, spare);
        let kl: f64 = spare.iter().enumerate().map(|(index, &share)| f64::from(share) * lost(index)).sum();
        Harm {
            // Rounding may leave a divergence a hair below 0.
            kl: kl.max(0.0),
            differs: likeliest(&self.logits) != likeliest(logits),
            loss_change: next.map_or(0.0, |next| lost(next as usize)),
            identical,
        }
    }
}

fn log_sum_exp(isa: Isa, logits: &[f32], spare: &mut Vec<f32>) -> f64 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    spare.clear();
    spare.extend(logits.iter().map(|&logit| logit - max));
    exp(isa, spare);
    f64::from(max) + spare.iter().copied().map(f64::from).sum::<f64>().ln()
}

/// The first of the largest.
fn likeliest(logits: &[f32]) -> usize {
    logits.iter().enumerate().fold(0, |best, (index, &logit)| if logit > logits[best] { index } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_divergence_is_that_of_two_coins() {
        let mut spare = Vec::new();
        let row = Row::new(Isa::Naive, 0, vec![0.75_f32.ln(), 0.25_f32.ln()], &mut spare);
        let masked = [0.25_f32.ln() + 3.0, 0.75_f32.ln() + 3.0];
        let harm = row.harm(Isa::Naive, &masked, Some(0), &mut spare);
        let expected = 0.75 * 3.0_f64.ln() - 0.25 * 3.0_f64.ln();
        assert!((harm.kl - expected).abs() < 1e-6, "{harm:?}");
        assert!((harm.loss_change - 3.0_f64.ln()).abs() < 1e-6, "{harm:?}");
        assert!(harm.differs && !harm.identical);
    }

    #[test]
    fn a_small_divergence_is_not_lost_in_rounding() {
        // Every second logit a little higher: the divergence in f64, from the shares of the two halves.
        let (count, change) = (50_000_usize, 1e-2_f32);
        let full: Vec<f32> = (0..count).map(|index| (index / 2 % 97) as f32 * 0.1).collect();
        let masked: Vec<f32> =
            full.iter().enumerate().map(|(index, logit)| logit + (index % 2) as f32 * change).collect();
        let change = f64::from(change);
        let expected = f64::midpoint(1.0, change.exp()).ln() - change / 2.0;
        let mut spare = Vec::new();
        let row = Row::new(Isa::Naive, 0, full, &mut spare);
        let harm = row.harm(Isa::Naive, &masked, None, &mut spare);
        assert!((harm.kl - expected).abs() < 0.01 * expected, "{harm:?}, expected {expected:e}");
    }

    #[test]
    fn the_same_logits_lose_nothing() {
        let mut spare = Vec::new();
        let row = Row::new(Isa::Naive, 0, vec![1.0, 2.0, 0.5], &mut spare);
        let harm = row.harm(Isa::Naive, &[1.0, 2.0, 0.5], None, &mut spare);
        assert_eq!(harm, Harm { kl: 0.0, differs: false, loss_change: 0.0, identical: true });
    }
}
