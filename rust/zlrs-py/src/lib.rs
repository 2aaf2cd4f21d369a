//! `zlrs._core`: the only crate that knows Python. One file per exposed class; no logic of its own.
#![expect(clippy::needless_pass_by_value, reason = "what is converted from Python arguments is owned")]

mod audit;
mod build_info;
mod device;
mod engine;
mod error;
mod exits;
mod fingerprint;
mod generation;
mod governor;
mod graph;
mod graph_files;
mod judge;
mod mask;
mod meter;
mod neurons;
mod patterns;
mod perplexity;
mod plain;
mod ring;
mod session;
mod text;
mod tokenizer;
mod wire;

use pyo3::prelude::*;

// Every class is frozen and locks what changes, so the module needs no global interpreter lock.
#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use super::audit::verify_audit;
    #[pymodule_export]
    use super::build_info::build_info;
    #[pymodule_export]
    use super::device::{gpu_info, gpu_measure, gpu_self_test};
    #[pymodule_export]
    use super::engine::PyEngine;
    #[pymodule_export]
    use super::error::CoreError;
    #[pymodule_export]
    use super::exits::{PyExitHeads, PyExitTrainer};
    #[pymodule_export]
    use super::fingerprint::{fingerprint_quality, shipped_fingerprint, train_fingerprint, wording_cosine};
    #[pymodule_export]
    use super::generation::{Correction, Delta, Finished, PyGeneration, Token};
    #[pymodule_export]
    use super::graph::{PyDecision, PyGraph};
    #[pymodule_export]
    use super::graph_files::{PyGraphFiles, repeat_decision};
    #[pymodule_export]
    use super::judge::{answer_pairs, compare_answers, share_limit};
    #[pymodule_export]
    use super::mask::PyMask;
    #[pymodule_export]
    use super::meter::PyMeter;
    #[pymodule_export]
    use super::neurons::PyNeurons;
    #[pymodule_export]
    use super::patterns::PyPatterns;
    #[pymodule_export]
    use super::perplexity::perplexity;
    #[pymodule_export]
    use super::plain::answer_plain;
    #[pymodule_export]
    use super::ring::{PyRingHead, PyRingTeacher, PyValidation};
    #[pymodule_export]
    use super::session::{PyPin, RestoredState};
    #[pymodule_export]
    use super::text::{clean_text, mask_personal, text_names, text_places};
    #[pymodule_export]
    use super::tokenizer::PyTokenizer;
    #[pymodule_export]
    use super::wire::{error_catalogue, error_classes, header_names, reasons};

    use pyo3::prelude::*;

    /// Gives the exception class its attributes, so that they exist before an instance does.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let class = module.py().get_type::<super::error::CoreError>();
        class.setattr("type", "")?;
        class.setattr("message", "")
    }
}
