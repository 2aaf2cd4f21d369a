//! The forward pass once more, as plainly as it can be said: one token after the other, one head after the
//! other, from the file's own bytes, by the formulas of the specification. No pool, no blocks, no batches.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use zlrs_engine::exit::{ExitHeads, ExitState, Followers, RowTrace, View, dot, features};
use zlrs_kernels::naive::{activation, decode, exponential, kv, matmul, norm, rope};
use zlrs_kernels::{Isa, RopeLayout, RopeTable};
use zlrs_model::decoder::{Activation, Attention, Decoder, Mlp};
use zlrs_model::source::TensorSource;

const TILE: usize = 64;
const SPLIT: usize = 512;

pub struct Reference<'a> {
    decoder: &'a Decoder,
    source: &'a dyn TensorSource,
    tensors: RefCell<HashMap<String, Rc<[u8]>>>,
    ropes: Vec<RopeTable>,
    /// `[layer][position][kv_heads · head_dim]`, rounded to f16.
    keys: Vec<Vec<Vec<f32>>>,
    values: Vec<Vec<Vec<f32>>>,
    tokens: Vec<u32>,
    /// Where rows may leave, and the history.
    pub exits: Option<(ExitHeads, ExitState)>,
    /// Layers left out, by token.
    pub skipped: Vec<u16>,
    /// By layer, what gates must exceed for their neurons to count; negative for all.
    pub neurons: Vec<f32>,
}

impl<'a> Reference<'a> {
    pub fn new(decoder: &'a Decoder, source: &'a dyn TensorSource, positions: usize) -> Self {
        let ropes =
            decoder.ropes.iter().map(|parameters| RopeTable::new(parameters, positions).unwrap()).collect();
        let empty = vec![Vec::new(); decoder.layers.len()];
        Self {
            decoder,
            source,
            tensors: RefCell::default(),
            ropes,
            keys: empty.clone(),
            values: empty,
            tokens: Vec::new(),
            exits: None,
            skipped: Vec::new(),
            neurons: Vec::new(),
        }
    }

    /// The logits after `token`, the next of the sequence.
    pub fn next(&mut self, token: u32) -> Vec<f32> {
        self.tokens.push(token);
        let mut hidden = vec![0.0; self.decoder.width];
        let embedding = self.source.info("token_embd.weight").unwrap();
        let mut bytes = vec![0; embedding.row_bytes];
        self.source.read(embedding, u64::from(token) * embedding.row_bytes as u64, &mut bytes).unwrap();
        decode::decode_row(embedding.tensor_type, &bytes, &mut hidden);
        if self.decoder.embedding_scale != 1.0 {
            activation::scale(self.decoder.embedding_scale, &mut hidden);
        }
        let (mut before, mut best, mut skipped, mut trace) = (hidden.clone(), None, 0, RowTrace::default());
        for (index, layer) in self.decoder.layers.iter().enumerate() {
            if skipped == 0 && self.leaves(index, &hidden, &mut before, &mut best, &mut trace) {
                skipped = self.decoder.layers.len() - index;
            }
            if skipped > 0 {
                if let Some(attention) = &layer.attention {
                    // For its keys and values.
                    self.attention(index, attention, &hidden);
                }
                continue;
            }
            if let Some(attention) = &layer.attention {
                let branch = self.attention(index, attention, &hidden);
                activation::add(&branch, &mut hidden);
            } else if let Some(constant) = &layer.attention_constant {
                activation::add(constant, &mut hidden);
            }
            if let Some(mlp) = &layer.mlp {
                let branch = self.mlp(index, mlp, &hidden);
                activation::add(&branch, &mut hidden);
            } else if let Some(constant) = &layer.mlp_constant {
                activation::add(constant, &mut hidden);
            }
        }
        if let Some((heads, state)) = &mut self.exits {
            state.advance(trace);
            let left = self.decoder.layers.len() - skipped;
            if let Some(probe) = heads.probes.iter().find(|probe| skipped > 0 && probe.layer == left) {
                activation::add(&probe.shift, &mut hidden);
            }
        }
        self.skipped.push(skipped as u16);
        let normed = self.norm(&hidden, "output_norm.weight");
        let head = if self.decoder.tied_head { "token_embd.weight" } else { "output.weight" };
        let mut logits = self.product(&normed, head, None);
        if let Some(cap) = self.decoder.logit_softcap {
            activation::softcap_all(cap, &mut logits);
        }
        logits
    }

    /// Whether the row leaves before a layer.
    fn leaves(
        &mut self,
        layer: usize,
        hidden: &[f32],
        before: &mut [f32],
        best: &mut Option<usize>,
        trace: &mut RowTrace,
    ) -> bool {
        let Some((heads, state)) = &self.exits else { return false };
        let Some(number) = heads.probes.iter().position(|probe| probe.layer == layer) else { return false };
        let (probe, mut state) = (&heads.probes[number], *state);
        let mut shifted = hidden.to_vec();
        activation::add(&probe.shift, &mut shifted);
        let normed = self.norm(&shifted, "output_norm.weight");
        let followers = Followers::of(&self.tokens);
        let logits: Vec<f32> = heads
            .shortlist
            .iter()
            .chain(followers.ids())
            .map(|&id| dot(&normed, &self.head_row(id)))
            .collect();
        let view = View {
            state: hidden,
            before: &before[..],
            best_before: *best,
            logits: &logits,
            shortlist: heads.shortlist.len(),
            followers: &followers,
            position: self.tokens.len() as u32 - 1,
        };
        let (features, found) = features(Isa::Naive, &view);
        let under = probe.threshold.is_some_and(|threshold| probe.head.predict(&features) < threshold);
        trace.under |= u8::from(under) << number;
        let leaves = state.push(number, under);
        *best = Some(found);
        before.copy_from_slice(hidden);
        if leaves {
            trace.under |= u8::MAX << number;
        }
        leaves
    }

    fn head_row(&self, id: u32) -> Vec<f32> {
        let head = if self.decoder.tied_head { "token_embd.weight" } else { "output.weight" };
        let info = self.source.info(head).unwrap();
        let mut row = vec![0.0; self.decoder.width];
        let start = id as usize * info.row_bytes;
        decode::decode_row(info.tensor_type, &self.bytes(head)[start..start + info.row_bytes], &mut row);
        row
    }

    fn attention(&mut self, layer: usize, part: &Attention, hidden: &[f32]) -> Vec<f32> {
        let name = |suffix: &str| format!("blk.{layer}.{suffix}");
        let normed = self.norm(hidden, &name("attn_norm.weight"));
        let bias = |suffix: &str| part.qkv_bias.then(|| name(suffix));
        let mut query = self.product(&normed, &name("attn_q.weight"), bias("attn_q.bias"));
        let mut key = self.product(&normed, &name("attn_k.weight"), bias("attn_k.bias"));
        let value = self.product(&normed, &name("attn_v.weight"), bias("attn_v.bias"));
        let position = self.keys[layer].len();
        for (heads, norm_name) in [(&mut query, "attn_q_norm.weight"), (&mut key, "attn_k_norm.weight")] {
            for head in heads.chunks_exact_mut(part.head_dim) {
                if part.qk_norm {
                    let normed = self.norm(head, &name(norm_name));
                    head.copy_from_slice(&normed);
                }
                let (cos, sin) = self.ropes[part.rope].at(position as u32).unwrap();
                match self.decoder.rope_layout {
                    RopeLayout::Adjacent => rope::adjacent(cos, sin, head),
                    RopeLayout::Halves => rope::halves(cos, sin, head),
                }
            }
        }
        let stored = |row: &[f32]| row.iter().map(|&x| kv::from_half(kv::to_half(x))).collect::<Vec<_>>();
        self.keys[layer].push(stored(&key));
        self.values[layer].push(stored(&value));
        let group = part.heads / part.kv_heads;
        let mut attended = Vec::new();
        for (head, query) in query.chunks_exact(part.head_dim).enumerate() {
            let kv_head = head / group * part.head_dim..(head / group + 1) * part.head_dim;
            let keys: Vec<&[f32]> = self.keys[layer].iter().map(|row| &row[kv_head.clone()]).collect();
            let values: Vec<&[f32]> = self.values[layer].iter().map(|row| &row[kv_head.clone()]).collect();
            let silent = part.cut.as_ref().is_some_and(|cut| cut.silent.contains(&head));
            let result = attend(query, &keys, &values, part.scale, part.window);
            attended.extend(result.into_iter().map(|value| if silent { 0.0 } else { value }));
        }
        let bias = part.output_bias.then(|| name("attn_output.bias"));
        let out = self.product(&attended, &name("attn_output.weight"), bias);
        if part.post_norm { self.norm(&out, &name("post_attention_norm.weight")) } else { out }
    }

    fn mlp(&self, layer: usize, part: &Mlp, hidden: &[f32]) -> Vec<f32> {
        let name = |suffix: &str| format!("blk.{layer}.{suffix}");
        let normed = self.norm(hidden, &name("ffn_norm.weight"));
        let gate = self.product(&normed, &name("ffn_gate.weight"), None);
        let up = self.product(&normed, &name("ffn_up.weight"), None);
        let least = self.neurons.get(layer).copied().unwrap_or(-1.0);
        let activated: Vec<f32> = gate
            .iter()
            .zip(&up)
            .map(|(&gate, &up)| {
                let through = match part.activation {
                    Activation::Silu => activation::silu(gate),
                    Activation::Gelu => activation::gelu(gate),
                };
                if through.abs() <= least { 0.0 } else { through * up }
            })
            .collect();
        let out = self.product(&activated, &name("ffn_down.weight"), None);
        if part.post_norm { self.norm(&out, &name("post_ffw_norm.weight")) } else { out }
    }

    fn norm(&self, x: &[f32], name: &str) -> Vec<f32> {
        let mut out = vec![0.0; x.len()];
        norm::rms_norm(x, &self.floats(name), self.decoder.norm_epsilon, &mut out);
        out
    }

    fn product(&self, x: &[f32], weights: &str, bias: Option<String>) -> Vec<f32> {
        let info = self.source.info(weights).unwrap();
        assert_eq!(info.cols, x.len(), "{weights}");
        let mut out = vec![0.0; info.rows];
        let bias = bias.map(|name| self.floats(&name));
        matmul::matmul(info.tensor_type, &self.bytes(weights), info.cols, x, bias.as_deref(), &mut out);
        out
    }

    /// A tensor's bytes, read once.
    fn bytes(&self, name: &str) -> Rc<[u8]> {
        let read = || {
            let info = self.source.info(name).unwrap();
            let mut bytes = vec![0; info.bytes as usize];
            self.source.read(info, 0, &mut bytes).unwrap();
            Rc::from(bytes)
        };
        Rc::clone(self.tensors.borrow_mut().entry(name.to_owned()).or_insert_with(read))
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        let bytes = self.bytes(name);
        bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    }
}

struct State {
    max: f32,
    sum: f32,
    values: Vec<f32>,
}

/// One query head over all positions so far.
fn attend(query: &[f32], keys: &[&[f32]], values: &[&[f32]], scale: f32, window: Option<u32>) -> Vec<f32> {
    let query: Vec<f32> = query.iter().map(|x| x * scale).collect();
    let end = keys.len();
    let start = window.map_or(0, |window| end.saturating_sub(window as usize));
    let mut total: Option<State> = None;
    for split in start / SPLIT..end.div_ceil(SPLIT) {
        let mut state = State { max: f32::NEG_INFINITY, sum: 0.0, values: vec![0.0; query.len()] };
        for tile in split * SPLIT / TILE..(split + 1) * SPLIT / TILE {
            let positions = start.max(tile * TILE)..end.min((tile + 1) * TILE);
            if positions.is_empty() {
                continue;
            }
            let mut weights = [f32::NEG_INFINITY; TILE];
            let mut max = state.max;
            for position in positions.clone() {
                let score = query.iter().zip(keys[position]).fold(0.0, |sum, (q, k)| q.mul_add(*k, sum));
                weights[position % TILE] = score;
                max = f32::max(max, score);
            }
            let correction = exponential::exp(state.max - max);
            let weights = weights.map(|score| exponential::exp(score - max));
            state.max = max;
            state.sum = state.sum.mul_add(correction, norm::sum(&weights));
            for (dimension, value) in state.values.iter_mut().enumerate() {
                *value *= correction;
                for position in positions.clone() {
                    *value = weights[position % TILE].mul_add(values[position][dimension], *value);
                }
            }
        }
        total = Some(match total {
            None => state,
            Some(before) => {
                let max = before.max.max(state.max);
                let (a, b) = (exponential::exp(before.max - max), exponential::exp(state.max - max));
                State {
                    max,
                    sum: before.sum.mul_add(a, state.sum * b),
                    values: before
                        .values
                        .iter()
                        .zip(&state.values)
                        .map(|(x, y)| x.mul_add(a, y * b))
                        .collect(),
                }
            }
        });
    }
    let total = total.expect("a position sees itself");
    total.values.iter().map(|value| value / total.sum).collect()
}
