//! Speed of candle's own quantised models on one file, as JSON on standard output, for comparison.
//!
//! ```sh
//! cargo run --release -p zlrs-train --example candle_speed -- MODEL.gguf PROMPT_TOKENS NEW_TOKENS
//! ```
//!
//! The number of threads is rayon's: set `RAYON_NUM_THREADS`.
#![allow(clippy::print_stdout, clippy::panic, reason = "a program for measuring")]

use std::fs::File;
use std::io::BufReader;
use std::time::Instant;

use candle_core::quantized::gguf_file::Content;
use candle_core::{Device, Error, Tensor};
use candle_transformers::models::{quantized_gemma3, quantized_llama, quantized_qwen2};

enum Model {
    Llama(quantized_llama::ModelWeights),
    Qwen2(quantized_qwen2::ModelWeights),
    Gemma3(quantized_gemma3::ModelWeights),
}

impl Model {
    fn forward(&mut self, ids: &[u32], position: usize) -> Result<(), Error> {
        let input = Tensor::new(ids, &Device::Cpu)?.unsqueeze(0)?;
        match self {
            Self::Llama(model) => model.forward(&input, position)?,
            Self::Qwen2(model) => model.forward(&input, position)?,
            Self::Gemma3(model) => model.forward(&input, position)?,
        };
        Ok(())
    }
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, prompt, new] = arguments.as_slice() else { panic!("MODEL.gguf PROMPT_TOKENS NEW_TOKENS") };
    let number = |text: &String| text.parse::<usize>().map_err(Error::wrap);
    let (prompt, new) = (number(prompt)?, number(new)?);
    let start = Instant::now();
    let mut reader = BufReader::new(File::open(path)?);
    let content = Content::read(&mut reader)?;
    let architecture = content.metadata.get("general.architecture").map(|value| value.to_string());
    let architecture = architecture.transpose()?.cloned().unwrap_or_default();
    let mut model = match architecture.as_str() {
        "llama" => {
            Model::Llama(quantized_llama::ModelWeights::from_gguf(content, &mut reader, &Device::Cpu)?)
        }
        "qwen2" => {
            Model::Qwen2(quantized_qwen2::ModelWeights::from_gguf(content, &mut reader, &Device::Cpu)?)
        }
        "gemma3" => {
            Model::Gemma3(quantized_gemma3::ModelWeights::from_gguf(content, &mut reader, &Device::Cpu)?)
        }
        other => panic!("no candle model for architecture {other:?}"),
    };
    let load_seconds = start.elapsed().as_secs_f64();
    let ids: Vec<u32> = (0..prompt as u32).map(|i| 100 + i * 37 % 9000).collect();
    model.forward(&ids[..4.min(ids.len())], 0)?;
    let start = Instant::now();
    model.forward(&ids, 0)?;
    let prefill = prompt as f64 / start.elapsed().as_secs_f64();
    let start = Instant::now();
    for position in prompt..prompt + new {
        model.forward(&[ids[position % prompt]], position)?;
    }
    let decode = new as f64 / start.elapsed().as_secs_f64();
    println!(
        "{{\"load_seconds\": {load_seconds:.4}, \
         \"tok_per_s\": {{\"pp{prompt}\": {prefill:.3}, \"tg{new}@0\": {decode:.3}}}}}"
    );
    Ok(())
}
