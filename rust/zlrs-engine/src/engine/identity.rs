//! What tells whether a saved state fits a loaded model.

use zlrs_kernels::NUMERICS_VERSION;
use zlrs_model::ModelError;
use zlrs_model::gguf::{File, Metadata, Strings};
use zlrs_model::mask::Mask;

use crate::session::Identity;

impl Identity {
    /// Of a loaded model. The first call reads the file once.
    pub(super) fn of(file: &File, mask: Option<&[u8; 32]>, block_bytes: usize) -> Result<Self, ModelError> {
        let sum = sha256_of(file)?;
        // With parts left out it is another model: its keys and values are of no use to the full one.
        let weights =
            mask.map_or(sum, |mask| *blake3::Hasher::new_keyed(mask).update(&sum).finalize().as_bytes());
        Ok(Self {
            weights,
            tokenizer: tokenizer_sum(file.metadata())?,
            numerics_version: NUMERICS_VERSION,
            block_bytes: block_bytes as u64,
        })
    }
}

/// SHA-256 of a model file. The first call reads the file once.
pub(crate) fn sha256_of(file: &File) -> Result<[u8; 32], ModelError> {
    Ok(digest_of(file.sha256()?))
}

/// The sum of a mask: with the model file's it tells which model is computed, and exit heads and thresholds of
/// neurons are tied to it. O(bytes).
pub fn mask_sum(mask: &Mask) -> [u8; 32] {
    *blake3::hash(&mask.to_bytes()).as_bytes()
}

/// The bytes of a sum in hexadecimal.
fn digest_of(hex: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (byte, digits) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        let digit = |digit: u8| (digit as char).to_digit(16).unwrap_or(0) as u8;
        *byte = digit(digits[0]) << 4 | digit(digits[1]);
    }
    bytes
}

/// A sum over everything in a file that decides which tokens a text becomes: two files with the same sum make the
/// same tokens. Templates are not part of it.
fn tokenizer_sum(metadata: &Metadata) -> Result<[u8; 32], ModelError> {
    let mut sum = blake3::Hasher::new();
    let mut add = |bytes: &[u8]| {
        sum.update(&(bytes.len() as u64).to_le_bytes());
        sum.update(bytes);
    };
    for key in ["tokenizer.ggml.model", "tokenizer.ggml.pre"] {
        add(metadata.optional_str(key)?.unwrap_or_default().as_bytes());
    }
    for key in ["tokenizer.ggml.tokens", "tokenizer.ggml.merges"] {
        let strings = metadata.optional_strings(key)?;
        add(&strings.map_or(0, |strings| strings.len() as u64).to_le_bytes());
        strings.into_iter().flat_map(Strings::iter).for_each(|text| add(text.as_bytes()));
    }
    let kinds = metadata.optional_integers("tokenizer.ggml.token_type")?.unwrap_or_default();
    add(&kinds.iter().flat_map(|kind| kind.to_le_bytes()).collect::<Vec<_>>());
    for key in ["tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"] {
        add(&metadata.optional_u32(key)?.unwrap_or(u32::MAX).to_le_bytes());
    }
    for key in ["tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_space_prefix"] {
        add(&[metadata.optional_bool(key)?.map_or(2, u8::from)]);
    }
    Ok(*sum.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_sum_in_hexadecimal_becomes_bytes() {
        let mut expected = [0; 32];
        expected[..3].copy_from_slice(&[0xab, 0x01, 0xff]);
        assert_eq!(super::digest_of(&format!("ab01ff{}", "0".repeat(58))), expected);
    }
}
