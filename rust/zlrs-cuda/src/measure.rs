//! What single kernels take, for the device check: attention beside the same in three passes, and exit heads.

use std::time::Duration;

use zlrs_engine::clock::Clock;
use zlrs_engine::kv::BLOCK_TOKENS;
use zlrs_engine::sampling::uniform;
use zlrs_kernels::KvLayout;
use zlrs_kernels::naive::kv::to_half;

use crate::queue::{Attend, KvPlace, Parts, Queue, RowPlaces};
use crate::{Address, CudaError, Device, attention_shared_bytes};

/// Positions of a split of attention.
const SPLIT: usize = 512;
/// Features and units of the exit head that is measured.
const EXIT: [usize; 2] = [12, 12];

/// The attention of one row of one layer.
#[derive(Debug, Clone, Copy)]
pub struct AttentionShape {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads, a divisor of `heads`.
    pub kv_heads: usize,
    /// Values of a head; even.
    pub head_dim: usize,
    /// Positions that the row sees.
    pub depth: usize,
}

/// Medians of some repetitions, in seconds, and what was computed.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Fused attention, splits apart and merged.
    pub fused: f64,
    /// Scores, softmax and values with the scores in memory between them.
    pub unfused: f64,
    /// An exit head for `rows` rows.
    pub exit_head: f64,
    /// Both attentions' outputs, `[heads][head_dim]`.
    pub outputs: [Vec<f32>; 2],
}

/// Measures `repetitions` of each, at least 1.
///
/// # Errors
/// [`CudaError`].
pub fn measure<D: Device>(
    device: D,
    clock: &dyn Clock,
    shape: AttentionShape,
    rows: usize,
    repetitions: usize,
) -> Result<Measured, CudaError> {
    let mut bench = Bench { queue: Queue(device), memory: Vec::new() };
    let result = bench.run(clock, shape, rows, repetitions);
    for memory in std::mem::take(&mut bench.memory) {
        bench.queue.0.free(memory);
    }
    result
}

struct Bench<D> {
    queue: Queue<D>,
    memory: Vec<Address>,
}

impl<D: Device> Bench<D> {
    fn room(&mut self, bytes: usize) -> Result<Address, CudaError> {
        let memory = self.queue.0.allocate(bytes.max(1))?;
        self.memory.push(memory);
        Ok(memory)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<Address, CudaError> {
        let memory = self.room(bytes.len())?;
        self.queue.0.upload(bytes, memory)?;
        Ok(memory)
    }

    fn numbers(&mut self, values: impl Iterator<Item = i32>) -> Result<Address, CudaError> {
        self.put(&values.flat_map(i32::to_le_bytes).collect::<Vec<_>>())
    }

    fn floats(&mut self, count: usize) -> Result<Address, CudaError> {
        let values = (0..count).map(|index| uniform(3, index as u64) as f32 - 0.5);
        self.put(&values.flat_map(f32::to_le_bytes).collect::<Vec<_>>())
    }

    fn download(&self, from: Address, count: usize) -> Result<Vec<f32>, CudaError> {
        let mut bytes = vec![0; 4 * count];
        self.queue.0.download(from, &mut bytes)?;
        let words = bytes.chunks_exact(4);
        Ok(words.map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
    }

    /// The median time of a run.
    fn time(
        &mut self,
        clock: &dyn Clock,
        repetitions: usize,
        run: &dyn Fn(&mut Queue<D>) -> Result<(), CudaError>,
    ) -> Result<f64, CudaError> {
        let mut times = Vec::with_capacity(repetitions);
        // The first is not counted: a kernel is put on the device when it is first used.
        for repetition in 0..=repetitions.max(1) {
            self.queue.0.probe()?;
            let begun = clock.now();
            run(&mut self.queue)?;
            self.queue.0.probe()?;
            if repetition > 0 {
                times.push(clock.now().saturating_sub(begun));
            }
        }
        times.sort_unstable();
        Ok(times.get(times.len() / 2).map_or(0.0, Duration::as_secs_f64))
    }

    fn run(
        &mut self,
        clock: &dyn Clock,
        shape: AttentionShape,
        rows: usize,
        repetitions: usize,
    ) -> Result<Measured, CudaError> {
        let AttentionShape { heads, kv_heads, head_dim, depth } = shape;
        let bad = |what: String| CudaError::Driver { call: "a measurement", what };
        let layout = KvLayout::new(&[(kv_heads, head_dim)]).map_err(|error| bad(error.to_string()))?;
        let group = heads.checked_div(kv_heads).unwrap_or(0);
        if group * kv_heads != heads || heads == 0 || depth == 0 || !head_dim.is_multiple_of(2) {
            return Err(bad(format!("no attention has the shape {shape:?}")));
        }
        let blocks = depth.div_ceil(BLOCK_TOKENS);
        let arena = self.room(blocks * layout.block_bytes())?;
        // Every block the same numbers: time does not depend on them.
        let block: Vec<u8> = (0..layout.block_len)
            .flat_map(|index| to_half(uniform(4, index as u64) as f32 - 0.5).to_le_bytes())
            .collect();
        for index in 0..blocks {
            self.queue.0.upload(&block, arena.offset(index * block.len()))?;
        }
        let places = RowPlaces {
            positions: self.numbers(std::iter::once(depth as i32 - 1))?,
            tables: self.numbers(std::iter::once(0))?,
            block_table: self.numbers((0..blocks as i32).rev())?,
        };
        let layer = layout.layers[0];
        let place = KvPlace {
            arena,
            block_len: layout.block_len,
            key_offset: layer.key_offset,
            value_offset: layer.value_offset,
            kv_heads,
            head_dim,
        };
        let scale = 1.0 / (head_dim as f32).sqrt();
        let slopes = Address::default();
        let attend = Attend { place, mixed: None, slopes, group, window: 0, scale };
        let query = self.floats(heads * head_dim)?;
        let outs = [self.floats(heads * head_dim)?, self.floats(heads * head_dim)?];
        let splits = depth.div_ceil(SPLIT);
        let most = ((48 << 10) / attention_shared_bytes(1, head_dim)).max(1).min(group);
        let pieces: Vec<[usize; 2]> =
            (0..group).step_by(most).map(|head| [head, most.min(group - head)]).collect();
        let parts = Parts {
            memory: self
                .numbers(pieces.iter().flat_map(|&[head, count]| [0, 1, head as i32, count as i32]))?,
            count: pieces.len(),
            queries: most,
            splits,
            partials: self.room(heads * splits * (head_dim + 2) * 4)?,
        };
        let fused = self.time(clock, repetitions, &|queue| {
            queue.attention(query, outs[0], &attend, &parts, &places, 1)
        })?;
        let scores = self.room(heads * depth * 4)?;
        let unfused = self.time(clock, repetitions, &|queue| {
            queue.unfused_attention(query, outs[1], &attend, places.block_table, scores, depth)
        })?;
        let [features, units] = EXIT;
        let x = self.floats(rows * features)?;
        let weights = self.floats(2 * features + units * (features + 2) + 1)?;
        let predicted = self.room(rows * 4)?;
        let exit_head =
            self.time(clock, repetitions, &|queue| queue.exit_head(x, weights, predicted, EXIT, rows))?;
        let outputs = [self.download(outs[0], heads * head_dim)?, self.download(outs[1], heads * head_dim)?];
        Ok(Measured { fused, unfused, exit_head, outputs })
    }
}
