//! Writes a synthetic model file:
//! `synthetic OUT.gguf [--architecture llama|qwen2|qwen3|gemma3] [--types mixed|F32|…|Q6_K] [--seed N]
//! [--layers N] [--width N] [--mlp-width N] [--heads N] [--kv-heads N] [--context N] [--pre NAME] [--tied]
//! [--bos] [--no-template] [--rope-frequencies] [--sentence-piece | --space-prefix]`

use std::error::Error;

use zlrs_kernels::TensorType;
use zlrs_model::decoder::Architecture;
use zlrs_model::synthetic::{Settings, TokenizerKind, Types, model};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut path = None;
    let mut settings = Settings::default();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--architecture" => settings.architecture = Architecture::from_name(&value()?)?,
            "--types" => settings.types = types(&value()?)?,
            "--seed" => settings.seed = value()?.parse()?,
            "--layers" => settings.layers = value()?.parse()?,
            "--width" => settings.width = value()?.parse()?,
            "--mlp-width" => settings.mlp_width = value()?.parse()?,
            "--heads" => settings.heads = value()?.parse()?,
            "--kv-heads" => settings.kv_heads = value()?.parse()?,
            "--context" => settings.context_length = value()?.parse()?,
            "--pre" => settings.pre = value()?,
            "--sentence-piece" => settings.tokenizer = TokenizerKind::SentencePiece { adds_space: false },
            "--space-prefix" => settings.tokenizer = TokenizerKind::SentencePiece { adds_space: true },
            "--tied" => settings.tied_head = true,
            "--bos" => settings.adds_bos = true,
            "--no-template" => settings.chat_template = None,
            "--rope-frequencies" => settings.rope_frequencies = true,
            option if option.starts_with('-') => return Err(format!("unknown option {option}").into()),
            _ => path = Some(argument),
        }
    }
    let path = path.ok_or("give the path of the file to write")?;
    std::fs::write(path, model(&settings))?;
    Ok(())
}

fn types(name: &str) -> Result<Types, String> {
    if name == "mixed" {
        return Ok(Types::Mixed);
    }
    let found = TensorType::ALL.into_iter().find(|tensor_type| tensor_type.name().eq_ignore_ascii_case(name));
    found.map(Types::One).ok_or_else(|| {
        format!(
            "type {name} is not known; types are mixed, {}",
            TensorType::ALL.map(TensorType::name).join(", ")
        )
    })
}
