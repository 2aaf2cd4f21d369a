//! The architectures zlrs runs and where they differ. Everything else about a model is read from its file.

use zlrs_kernels::RopeLayout;

use crate::ModelError;

/// A family of decoders: pre-norm, grouped-query attention, gated MLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// Llama, SmolLM, Mistral and others of their make.
    Llama,
    /// Qwen 2 and 2.5: biases on query, key and value.
    Qwen2,
    /// Qwen 3: norms on the heads of query and key.
    Qwen3,
    /// Gemma 3: norms on heads and after each part, sliding windows, GELU, scaled embeddings.
    Gemma3,
}

/// The gate's function in the MLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// x · sigmoid(x).
    Silu,
    /// The tanh approximation of GELU.
    Gelu,
}

/// Biases of the attention projections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Biases {
    /// Where the file has them.
    IfPresent,
    /// On query, key and value.
    Qkv,
    /// None.
    Never,
}

impl Architecture {
    /// Every architecture.
    pub const ALL: [Self; 4] = [Self::Llama, Self::Qwen2, Self::Qwen3, Self::Gemma3];

    /// Its name in `general.architecture`, which is also the prefix of its metadata keys.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Gemma3 => "gemma3",
        }
    }

    /// The architecture of that name.
    ///
    /// # Errors
    /// [`ModelError::UnknownArchitecture`] with the known names.
    pub fn from_name(name: &str) -> Result<Self, ModelError> {
        Self::ALL.into_iter().find(|architecture| architecture.name() == name).ok_or_else(|| {
            ModelError::UnknownArchitecture {
                given: name.to_owned(),
                known: Self::ALL.map(Self::name).join(", "),
            }
        })
    }

    /// Which values of a head are rotated together. Files of the Llama family hold query and key rows in an
    /// order made for adjacent pairs.
    pub const fn rope_layout(self) -> RopeLayout {
        match self {
            Self::Llama => RopeLayout::Adjacent,
            Self::Qwen2 | Self::Qwen3 | Self::Gemma3 => RopeLayout::Halves,
        }
    }

    /// The gate's function.
    pub const fn activation(self) -> Activation {
        match self {
            Self::Gemma3 => Activation::Gelu,
            Self::Llama | Self::Qwen2 | Self::Qwen3 => Activation::Silu,
        }
    }

    /// Whether each head of query and key has a norm.
    pub const fn qk_norm(self) -> bool {
        matches!(self, Self::Qwen3 | Self::Gemma3)
    }

    /// Whether attention and MLP have a norm on their output, before it is added.
    pub const fn post_norms(self) -> bool {
        matches!(self, Self::Gemma3)
    }

    pub(super) const fn biases(self) -> Biases {
        match self {
            Self::Llama => Biases::IfPresent,
            Self::Qwen2 => Biases::Qkv,
            Self::Qwen3 | Self::Gemma3 => Biases::Never,
        }
    }

    /// What embeddings are multiplied with, for a model of that width.
    pub fn embedding_scale(self, width: usize) -> f32 {
        match self {
            Self::Gemma3 => (width as f32).sqrt(),
            Self::Llama | Self::Qwen2 | Self::Qwen3 => 1.0,
        }
    }

    /// Every how many layers one attends to the whole context, the others to a window only.
    pub(super) const fn full_attention_every(self) -> Option<usize> {
        match self {
            Self::Gemma3 => Some(6),
            Self::Llama | Self::Qwen2 | Self::Qwen3 => None,
        }
    }
}
