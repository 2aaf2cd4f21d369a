//! Loads damaged model files whole (header, description, tokenizer, chat template, weights) and says how many
//! were refused: `damaged_loads [--count N] [--seed N] [--model FILE.gguf]`. Exits 0 if every load ended with
//! a model or an error. Meant to be run under a memory limit.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;

use zlrs_kernels::{Isa, Pool};
use zlrs_model::ModelError;
use zlrs_model::decoder::{Architecture, Decoder};
use zlrs_model::gguf::{File, Header};
use zlrs_model::synthetic::{Settings, TokenizerKind, damage, model};
use zlrs_model::template::{ChatTemplate, Message, RenderOptions};
use zlrs_model::tokenizer::Tokenizer;
use zlrs_model::weights::Weights;

fn main() -> Result<(), Box<dyn Error>> {
    let (mut count, mut seed, mut models) = (500, 1, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--count" => count = value.parse()?,
            "--seed" => seed = value.parse()?,
            "--model" => models.push(std::fs::read(value)?),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    if models.is_empty() {
        models = Architecture::ALL
            .map(|architecture| model(&Settings { architecture, ..Settings::default() }))
            .into();
        let tokenizer = TokenizerKind::SentencePiece { adds_space: true };
        models.push(model(&Settings { tokenizer, ..Settings::default() }));
    }
    let pool = Pool::new(2)?;
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("damaged.gguf");
    let mut outcomes: BTreeMap<String, u64> = BTreeMap::new();
    for number in 0..count {
        let bytes = &models[number as usize % models.len()];
        let header_bytes = Header::read(bytes)?.data_offset as usize;
        // Every fourth file is damaged anywhere, the others where it hurts.
        let place = if number % 4 == 0 { bytes.len() } else { header_bytes };
        std::fs::write(&path, damage(bytes, place, seed + number))?;
        let outcome = match load(&path, &pool) {
            Ok(()) => "loaded".to_owned(),
            Err(error) => kind(error.cause()),
        };
        *outcomes.entry(outcome).or_default() += 1;
    }
    let mut out = std::io::stdout().lock();
    for (outcome, count) in outcomes {
        writeln!(out, "{count:6} {outcome}")?;
    }
    Ok(())
}

fn load(path: &std::path::Path, pool: &Pool) -> Result<(), ModelError> {
    let file = File::open(path)?;
    let decoder = Decoder::from_metadata(file.metadata(), &file)?;
    let tokenizer = Tokenizer::from_metadata(file.metadata())?;
    let ids = match ChatTemplate::from_metadata(file.metadata(), &tokenizer) {
        Ok(template) => {
            let messages = [Message { role: "user", content: "Is it <|im_end|> or not?" }];
            let options = RenderOptions { add_generation_prompt: true, now_s: 0 };
            tokenizer.encode_prompt(&template.render(&messages, options)?)
        }
        Err(ModelError::NoTemplate) => tokenizer.encode("plain"),
        Err(error) => return Err(error),
    };
    for id in ids {
        tokenizer.token_bytes(id)?;
    }
    Weights::load(&decoder, &file, Isa::detect(), pool, &|_, _| {})?;
    file.sha256()?;
    Ok(())
}

/// The variant's name.
fn kind(error: &ModelError) -> String {
    let debug = format!("{error:?}");
    format!("refused: {}", debug.split([' ', '(', '{']).next().unwrap_or_default())
}
