//! What a caller may ask of the sampler, with the limits.

use super::SamplingError;

/// Largest number of tokens one request may bias.
pub const LOGIT_BIAS_LIMIT: usize = 1024;

/// How the next token is chosen from the logits. The default is greedy: the token of the largest logit.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// 0 chooses greedily; otherwise logits are divided by it. Range 0 to 2.
    pub temperature: f32,
    /// Keep the smallest set of most likely tokens whose probabilities reach this sum. Range (0, 1], 1 is off.
    pub top_p: f32,
    /// Keep this many most likely tokens. 0 is off.
    pub top_k: u32,
    /// Keep tokens at least this fraction as likely as the most likely one. Range [0, 1), 0 is off.
    pub min_p: f32,
    /// Positive logits of tokens already in the sequence (prompt included) are divided by it, others
    /// multiplied. Range 0.1 to 10, 1 is off.
    pub repetition_penalty: f32,
    /// Key of the random draws. `None` draws one from the system; the one used is reported.
    pub seed: Option<u64>,
    /// Added to the logits of these tokens: (token id, bias). Range -100 to 100, at most
    /// [`LOGIT_BIAS_LIMIT`] entries.
    pub logit_bias: Vec<(u32, f32)>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            seed: None,
            logit_bias: Vec::new(),
        }
    }
}

impl Sampling {
    /// Whether the choice needs no random draw.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }

    /// Checks every parameter against its range; NaN is never in range.
    ///
    /// # Errors
    /// [`SamplingError::Parameter`] or [`SamplingError::UnknownToken`], naming the first that is wrong.
    pub fn validate(&self, vocabulary: usize) -> Result<(), SamplingError> {
        check("temperature", self.temperature, (0.0..=2.0).contains(&self.temperature), "0 to 2")?;
        check(
            "top_p",
            self.top_p,
            self.top_p > 0.0 && self.top_p <= 1.0,
            "greater than 0, at most 1 (1 turns it off)",
        )?;
        check("min_p", self.min_p, (0.0..1.0).contains(&self.min_p), "0 (off) to less than 1")?;
        check(
            "repetition_penalty",
            self.repetition_penalty,
            (0.1..=10.0).contains(&self.repetition_penalty),
            "0.1 to 10 (1 turns it off)",
        )?;
        if self.logit_bias.len() > LOGIT_BIAS_LIMIT {
            return Err(SamplingError::Parameter {
                name: "logit_bias",
                given: format!("{} entries", self.logit_bias.len()),
                allowed: "at most 1024 entries",
            });
        }
        for &(id, bias) in &self.logit_bias {
            if id as usize >= vocabulary {
                return Err(SamplingError::UnknownToken { id, vocabulary });
            }
            check("logit_bias", bias, (-100.0..=100.0).contains(&bias), "-100 to 100 for each token")?;
        }
        Ok(())
    }
}

fn check(name: &'static str, given: f32, ok: bool, allowed: &'static str) -> Result<(), SamplingError> {
    if ok { Ok(()) } else { Err(SamplingError::Parameter { name, given: given.to_string(), allowed }) }
}
