//! Token-level exit: a row whose later layers are predicted to change nothing leaves before them.
//!
//! At a few chosen layers a tiny network looks at twelve features of a row and predicts how much the later layers
//! contribute: how likely the first choice of the model is another one than that of the state so far. Five rows in a
//! row under the threshold, the row itself the last of them, and it leaves. Its keys and values in the layers it
//! does not see are computed from the state it left with.
//!
//! The idea is that of confident adaptive language modelling (Schuster et al. 2022), with the thresholds found as
//! they are there, by Learn then Test (Angelopoulos et al. 2021); predicting from the logits of a few candidates is
//! that of `SpecEE` (Xu et al. 2025).

mod features;
mod file;
mod followers;
mod head;
mod state;
pub mod train;

pub use self::features::{FEATURES, Features, SHORTLIST_LIMIT, View, dot, features};
pub use self::file::MAX_EXIT_BYTES;
pub use self::followers::{FOLLOWERS_LIMIT, Followers};
pub use self::head::{HEAD_WEIGHTS, Head, UNITS};
pub use self::state::{CHANGES_LIMIT, CHANGES_WINDOW, ExitState, RUN, RowTrace};

/// Most layers that rows may leave before.
pub const MAX_PROBES: usize = 4;

/// Why exit heads cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExitError {
    /// The file is not one of ours, or damaged.
    #[error("the exit heads cannot be used: {what}; make them again with `zlrs exits train`")]
    Invalid {
        /// What is wrong.
        what: String,
    },
    /// They were trained on another model.
    #[error(
        "the exit heads are for weights with the SHA-256 {expected}, the model file has {given}; train heads for this file"
    )]
    Mismatch {
        /// Sum in the file.
        expected: String,
        /// Sum of the model file.
        given: String,
    },
}

impl ExitError {
    fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid { what: what.into() }
    }
}

/// A layer that rows may leave before.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// Layers from this one on are left out.
    pub layer: usize,
    /// Predicts what they contribute.
    pub head: Head,
    /// The mean of what the later layers add, `[width]`: it stands in for them in the state that a leaving row's
    /// logits are made from.
    pub shift: Vec<f32>,
    /// Rows predicted below it may leave; `None` if no threshold kept the bound, and nobody leaves here.
    pub threshold: Option<f32>,
}

/// The heads of one model file.
#[derive(Debug, Clone, PartialEq)]
pub struct ExitHeads {
    /// SHA-256 of the model file.
    pub weights_sha256: [u8; 32],
    /// Sum of the mask that was in use, or zeros: without those parts it is another model.
    pub mask_sum: [u8; 32],
    /// SHA-256 over the calibration texts.
    pub calibration_sha256: [u8; 32],
    /// Layers of the model.
    pub layers: usize,
    /// Tokens of the model.
    pub vocabulary: usize,
    /// Values of a hidden state.
    pub width: usize,
    /// Tokens that are candidates for every row: those that follow most often.
    pub shortlist: Vec<u32>,
    /// In ascending order of layers.
    pub probes: Vec<Probe>,
    /// What was measured, as JSON.
    pub report: String,
}

impl ExitHeads {
    /// Refuses heads of another file or shape.
    ///
    /// # Errors
    /// [`ExitError`].
    pub fn check(
        &self,
        weights_sha256: [u8; 32],
        mask_sum: Option<[u8; 32]>,
        [layers, vocabulary, width]: [usize; 3],
    ) -> Result<(), ExitError> {
        if self.weights_sha256 != weights_sha256 {
            let (expected, given) = (hex(&self.weights_sha256), hex(&weights_sha256));
            return Err(ExitError::Mismatch { expected, given });
        }
        if self.mask_sum != mask_sum.unwrap_or_default() {
            return Err(ExitError::invalid("they were measured with another mask than the one in use"));
        }
        let own = [self.layers, self.vocabulary, self.width];
        if own != [layers, vocabulary, width] {
            return Err(ExitError::invalid(format!(
                "they are for layers, tokens and width {own:?}, the model has [{layers}, {vocabulary}, {width}]"
            )));
        }
        Ok(())
    }

    /// Whether any row may ever leave.
    pub fn is_active(&self) -> bool {
        self.probes.iter().any(|probe| probe.threshold.is_some())
    }
}

fn hex(sum: &[u8]) -> String {
    use std::fmt::Write;
    sum.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
