//! What one row loses when parts are left out.

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
    sum: f64,
}

impl Row {
    pub fn new(position: usize, logits: Vec<f32>) -> Self {
        let sum = log_sum_exp(&logits);
        Self { position, logits, sum }
    }

    /// O(vocabulary).
    pub fn harm(&self, logits: &[f32], next: Option<u32>) -> Harm {
        let sum = log_sum_exp(logits);
        let log = |logits: &[f32], sum: f64, index: usize| f64::from(logits[index]) - sum;
        let kl: f64 = (0..logits.len())
            .map(|index| {
                let full = log(&self.logits, self.sum, index);
                full.exp() * (full - log(logits, sum, index))
            })
            .sum();
        let identical = self.logits.iter().zip(logits).all(|(a, b)| a.to_bits() == b.to_bits());
        let loss_change = next
            .map_or(0.0, |next| log(&self.logits, self.sum, next as usize) - log(logits, sum, next as usize));
        // Rounding may leave a divergence a hair below 0.
        let kl = if identical { 0.0 } else { kl.max(0.0) };
        Harm { kl, differs: likeliest(&self.logits) != likeliest(logits), loss_change, identical }
    }
}

fn log_sum_exp(logits: &[f32]) -> f64 {
    let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    max + logits.iter().map(|&logit| (f64::from(logit) - max).exp()).sum::<f64>().ln()
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
        let row = Row::new(0, vec![0.75_f32.ln(), 0.25_f32.ln()]);
        let harm = row.harm(&[0.25_f32.ln() + 3.0, 0.75_f32.ln() + 3.0], Some(0));
        let expected = 0.75 * 3.0_f64.ln() - 0.25 * 3.0_f64.ln();
        assert!((harm.kl - expected).abs() < 1e-6, "{harm:?}");
        assert!((harm.loss_change - 3.0_f64.ln()).abs() < 1e-6, "{harm:?}");
        assert!(harm.differs && !harm.identical);
    }

    #[test]
    fn the_same_logits_lose_nothing() {
        let row = Row::new(0, vec![1.0, 2.0, 0.5]);
        let harm = row.harm(&[1.0, 2.0, 0.5], None);
        assert_eq!(harm, Harm { kl: 0.0, differs: false, loss_change: 0.0, identical: true });
    }
}
