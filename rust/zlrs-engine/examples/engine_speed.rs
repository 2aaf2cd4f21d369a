//! Raw speed of the engine's steps on one model, as JSON on standard output: no sampling, no text, no scheduler.
//!
//! ```sh
//! cargo run --release -p zlrs-engine --example engine_speed -- MODEL.gguf THREADS TEST...
//! ```
//!
//! A test is `ppN` (a prompt of N tokens), `tgN@D` (N tokens one by one after D others) or `bK:N@D` (N steps of
//! K sequences, D tokens each before). Prompts run in chunks of the engine's own size. The time for the D tokens
//! before does not count. One process runs a list once; repeat the process for rounds. Without a test one token
//! is computed: the time of the whole process is that of a start.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::panic, reason = "a program for measuring")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use zlrs_engine::Compute;
use zlrs_engine::backend::Backend;
use zlrs_engine::cpu::CpuBackend;
use zlrs_engine::kv::{Arena, BLOCK_TOKENS, Sequence};
use zlrs_engine::plan::{CHUNK_ROWS, Plan, Row};
use zlrs_kernels::{Isa, Matrix, Pool};
use zlrs_model::decoder::Decoder;
use zlrs_model::gguf::File;
use zlrs_model::tokenizer::Tokenizer;
use zlrs_model::weights::Weights;

/// Tokens of the prompt that is computed before anything counts.
const WARM_UP_TOKENS: usize = 32;

struct Test {
    name: String,
    sequences: usize,
    depth: usize,
    /// Tokens timed, a sequence.
    tokens: usize,
    /// One step for each token, else a prompt.
    single: bool,
}

impl Test {
    fn parse(name: &str) -> Self {
        let number = |text: &str| text.parse::<usize>().unwrap_or_else(|_| panic!("not a test: {name}"));
        let (what, depth) = name.split_once('@').map_or((name, 0), |(what, depth)| (what, number(depth)));
        let name = name.to_owned();
        if let Some(tokens) = what.strip_prefix("pp") {
            return Self { name: name.clone(), sequences: 1, depth, tokens: number(tokens), single: false };
        }
        if let Some(tokens) = what.strip_prefix("tg") {
            return Self { name: name.clone(), sequences: 1, depth, tokens: number(tokens), single: true };
        }
        let (sequences, tokens) = what.strip_prefix('b').and_then(|what| what.split_once(':')).unwrap();
        let (sequences, tokens) = (number(sequences), number(tokens));
        Self { name: name.clone(), sequences, depth, tokens, single: true }
    }
}

/// A value in kB of this process's status.
fn status_kb(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|value| value.parse().ok()).unwrap_or(0)
}

struct Machine {
    backend: CpuBackend,
    arena: Arena,
    plan: Plan,
}

impl Machine {
    /// Computes all pending tokens.
    fn run(&mut self, sequences: &mut [Sequence]) {
        while sequences.iter().any(|sequence| !sequence.pending().is_empty()) {
            self.plan.clear();
            let mut room = CHUNK_ROWS;
            for sequence in sequences.iter_mut() {
                let rows = sequence.pending().len().min(room);
                room -= rows;
                let end = sequence.stored() + rows;
                sequence.reserve(end, self.plan.copies_mut()).unwrap();
                let index = self.plan.add_sequence(&sequence.table()[..end.div_ceil(BLOCK_TOKENS)]);
                let last = sequence.pending().len() - 1;
                for (offset, &token) in sequence.pending()[..rows].iter().enumerate() {
                    let position = (sequence.stored() + offset) as u32;
                    self.plan.add_row(Row {
                        token,
                        position,
                        sequence: index,
                        wants_logits: offset == last,
                        compute: Compute::Exact,
                    });
                }
            }
            self.backend.step(&self.plan, &|| false).unwrap();
            for row in self.plan.rows() {
                sequences[row.sequence as usize].advance(1);
            }
        }
    }

    fn seconds(&mut self, test: &Test) -> f64 {
        let vocabulary = self.backend.shape().vocabulary as u64;
        let mut next = 12345_u64;
        let mut token = || {
            next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((next >> 33) % vocabulary) as u32
        };
        let mut prompt = |tokens: usize| -> Vec<u32> { (0..tokens).map(|_| token()).collect() };
        let before = if test.single { test.depth.max(1) } else { test.depth };
        let mut sequences: Vec<Sequence> =
            (0..test.sequences).map(|_| Sequence::new(&self.arena, prompt(before))).collect();
        self.run(&mut sequences);
        let timed = prompt(test.tokens * test.sequences);
        let start = Instant::now();
        if test.single {
            for step in timed.chunks_exact(test.sequences) {
                for (sequence, &token) in sequences.iter_mut().zip(step) {
                    sequence.push(token);
                }
                self.run(&mut sequences);
            }
        } else {
            for &token in &timed {
                sequences[0].push(token);
            }
            self.run(&mut sequences);
        }
        start.elapsed().as_secs_f64()
    }
}

/// All matrices a token passes: what it multiplies by, and so reads.
fn matrices(weights: &Weights) -> Vec<&Matrix> {
    let mut all = vec![weights.head()];
    for layer in &weights.layers {
        if let Some(part) = &layer.attention {
            all.extend([&part.query, &part.key, &part.value, &part.output].map(|map| &map.matrix));
        }
        if let Some(part) = &layer.mlp {
            all.extend([&part.gate, &part.up, &part.down]);
        }
    }
    all
}

/// Bytes of a token by weight type, as JSON; and the multiplications of a token of a prompt, where only the last
/// one passes the head.
fn work_of_a_token(weights: &Weights) -> (String, usize) {
    let mut bytes: BTreeMap<&str, usize> = BTreeMap::new();
    let mut multiplications = 0;
    for (index, matrix) in matrices(weights).into_iter().enumerate() {
        *bytes.entry(matrix.tensor_type().name()).or_default() += matrix.bytes();
        multiplications += if index == 0 { 0 } else { matrix.rows() * matrix.cols() };
    }
    let entries: Vec<String> = bytes.iter().map(|(name, bytes)| format!("\"{name}\": {bytes}")).collect();
    (format!("{{{}}}", entries.join(", ")), multiplications)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, threads, tests @ ..] = arguments.as_slice() else { panic!("MODEL.gguf THREADS TEST...") };
    let tests: Vec<Test> = tests.iter().map(|name| Test::parse(name)).collect();
    let start = Instant::now();
    let isa = Isa::select().unwrap();
    let pool = Pool::new(threads.parse().unwrap()).unwrap();
    let file = File::open(Path::new(path)).unwrap();
    let decoder = Decoder::from_metadata(file.metadata(), &file).unwrap();
    // Not used here, but a part of loading.
    let _tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
    let weights = Weights::load(&decoder, &file, isa, &pool, &|_, _| {}).unwrap();
    let token_bytes: usize = matrices(&weights).into_iter().map(Matrix::bytes).sum();
    let (types, multiplications) = work_of_a_token(&weights);
    let weight_bytes = weights.bytes();
    let tokens = |test: &Test| test.depth + test.tokens + 1;
    let context =
        tests.iter().map(tokens).max().unwrap_or(1).max(WARM_UP_TOKENS + 1).min(decoder.context_length);
    let blocks_of = |test: &Test| test.sequences * tokens(test).div_ceil(BLOCK_TOKENS);
    let least = (WARM_UP_TOKENS + 1).div_ceil(BLOCK_TOKENS);
    let blocks = tests.iter().map(blocks_of).max().unwrap_or(1).max(least);
    let backend = CpuBackend::new(decoder, weights, isa, pool, context, blocks).unwrap();
    let load_seconds = start.elapsed().as_secs_f64();
    let loaded_kb = status_kb("VmRSS");
    let load_peak_kb = status_kb("VmHWM");

    let shape = backend.shape();
    let arena = Arena::new(shape.block_bytes, shape.blocks * shape.block_bytes).unwrap();
    let plan = Plan::default();
    let mut machine = Machine { backend, arena, plan };
    if tests.is_empty() {
        // Only the start is of interest: one token.
        machine.seconds(&Test::parse("pp1"));
    } else {
        // Pages, caches and the clock warm up on something that is not counted.
        machine.seconds(&Test::parse(&format!("pp{WARM_UP_TOKENS}")));
        machine.seconds(&Test::parse("tg4"));
    }
    let results: Vec<String> = tests
        .iter()
        .map(|test| {
            let rate = (test.tokens * test.sequences) as f64 / machine.seconds(test);
            format!("\"{}\": {rate:.3}", test.name)
        })
        .collect();
    println!(
        "{{\"isa\": \"{}\", \"load_seconds\": {load_seconds:.4}, \"loaded_rss_kb\": {loaded_kb}, \
         \"load_peak_rss_kb\": {load_peak_kb}, \"peak_rss_kb\": {}, \"weight_bytes\": {weight_bytes}, \
         \"weight_bytes_of_a_token\": {token_bytes}, \"types\": {types}, \
         \"multiplications_of_a_prompt_token\": {multiplications}, \"kv_bytes\": {}, \"tok_per_s\": {{{}}}}}",
        isa.name(),
        status_kb("VmHWM"),
        shape.blocks * shape.block_bytes,
        results.join(", ")
    );
}
