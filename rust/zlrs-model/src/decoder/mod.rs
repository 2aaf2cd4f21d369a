//! One description of every decoder zlrs runs. The engine reads it and knows no architecture by name.

mod architecture;
mod build;
mod rope;
mod tensors;

use zlrs_kernels::{RopeLayout, RopeParameters};

pub use self::architecture::{Activation, Architecture};
pub use self::build::{MAX_CONTEXT_TOKENS, MAX_HEAD_DIM, MAX_HEADS, MAX_LAYERS, MAX_MLP_WIDTH, MAX_WIDTH};
pub use self::tensors::{ExpectedTensor, find, names};

/// What a decoder computes, without its weights. For a hidden state `x` of `width` values, each layer does
/// `x += attention(norm(x))`, then `x += mlp(norm(x))`; the head is `output(norm(x))`.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoder {
    /// The family it was read as.
    pub architecture: Architecture,
    /// The model's own name, if the file has one.
    pub name: Option<String>,
    /// Rows of the embedding: logits per step. At least the tokenizer's vocabulary.
    pub vocabulary: usize,
    /// Longest context the model was made for, in tokens.
    pub context_length: usize,
    /// Values of a hidden state.
    pub width: usize,
    /// The layers in order.
    pub layers: Vec<Layer>,
    /// Added to the mean square in every norm.
    pub norm_epsilon: f32,
    /// What embeddings are multiplied with; 1 for most.
    pub embedding_scale: f32,
    /// Whether the head uses the embedding's weights.
    pub tied_head: bool,
    /// Logits become `cap · tanh(logit / cap)`.
    pub logit_softcap: Option<f32>,
    /// Which values of a head are rotated together.
    pub rope_layout: RopeLayout,
    /// Rotary embeddings; [`Attention::rope`] is an index. One, or two where windowed layers have their own.
    pub ropes: Vec<RopeParameters>,
}

/// One layer. A part that is `None` is not computed, has no weights and no KV: a mask may empty what the
/// file has.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Self-attention.
    pub attention: Option<Attention>,
    /// The gated MLP.
    pub mlp: Option<Mlp>,
    /// What is added in place of an attention block that a mask left out, `width` values.
    pub attention_constant: Option<Vec<f32>>,
    /// What is added in place of an MLP block that a mask left out, `width` values.
    pub mlp_constant: Option<Vec<f32>>,
}

/// Grouped-query self-attention. `heads` is a multiple of `kv_heads`.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a file, each used alone")]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Values of a head; even.
    pub head_dim: usize,
    /// What scores are multiplied with.
    pub scale: f32,
    /// Whether the projections of query, key and value have biases.
    pub qkv_bias: bool,
    /// Whether the output projection has a bias.
    pub output_bias: bool,
    /// Whether each head of query and key has a norm before rotation.
    pub qk_norm: bool,
    /// Whether the output has a norm of its own.
    pub post_norm: bool,
    /// A position attends to itself and the `window − 1` before it; `None`: to all before it.
    pub window: Option<u32>,
    /// Index into [`Decoder::ropes`].
    pub rope: usize,
    /// Which of the file's heads these are; `None`: all, in order.
    pub cut: Option<HeadCut>,
}

/// Which of a layer's heads a mask left. All lists ascend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadCut {
    /// Query heads in the file.
    pub file_heads: usize,
    /// Key and value heads in the file.
    pub file_kv_heads: usize,
    /// The query heads that are computed, by their number in the file.
    pub heads: Vec<usize>,
    /// The key and value heads that are computed, by their number in the file.
    pub kv_heads: Vec<usize>,
    /// Indices into `heads` of those whose result is set to zero.
    pub silent: Vec<usize>,
}

/// `down(activation(gate(x)) · up(x))`.
#[derive(Debug, Clone, PartialEq)]
pub struct Mlp {
    /// Outputs of gate and up.
    pub width: usize,
    /// The gate's function.
    pub activation: Activation,
    /// Whether the output has a norm of its own.
    pub post_norm: bool,
}

impl Attention {
    /// Values of all query heads.
    pub const fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Values of all key (or value) heads.
    pub const fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Values of all query heads of the file, and of all its key (or value) heads.
    pub(crate) fn file_widths(&self) -> (usize, usize) {
        let (heads, kv_heads) =
            self.cut.as_ref().map_or((self.heads, self.kv_heads), |cut| (cut.file_heads, cut.file_kv_heads));
        (heads * self.head_dim, kv_heads * self.head_dim)
    }
}
