//! What the governor is told: the peak of the memory, and what each step moved.

use std::time::Duration;

use zlrs_engine::clock::Clock;
use zlrs_engine::governor::{Governor, Sensor, Traffic};
use zlrs_engine::kv::BLOCK_TOKENS;
use zlrs_engine::plan::{KvPrecision, Plan};
use zlrs_kernels::naive::sealed::{CodeBits, sealed_bytes};

use super::forms::{Form, kind};
use super::{CudaBackend, Queue};
use crate::{CudaError, Device};

/// Bytes read to find the peak: more than the cache of any device holds, the first size there is room for.
pub(super) const PEAK_BYTES: [usize; 2] = [1 << 30, 256 << 20];
/// Times they are read; the fastest counts.
const PEAK_PASSES: usize = 5;
/// Reads of a pass, so that asking and waiting are a small part of it.
const PEAK_READS: u32 = 4;
/// Blocks of threads that read.
const PEAK_BLOCKS: usize = 2048;

impl<D: Device> CudaBackend<D> {
    /// What tells the device's temperature.
    #[must_use]
    pub fn with_sensor(mut self, sensor: Option<Box<dyn Sensor>>) -> Self {
        self.sensor = sensor;
        self
    }

    /// Finds the peak by reading so many bytes, where there is room for no more or a device is slow. A cache that
    /// holds them is what is measured then.
    #[must_use]
    pub fn with_peak_bytes(mut self, bytes: usize) -> Self {
        self.peak_bytes = [bytes; 2];
        self
    }

    pub(super) fn govern_by(&mut self, governor: Governor) {
        let mut found = 0.0;
        for bytes in self.peak_bytes {
            match peak(&mut self.queue, &self.clock, bytes) {
                Ok(peak) => {
                    found = peak;
                    break;
                }
                Err(CudaError::OutOfMemory { .. }) => {}
                // Steps will tell of it.
                Err(_) => break,
            }
        }
        governor.attach(found, self.sensor.take());
        self.governor = Some(governor);
    }

    pub(super) fn report_step(&self, plan: &Plan, begun: Duration) {
        let Some(governor) = &self.governor else { return };
        let seconds = self.clock.now().saturating_sub(begun).as_secs_f64();
        let (kv, full_kv) = self.kv_bytes(plan);
        let weights = self.weights.bytes_of_a_step() as u64;
        governor.observe(&Traffic {
            rows: plan.rows().len(),
            bytes: weights + kv,
            full_bytes: weights + full_kv,
            seconds,
        });
    }

    /// Bytes of keys and values that the plan's rows read, as they are and as f16. Rows of a sequence read them
    /// together. Windows are left out: layers with one are counted as if they had none.
    fn kv_bytes(&self, plan: &Plan) -> (u64, u64) {
        let of_block =
            [Form::Half(KvPrecision::F16), Form::Sealed(KvPrecision::Q8), Form::Sealed(KvPrecision::Q4)]
                .map(|form| self.block_read_bytes(form));
        let mut sums = (0, 0);
        let mut counted = usize::MAX;
        for row in plan.rows() {
            if row.sequence as usize == counted {
                continue;
            }
            counted = row.sequence as usize;
            for &block in plan.blocks_of(row.sequence) {
                sums.1 += of_block[0];
                sums.0 += match self.forms.of(block) {
                    Form::Half(_) => of_block[0],
                    Form::Sealed(KvPrecision::Q8) => of_block[1],
                    Form::Sealed(_) => of_block[2],
                };
            }
        }
        sums
    }

    fn block_read_bytes(&self, form: Form) -> u64 {
        let layers = self.layout.layers.iter().enumerate().filter(|(_, layer)| layer.kv_heads > 0);
        let bytes = layers.map(|(index, layer)| {
            let of_head = match form {
                Form::Half(_) => 2 * 2 * BLOCK_TOKENS * layer.head_dim,
                Form::Sealed(precision) => {
                    let bytes = kind(precision, self.is_edge(index)) == 1;
                    let bits = if bytes { CodeBits::Eight } else { CodeBits::Four };
                    let (keys, values) = sealed_bytes(bits, layer.head_dim);
                    keys + values
                }
            };
            (layer.kv_heads * of_head) as u64
        });
        bytes.sum()
    }
}

/// Bytes a second at which the device reads memory.
fn peak<D: Device>(queue: &mut Queue<D>, clock: &dyn Clock, bytes: usize) -> Result<f64, CudaError> {
    let words = queue.0.allocate(bytes)?;
    let blocks = (bytes / 16 / 1024).min(PEAK_BLOCKS);
    let out = match queue.0.allocate(blocks * 256 * size_of::<u32>()) {
        Ok(out) => out,
        Err(error) => {
            queue.0.free(words);
            return Err(error);
        }
    };
    let mut read = || {
        queue.0.clear(words, bytes)?;
        queue.0.probe()?;
        let mut fastest = f64::INFINITY;
        for _ in 0..PEAK_PASSES {
            let begun = clock.now();
            for _ in 0..PEAK_READS {
                queue.read_words(words, bytes / 16, out, blocks)?;
            }
            queue.0.probe()?;
            fastest = fastest.min(clock.now().saturating_sub(begun).as_secs_f64() / f64::from(PEAK_READS));
        }
        Ok(bytes as f64 / fastest)
    };
    let found = read();
    queue.0.free(out);
    queue.0.free(words);
    found
}
