//! A model with what it answers alone, by the plainest code, and requests that share beginnings of all kinds.

use std::collections::HashMap;
use std::sync::Arc;

use zlrs_engine::sampling::{Sampler, Sampling};
use zlrs_engine::scheduler::{Scheduler, SchedulerOptions};
use zlrs_engine::{FinishReason, Request};
use zlrs_kernels::Isa;
use zlrs_model::decoder::Architecture;
use zlrs_model::mask::Mask;
use zlrs_model::synthetic::Types;
use zlrs_model::tokenizer::Tokenizer;

use super::model::{Model, text_ids};
use super::reference::Reference;

/// Tokens of the longest answer that is compared.
const LONGEST: usize = 40;

/// A model, and what it answers alone.
pub struct World {
    pub model: Model,
    pub tokenizer: Arc<Tokenizer>,
    known: HashMap<(Vec<u32>, Option<u64>), Vec<u32>>,
}

impl World {
    pub fn new() -> Self {
        let model = Model::of(Architecture::Qwen2, Types::Mixed);
        let tokenizer = Arc::new(Tokenizer::from_metadata(model.file.metadata()).unwrap());
        Self { model, tokenizer, known: HashMap::new() }
    }

    pub fn scheduler(&self, blocks: usize, options: SchedulerOptions) -> Scheduler {
        let mut backend = self.model.backend(Isa::detect(), 2, blocks);
        backend.draft_with(&half(&self.model), 200).unwrap();
        Scheduler::start(Box::new(backend), self.tokenizer.clone(), options).unwrap()
    }

    /// Ids and ending of a request by the plainest code, one token after the other.
    pub fn alone(&mut self, request: &Request) -> (Vec<u32>, FinishReason) {
        assert!(request.max_tokens <= LONGEST);
        let key = (request.ids.clone(), request.sampling.seed);
        if !self.known.contains_key(&key) {
            let answer = self.compute(request);
            self.known.insert(key.clone(), answer);
        }
        let answer = &self.known[&key];
        let is_cut = answer.len() >= request.max_tokens;
        let reason = if is_cut { FinishReason::MaxTokens } else { FinishReason::Stop };
        (answer[..request.max_tokens.min(answer.len())].to_vec(), reason)
    }

    fn compute(&self, request: &Request) -> Vec<u32> {
        let mut reference = Reference::new(&self.model.decoder, &self.model.file, 512);
        let mut sampler = Sampler::new(request.sampling.clone(), self.model.decoder.vocabulary).unwrap();
        sampler.observe(&request.ids);
        let mut ids = request.ids.clone();
        let mut logits = Vec::new();
        for &id in &ids {
            logits = reference.next(id);
        }
        while ids.len() < request.ids.len() + LONGEST {
            let token = sampler.choose(&logits, ids.len() as u64).unwrap();
            if self.tokenizer.is_end(token) {
                break;
            }
            sampler.observe(&[token]);
            ids.push(token);
            logits = reference.next(token);
        }
        ids.split_off(request.ids.len())
    }
}

/// Half of the model's parts, by turns.
fn half(model: &Model) -> Mask {
    let mut mask = Mask::empty(&model.decoder, [0; 32]);
    for (index, layer) in mask.layers.iter_mut().enumerate() {
        (layer.attention, layer.mlp) = (index % 2 == 1, index % 2 == 0);
    }
    mask
}

/// Prompts that share beginnings of all kinds, greedy and sampled.
pub fn request(prompt: usize, max_tokens: usize, seed: Option<u64>) -> Request {
    let shared = [0, 5, 16, 37][prompt % 4];
    let mut ids = text_ids(shared, 1);
    ids.extend(text_ids([1, 9, 30, 75][prompt / 4 % 4], 2 + (prompt / 4) as u64));
    let temperature = if seed.is_some() { 1.0 } else { 0.0 };
    let repetition_penalty = if prompt.is_multiple_of(3) { 1.3 } else { 1.0 };
    let sampling = Sampling { temperature, seed, repetition_penalty, ..Sampling::default() };
    Request { ids, max_tokens, sampling, ..Request::default() }
}
