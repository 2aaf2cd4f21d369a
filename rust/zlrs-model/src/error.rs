//! Everything that can go wrong between a file on disk and a loaded model, in one enum.

use std::path::PathBuf;

use zlrs_kernels::KernelError;

/// Why a model file, its tokenizer, its chat template or its weights could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// An error of the file at `path`.
    #[error("{}: {source}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<ModelError>,
    },
    /// The system refused to open or read.
    #[error("could not {action}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The first bytes are not those of a GGUF file.
    #[error(
        "not a GGUF file: it starts with {found:?} where \"GGUF\" is expected; give a .gguf model file{hint}"
    )]
    NotGguf {
        /// The first four bytes, escaped.
        found: String,
        /// What the file seems to be, with a leading separator, or nothing.
        hint: &'static str,
    },
    /// The file was written for a machine of the other byte order.
    #[error(
        "big-endian GGUF file; zlrs reads little-endian files: convert it, or download the usual variant"
    )]
    ByteSwapped,
    /// A version of the format that is not read.
    #[error("GGUF version {given} is not supported, versions 2 and 3 are; convert the file anew")]
    UnsupportedVersion {
        /// The version in the file.
        given: u32,
    },
    /// The file ends before something it announces.
    #[error(
        "the file ends too early: {what} needs {needed} bytes at offset {offset}, the file has {file_bytes} bytes; download it again"
    )]
    Truncated {
        /// What was to be read.
        what: String,
        /// Where.
        offset: u64,
        /// How many bytes.
        needed: u64,
        /// Length of the file.
        file_bytes: u64,
    },
    /// A count or a length exceeds what zlrs accepts from a file.
    #[error("{what} is {given}, the limit is {limit}; the file is damaged or not made for zlrs")]
    Limit {
        /// What was counted.
        what: String,
        /// The number in the file.
        given: u64,
        /// The largest number accepted.
        limit: u64,
    },
    /// The file contradicts itself or the format.
    #[error("{what}; the file is damaged: download it again")]
    Malformed {
        /// What is wrong, where, with the numbers.
        what: String,
    },
    /// The file changed while it was in use.
    #[error("the file changed while it was read ({what}); load it again when it is complete")]
    Changed {
        /// What was seen.
        what: String,
    },
    /// A part of a split model.
    #[error("this file is part {part} of {parts} of a split model; merge the parts into one file first")]
    Split {
        /// Its number, from 1.
        part: u64,
        /// How many there are.
        parts: u64,
    },
    /// A metadata key that is needed and absent.
    #[error("the file's metadata has no {key:?}; use a complete model file")]
    MissingKey {
        /// The key.
        key: String,
    },
    /// A metadata value of another type than needed.
    #[error("metadata {key:?} is {found}, expected {expected}")]
    WrongType {
        /// The key.
        key: String,
        /// The type that is needed.
        expected: &'static str,
        /// The type in the file.
        found: &'static str,
    },
    /// A metadata value outside its range.
    #[error("metadata {key:?} is {given}, expected {expected}")]
    BadValue {
        /// The key.
        key: String,
        /// The value in the file.
        given: String,
        /// What would be accepted.
        expected: String,
    },
    /// An architecture that zlrs does not run.
    #[error("architecture {given:?} is not supported; supported are {known}")]
    UnknownArchitecture {
        /// The name in the file.
        given: String,
        /// The supported names.
        known: String,
    },
    /// A feature of a known architecture that zlrs does not run.
    #[error("{what} is not supported; {supported}")]
    Unsupported {
        /// The feature, with its value.
        what: String,
        /// What is supported instead.
        supported: String,
    },
    /// A tensor that the architecture needs is absent.
    #[error("tensor {name:?} is missing ({why}); use a complete model file")]
    MissingTensor {
        /// Its name.
        name: String,
        /// What needs it.
        why: String,
    },
    /// A tensor that the architecture does not know.
    #[error(
        "tensor {name:?} is not part of the {architecture} architecture as zlrs knows it, so the model would not compute what it was made to compute; use a model without it"
    )]
    UnknownTensor {
        /// Its name.
        name: String,
        /// The architecture.
        architecture: &'static str,
    },
    /// A tensor of another shape than the metadata say.
    #[error("tensor {name:?} has {given_rows} rows of {given_cols}, expected {rows} rows of {cols}")]
    BadShape {
        /// Its name.
        name: String,
        /// Rows in the file.
        given_rows: usize,
        /// Columns in the file.
        given_cols: usize,
        /// Rows the metadata imply.
        rows: usize,
        /// Columns the metadata imply.
        cols: usize,
    },
    /// A tensor storage type that zlrs does not read, or not in this place.
    #[error("tensor {name:?} is stored as {given}, which is not supported; supported are {supported}")]
    UnsupportedTensorType {
        /// Its name.
        name: String,
        /// The type, by name or number.
        given: String,
        /// The supported types.
        supported: String,
    },
    /// A kind of tokenizer that zlrs does not have.
    #[error("{key} is {given:?}, which is not supported; supported are {supported}")]
    UnsupportedTokenizer {
        /// The metadata key.
        key: &'static str,
        /// Its value.
        given: String,
        /// The supported values.
        supported: String,
    },
    /// The vocabulary or the merges cannot make a tokenizer.
    #[error("the file's tokenizer cannot be used: {what}")]
    Tokenizer {
        /// What is wrong.
        what: String,
    },
    /// A token id outside the vocabulary.
    #[error("token id {id} is outside the vocabulary of {vocabulary} tokens")]
    TokenOutOfRange {
        /// The id.
        id: u32,
        /// Tokens in the vocabulary.
        vocabulary: usize,
    },
    /// The file has no chat template.
    #[error(
        "the model file has no chat template (metadata \"tokenizer.chat_template\"): it is a base model; use plain completion, or give a template"
    )]
    NoTemplate,
    /// The chat template cannot be compiled or failed.
    #[error("the model's chat template failed: {what}")]
    Template {
        /// What the template engine reported.
        what: String,
    },
    /// The chat template itself refused the messages.
    #[error("the model's chat template refused the messages: {message}")]
    TemplateRaised {
        /// The template's own words.
        message: String,
    },
    /// A message that no template can be given.
    #[error("message {index}: {what}")]
    BadMessage {
        /// Its position, from 0.
        index: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A mask file that cannot be used with any model.
    #[error("the mask cannot be used: {what}; make it again with `zlrs mask build`")]
    BadMask {
        /// What is wrong with it.
        what: String,
    },
    /// A file of neuron thresholds that cannot be used with any model.
    #[error("the thresholds of neurons cannot be used: {what}; make them again with `zlrs neurons train`")]
    BadNeurons {
        /// What is wrong with it.
        what: String,
    },
    /// A mask for other weights.
    #[error("the mask does not fit the model: {what}")]
    MaskMismatch {
        /// Where they differ.
        what: String,
    },
    /// Packing weights failed.
    #[error("tensor {name:?}: {source}")]
    Pack {
        /// The tensor.
        name: String,
        /// What the kernels reported.
        source: KernelError,
    },
}

impl ModelError {
    pub(crate) fn malformed(what: impl Into<String>) -> Self {
        Self::Malformed { what: what.into() }
    }

    pub(crate) fn bad_mask(what: impl Into<String>) -> Self {
        Self::BadMask { what: what.into() }
    }

    pub(crate) fn limit(what: impl Into<String>, given: u64, limit: u64) -> Self {
        Self::Limit { what: what.into(), given, limit }
    }

    pub(crate) fn bad_value(
        key: impl Into<String>,
        given: impl std::fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self::BadValue { key: key.into(), given: given.to_string(), expected: expected.into() }
    }

    /// The error itself, without the file it happened in.
    #[must_use]
    pub fn cause(&self) -> &Self {
        match self {
            Self::InFile { source, .. } => source.cause(),
            other => other,
        }
    }
}
