//! Rotary parameters from the metadata keys `ARCHITECTURE.rope.*`.

use zlrs_kernels::{RopeParameters, RopeScaling, TensorType};

use super::build::MAX_CONTEXT_TOKENS;
use super::{Architecture, Attention, names};
use crate::ModelError;
use crate::gguf::Metadata;
use crate::source::TensorSource;

const DEFAULT_BASE: f32 = 10_000.0;
/// Base of Gemma 3's windowed layers, which its files do not always state.
const GEMMA3_LOCAL_BASE: f32 = 10_000.0;
const DEFAULT_BETA_FAST: f32 = 32.0;
const DEFAULT_BETA_SLOW: f32 = 1.0;

/// One set of parameters, and a second for windowed layers where the architecture has them.
pub(super) fn parameters(
    metadata: &Metadata,
    source: &dyn TensorSource,
    architecture: Architecture,
    attentions: &[Attention],
) -> Result<Vec<RopeParameters>, ModelError> {
    let key = |suffix: &str| format!("{}.rope.{suffix}", architecture.name());
    let head_dim = attentions.iter().map(|attention| attention.head_dim).min().unwrap_or(0);
    let dimensions_key = key("dimension_count");
    let dimensions = metadata.optional_size(&dimensions_key, head_dim)?.unwrap_or(head_dim);
    if !dimensions.is_multiple_of(2) {
        return Err(ModelError::bad_value(dimensions_key, dimensions, "an even number"));
    }
    let full = RopeParameters {
        dimensions,
        base: base(metadata, &key("freq_base"), DEFAULT_BASE)?,
        scaling: scaling(metadata, architecture)?,
        frequency_factors: frequency_factors(source, dimensions / 2)?,
    };
    if architecture.full_attention_every().is_none() {
        return Ok(vec![full]);
    }
    let windowed = RopeParameters {
        dimensions,
        base: base(metadata, &key("freq_base_swa"), GEMMA3_LOCAL_BASE)?,
        scaling: RopeScaling::None,
        frequency_factors: None,
    };
    Ok(vec![full, windowed])
}

fn base(metadata: &Metadata, key: &str, default: f32) -> Result<f64, ModelError> {
    let base = metadata.optional_f32(key)?.unwrap_or(default);
    if base > 1.0 {
        return Ok(f64::from(base));
    }
    Err(ModelError::bad_value(key, base, "a number above 1"))
}

fn scaling(metadata: &Metadata, architecture: Architecture) -> Result<RopeScaling, ModelError> {
    let key = |suffix: &str| format!("{}.rope.{suffix}", architecture.name());
    let factor_key = key("scaling.factor");
    let factor = match metadata.optional_f32(&factor_key)? {
        Some(factor) => factor,
        // The older name of the same.
        None => metadata.optional_f32(&key("scale_linear"))?.unwrap_or(0.0),
    };
    let kind_key = key("scaling.type");
    // Files without a type mean linear scaling, and without a factor none at all.
    let kind = metadata.optional_str(&kind_key)?.unwrap_or("linear");
    if factor == 0.0 || kind == "none" {
        return Ok(RopeScaling::None);
    }
    if factor < 0.0 {
        return Err(ModelError::bad_value(factor_key, factor, "0 (off) or more"));
    }
    match kind {
        "linear" => Ok(RopeScaling::Linear { factor: f64::from(factor) }),
        "yarn" => yarn(metadata, &key, factor),
        other => Err(ModelError::Unsupported {
            what: format!("RoPE scaling {other:?} ({kind_key})"),
            supported: "none, linear and yarn are".into(),
        }),
    }
}

fn yarn(metadata: &Metadata, key: &dyn Fn(&str) -> String, factor: f32) -> Result<RopeScaling, ModelError> {
    let positive = |suffix: &str, default: f32| -> Result<f64, ModelError> {
        let value = metadata.optional_f32(&key(suffix))?.unwrap_or(default);
        if value > 0.0 {
            Ok(f64::from(value))
        } else {
            Err(ModelError::bad_value(key(suffix), value, "above 0"))
        }
    };
    if factor < 1.0 {
        return Err(ModelError::bad_value(key("scaling.factor"), factor, "1 or more for yarn"));
    }
    let context_key = key("scaling.original_context_length");
    Ok(RopeScaling::Yarn {
        factor: f64::from(factor),
        original_context: metadata.size(&context_key, MAX_CONTEXT_TOKENS)?,
        beta_fast: positive("scaling.yarn_beta_fast", DEFAULT_BETA_FAST)?,
        beta_slow: positive("scaling.yarn_beta_slow", DEFAULT_BETA_SLOW)?,
        attention_factor: positive("scaling.attn_factor", 1.0)?,
    })
}

/// The tensor by which files of Llama 3.1 and later carry their scaling.
fn frequency_factors(source: &dyn TensorSource, count: usize) -> Result<Option<Vec<f32>>, ModelError> {
    let Some(info) = source.info(names::ROPE_FREQUENCIES) else { return Ok(None) };
    let name = || names::ROPE_FREQUENCIES.to_owned();
    if info.tensor_type != TensorType::F32 {
        return Err(ModelError::UnsupportedTensorType {
            name: name(),
            given: info.tensor_type.name().into(),
            supported: TensorType::F32.name().into(),
        });
    }
    if (info.rows, info.cols) != (1, count) {
        return Err(ModelError::BadShape {
            name: name(),
            given_rows: info.rows,
            given_cols: info.cols,
            rows: 1,
            cols: count,
        });
    }
    let factors = crate::source::read_floats(source, info)?;
    match factors.iter().find(|factor| !factor.is_finite() || **factor <= 0.0) {
        Some(factor) => Err(ModelError::malformed(format!(
            "tensor {:?} holds {factor}, expected finite numbers above 0",
            names::ROPE_FREQUENCIES
        ))),
        None => Ok(Some(factors)),
    }
}
