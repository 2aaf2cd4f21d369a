//! What several tests share.
#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

pub mod templates;

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zlrs_model::gguf::File;
use zlrs_model::synthetic::{Settings, model};

pub const SMOLLM2: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
pub const QWEN: &str = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf";
pub const GEMMA: &str = "gemma-3-270m-q4_k_m.gguf";

/// A file with these bytes, gone when the handle is dropped.
pub fn file_of(bytes: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

/// An open synthetic model. The file is deleted at once and stays readable.
pub fn synthetic(settings: &Settings) -> File {
    let file = file_of(&model(settings));
    File::open(file.path()).unwrap()
}

/// A real model: `ZLRS_TEST_MODEL` if it has that name, else from the model cache. `None`, with the reason on
/// standard error, where it is not to be had.
pub fn real_model(name: &str) -> Option<PathBuf> {
    let candidates = [
        std::env::var_os("ZLRS_TEST_MODEL").map(PathBuf::from).filter(|path| path.ends_with(name)),
        std::env::var_os("ZLRS_HOME").map(|home| Path::new(&home).join("models").join(name)),
        std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/zlrs/models").join(name)),
    ];
    let found = candidates.into_iter().flatten().find(|path| path.is_file());
    if found.is_none() {
        eprintln!("skipped: {name} is not in ZLRS_TEST_MODEL, ZLRS_HOME/models or ~/.cache/zlrs/models");
    }
    found
}

/// The bytes of a file that ends with the SHA-256 of the rest, with a sum that is right again.
pub fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len() - 32);
    let sum = Sha256::digest(&bytes);
    bytes.extend(sum);
    bytes
}
