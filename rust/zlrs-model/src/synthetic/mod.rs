//! Small models for tests, made from a seed: every architecture, every storage type, a byte-level
//! vocabulary and a chat template. The same settings give the same bytes on every machine. Their weights are
//! random, so they write nonsense, but everything a real file goes through is exercised.

mod blocks;
mod damage;
mod random;
mod vocabulary;
mod writer;

use zlrs_kernels::TensorType;

pub use self::damage::damage;
use self::random::Random;
pub use self::writer::Writer;
use crate::decoder::Architecture;
use crate::decoder::names;
use crate::gguf::Value;

/// The chat template of synthetic models: turns between `<|im_start|>` and `<|im_end|>`.
pub const CHAT_TEMPLATE: &str = "{% for message in messages %}\
{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}\
{% endfor %}\
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// How the weights are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Types {
    /// All matrices in one type.
    One(TensorType),
    /// The types in turn, so that every one occurs.
    Mixed,
}

/// The vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenizerKind {
    /// Byte-level BPE.
    ByteLevel,
    /// SentencePiece's BPE by scores.
    SentencePiece {
        /// Whether texts begin with a space that they do not show.
        adds_space: bool,
    },
}

/// What to make. All widths are multiples of 256, so that every type fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The architecture.
    pub architecture: Architecture,
    /// How the matrices are stored; vectors are F32.
    pub types: Types,
    /// Seed of the weights.
    pub seed: u64,
    /// Version of the format.
    pub version: u32,
    /// Number of layers.
    pub layers: usize,
    /// Values of a hidden state; a multiple of 256.
    pub width: usize,
    /// Outputs of gate and up; a multiple of 256.
    pub mlp_width: usize,
    /// Query heads, of 64 values each; a multiple of 4.
    pub heads: usize,
    /// Key and value heads; a divisor of `heads`.
    pub kv_heads: usize,
    /// Longest context in tokens.
    pub context_length: usize,
    /// Whether the embedding serves as head.
    pub tied_head: bool,
    /// Which vocabulary the file has.
    pub tokenizer: TokenizerKind,
    /// The pre-tokenizer's name, for byte-level vocabularies.
    pub pre: String,
    /// Whether the file asks for a BOS token before every prompt.
    pub adds_bos: bool,
    /// The chat template; `None` for a base model.
    pub chat_template: Option<String>,
    /// Whether a tensor of rotary frequency factors is added (Llama).
    pub rope_frequencies: bool,
}

/// Values of a head.
const HEAD_DIM: usize = 64;
/// Window of windowed layers, in tokens.
const WINDOW: u32 = 32;

impl Default for Settings {
    fn default() -> Self {
        Self {
            architecture: Architecture::Llama,
            types: Types::Mixed,
            seed: 1,
            version: 3,
            layers: 2,
            width: 256,
            mlp_width: 512,
            heads: 4,
            kv_heads: 2,
            context_length: 2048,
            tied_head: false,
            tokenizer: TokenizerKind::ByteLevel,
            pre: "gpt-2".into(),
            adds_bos: false,
            chat_template: Some(CHAT_TEMPLATE.into()),
            rope_frequencies: false,
        }
    }
}

/// The model file of these settings: about 3 MB with F32 weights and the default shape.
#[must_use]
pub fn model(settings: &Settings) -> Vec<u8> {
    writer(settings).finish()
}

/// As [`model`], before it is made into bytes, so that a test can add to it.
#[must_use]
pub fn writer(settings: &Settings) -> Writer {
    let mut out = Writer::new(settings.version);
    metadata(&mut out, settings);
    let mut tensors = Tensors { out: &mut out, settings, random: Random::new(settings.seed), made: 0 };
    tensors.matrix(names::EMBEDDING, vocabulary::LENGTH, settings.width, 1.0);
    if settings.rope_frequencies {
        tensors.vector(names::ROPE_FREQUENCIES, HEAD_DIM / 2, 2.0, 1.0);
    }
    for layer in 0..settings.layers {
        attention(&mut tensors, layer);
        mlp(&mut tensors, layer);
    }
    tensors.vector(names::OUTPUT_NORM, settings.width, 1.0, 0.25);
    if !settings.tied_head {
        // Wide enough that logits differ by several units: greedy choices have margins.
        tensors.matrix(names::OUTPUT, vocabulary::LENGTH, settings.width, 3.0);
    }
    out
}

fn metadata(out: &mut Writer, settings: &Settings) {
    let architecture = settings.architecture.name();
    out.entry("general.architecture", Value::String(architecture.into()));
    out.entry("general.name", Value::String(format!("Synthetic {architecture} {}", settings.seed).into()));
    out.entry("general.file_type", Value::U32(0));
    let mut size = |suffix: &str, value: usize| {
        out.entry(format!("{architecture}.{suffix}"), Value::U32(value as u32));
    };
    size("block_count", settings.layers);
    size("context_length", settings.context_length);
    size("embedding_length", settings.width);
    size("feed_forward_length", settings.mlp_width);
    size("attention.head_count", settings.heads);
    size("attention.head_count_kv", settings.kv_heads);
    size("attention.key_length", HEAD_DIM);
    size("attention.value_length", HEAD_DIM);
    size("rope.dimension_count", HEAD_DIM);
    if settings.architecture == Architecture::Gemma3 {
        size("attention.sliding_window", WINDOW as usize);
    }
    out.entry(format!("{architecture}.attention.layer_norm_rms_epsilon"), Value::F32(1e-6));
    out.entry(format!("{architecture}.rope.freq_base"), Value::F32(10_000.0));
    let vocabulary = match settings.tokenizer {
        TokenizerKind::ByteLevel => vocabulary::entries(&settings.pre, settings.adds_bos),
        TokenizerKind::SentencePiece { adds_space } => {
            vocabulary::sentence_piece_entries(settings.adds_bos, adds_space)
        }
    };
    for (key, value) in vocabulary {
        out.entry(format!("tokenizer.ggml.{key}"), value);
    }
    if let Some(template) = &settings.chat_template {
        out.entry("tokenizer.chat_template", Value::String(template.as_str().into()));
    }
}

struct Tensors<'a> {
    out: &'a mut Writer,
    settings: &'a Settings,
    random: Random,
    /// Matrices so far: the next one's type in a mix.
    made: usize,
}

impl Tensors<'_> {
    /// A matrix whose products keep about the size of their input, times `gain`.
    fn matrix(&mut self, name: &str, rows: usize, cols: usize, gain: f32) {
        let tensor_type = match self.settings.types {
            Types::One(tensor_type) => tensor_type,
            Types::Mixed => TensorType::ALL[self.made % TensorType::ALL.len()],
        };
        self.made += 1;
        let deviation = gain / (cols as f32).sqrt();
        let data = blocks::random(&mut self.random, tensor_type, rows, cols, deviation);
        self.out.tensor(name, &[cols as u64, rows as u64], tensor_type, data);
    }

    fn vector(&mut self, name: &str, count: usize, center: f32, spread: f32) {
        let data = blocks::vector(&mut self.random, count, center, spread);
        self.out.tensor(name, &[count as u64], TensorType::F32, data);
    }
}

fn attention(tensors: &mut Tensors<'_>, layer: usize) {
    let settings = tensors.settings;
    let (width, query, kv) = (settings.width, settings.heads * HEAD_DIM, settings.kv_heads * HEAD_DIM);
    let name = |part: &str| names::layer(layer, part);
    tensors.vector(&name(names::ATTENTION_NORM), width, 1.0, 0.25);
    tensors.matrix(&name(names::QUERY), query, width, 1.0);
    tensors.matrix(&name(names::KEY), kv, width, 1.0);
    tensors.matrix(&name(names::VALUE), kv, width, 1.0);
    if settings.architecture == Architecture::Qwen2 {
        tensors.vector(&name(names::QUERY_BIAS), query, 0.0, 0.5);
        tensors.vector(&name(names::KEY_BIAS), kv, 0.0, 0.5);
        tensors.vector(&name(names::VALUE_BIAS), kv, 0.0, 0.5);
    }
    if settings.architecture.qk_norm() {
        tensors.vector(&name(names::QUERY_NORM), HEAD_DIM, 1.0, 0.25);
        tensors.vector(&name(names::KEY_NORM), HEAD_DIM, 1.0, 0.25);
    }
    tensors.matrix(&name(names::ATTENTION_OUTPUT), width, query, 0.5);
    if settings.architecture.post_norms() {
        tensors.vector(&name(names::ATTENTION_POST_NORM), width, 1.0, 0.25);
    }
}

fn mlp(tensors: &mut Tensors<'_>, layer: usize) {
    let settings = tensors.settings;
    let (width, mlp_width) = (settings.width, settings.mlp_width);
    let name = |part: &str| names::layer(layer, part);
    tensors.vector(&name(names::MLP_NORM), width, 1.0, 0.25);
    tensors.matrix(&name(names::GATE), mlp_width, width, 1.0);
    tensors.matrix(&name(names::UP), mlp_width, width, 1.0);
    tensors.matrix(&name(names::DOWN), width, mlp_width, 0.5);
    if settings.architecture.post_norms() {
        tensors.vector(&name(names::MLP_POST_NORM), width, 1.0, 0.25);
    }
}
