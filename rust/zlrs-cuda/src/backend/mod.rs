//! The model on a device: the CPU backend's steps, launched as kernels.
//!
//! Kernels keep the CPU's order of every floating-point operation, so logits are its bits. All memory is taken when
//! the backend is made, but for block tables larger than any before.

mod attend;
mod buffers;
mod feed;
mod forms;
mod governed;
mod state;
mod tables;

use zlrs_engine::LayerParts;
use zlrs_engine::backend::{Backend, BackendError, Held, Shape};
use zlrs_engine::clock::{Clock, SystemClock};
use zlrs_engine::cpu::kv_layout;
use zlrs_engine::governor::{Governor, Sensor};
use zlrs_engine::kv::BLOCK_TOKENS;
use zlrs_engine::plan::{Blocks, CHUNK_ROWS, Drafts, Heads, KvPrecision, Layers, Plan};
use zlrs_kernels::{KernelError, KvLayout, RopeTable};
use zlrs_model::decoder::Decoder;
use zlrs_model::source::TensorSource;

use self::buffers::Buffers;
use self::forms::Forms;
use self::tables::Tables;
use crate::queue::{KvPlace, Queue};
use crate::weights::{AttentionWeights, LoadError, Matrix, MlpWeights, Weights};
use crate::{Address, CudaError, Device};

/// Weights, KV memory and working memory on one device. Deterministic: the logits of a row depend on the tokens
/// before it and on the weights alone.
pub struct CudaBackend<D: Device> {
    queue: Queue<D>,
    decoder: Decoder,
    weights: Weights,
    ropes: Vec<Rope>,
    layout: KvLayout,
    arena: Address,
    buffers: Buffers,
    tables: Tables,
    forms: Forms,
    clock: SystemClock,
    governor: Option<Governor>,
    sensor: Option<Box<dyn Sensor>>,
    peak_bytes: [usize; 2],
    logits: Vec<f32>,
    logits_bytes: Vec<u8>,
    shape: Shape,
}

/// Angles of all positions: cosines, then sines, `half` each.
#[derive(Debug, Clone, Copy)]
struct Rope {
    table: Address,
    half: usize,
}

impl<D: Device> CudaBackend<D> {
    /// A backend for sequences of up to `context_tokens` tokens with `blocks` blocks of KV memory, its weights read
    /// from `source`; `progress(done, total)` is told bytes of it. O(weights).
    ///
    /// # Errors
    /// [`LoadError`]: [`CudaError::OutOfMemory`] in it when weights, KV and working memory do not fit the device.
    pub fn new(
        mut device: D,
        decoder: Decoder,
        source: &dyn TensorSource,
        context_tokens: usize,
        blocks: usize,
        progress: &dyn Fn(u64, u64),
    ) -> Result<Self, LoadError> {
        let layout = kv_layout(&decoder)?;
        let arena_bytes = layout.block_bytes().saturating_mul(blocks);
        let arena = device.allocate(arena_bytes.max(1))?;
        // A saved block holds what was stored and zeros, never what the memory held before.
        device.clear(arena, arena_bytes)?;
        let mut ropes = Vec::with_capacity(decoder.ropes.len());
        for parameters in &decoder.ropes {
            ropes.push(upload_rope(&mut device, &RopeTable::new(parameters, context_tokens)?)?);
        }
        let buffers = Buffers::new(&mut device, &decoder, CHUNK_ROWS)?;
        let tables = Tables::new(&mut device, &decoder, context_tokens)?;
        let weights = Weights::load(&mut device, &decoder, source, progress)?;
        let shape = Shape {
            vocabulary: decoder.vocabulary,
            context_tokens,
            block_bytes: layout.block_bytes(),
            blocks,
            max_rows: CHUNK_ROWS,
        };
        let queue = Queue(device);
        let (logits, logits_bytes) = (Vec::new(), Vec::new());
        Ok(Self {
            queue,
            decoder,
            weights,
            ropes,
            layout,
            arena,
            buffers,
            tables,
            forms: Forms::new(blocks),
            clock: SystemClock::default(),
            governor: None,
            sensor: None,
            peak_bytes: governed::PEAK_BYTES,
            logits,
            logits_bytes,
            shape,
        })
    }

    /// What the model computes.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Refuses what cannot be computed before anything is written.
    fn check(&self, plan: &Plan) -> Result<(), BackendError> {
        // Exhaustive on purpose: a new way to skip work must be taught here before it can be planned.
        let (Layers::All, Heads::All, Blocks::All) = (plan.layers, plan.heads, plan.blocks) else {
            return Err(BackendError::Plan { what: "this device computes whole layers only".to_owned() });
        };
        let (Drafts::None | Drafts::Chain) = plan.drafts else {
            return Err(BackendError::Plan {
                what: "this device verifies chains of guesses only".to_owned(),
            });
        };
        let refuse = |what: String| Err(BackendError::Plan { what });
        if plan.kv_precision != KvPrecision::F16 && !self.can_seal() {
            return refuse("keys and values of less than f16 need heads of a multiple of 8".to_owned());
        }
        if plan.rows().len() > self.shape.max_rows {
            return refuse(format!("{} rows, at most {} fit", plan.rows().len(), self.shape.max_rows));
        }
        for row in plan.rows() {
            if row.sequence as usize >= plan.sequences() {
                return refuse(format!("a row of sequence {}, of {}", row.sequence, plan.sequences()));
            }
            let table = plan.blocks_of(row.sequence);
            let room = (table.len() * BLOCK_TOKENS).min(self.shape.context_tokens);
            if row.position as usize >= room {
                return refuse(format!("position {} of a sequence with room for {room}", row.position));
            }
            if row.token as usize >= self.shape.vocabulary {
                return refuse(format!("token {} of {}", row.token, self.shape.vocabulary));
            }
        }
        for sequence in 0..plan.sequences() as u32 {
            plan.blocks_of(sequence).iter().try_for_each(|&block| self.block_exists(block))?;
        }
        plan.copies().iter().try_for_each(|copy| {
            self.block_exists(copy.from)?;
            self.block_exists(copy.to)
        })?;
        Ok(())
    }

    fn block_exists(&self, block: u32) -> Result<(), KernelError> {
        if (block as usize) < self.shape.blocks {
            return Ok(());
        }
        Err(KernelError::OutOfRange { what: "KV block", given: block as usize, limit: self.shape.blocks })
    }

    fn block(&self, block: u32) -> Result<Address, KernelError> {
        self.block_exists(block)?;
        Ok(self.arena.offset(block as usize * self.shape.block_bytes))
    }

    /// Whether blocks can be stored in less than f16.
    fn can_seal(&self) -> bool {
        self.layout.layers.iter().all(|layer| layer.head_dim.is_multiple_of(8))
    }

    /// A layer's place in the arena; layers without attention have none.
    fn place(&self, layer: usize) -> KvPlace {
        let place = self.layout.layers[layer];
        KvPlace {
            arena: self.arena,
            block_len: self.layout.block_len,
            key_offset: place.key_offset,
            value_offset: place.value_offset,
            kv_heads: place.kv_heads,
            head_dim: place.head_dim,
        }
    }

    /// Products of the same rows `x`, which are made for each kind of block once.
    fn products(
        &mut self,
        x: Address,
        rows: usize,
        products: &[(Matrix, Address, Address)],
    ) -> Result<(), CudaError> {
        let mut made_for = 0;
        for (matrix, bias, out) in products {
            let block = matrix.tensor_type.block_len();
            if !matrix.tensor_type.is_float() && block != made_for {
                self.queue.quantise(x, &self.buffers.quantised, rows, matrix.cols, block)?;
                made_for = block;
            }
            self.queue.product(matrix, x, &self.buffers.quantised, *bias, *out, rows)?;
        }
        Ok(())
    }

    /// `hidden += branch`, or its norm where there is one.
    fn add_branch(&mut self, norm: Address, hidden: Address, rows: usize) -> Result<(), CudaError> {
        let (width, branch) = (self.decoder.width, self.buffers.branch);
        if norm != Address::default() {
            self.queue.rms_norm(branch, norm, branch, rows, width, self.decoder.norm_epsilon)?;
        }
        self.queue.add(branch, hidden, rows * width)
    }

    /// The logits of the plan's wanted rows, from `hidden` of the rows that went on.
    fn head(&mut self, hidden: Address, wanted: usize) -> Result<(), CudaError> {
        let (width, vocabulary) = (self.decoder.width, self.shape.vocabulary);
        self.logits.resize(self.logits.len().max(wanted * vocabulary), 0.0);
        let Buffers { branch, normed, logits, .. } = self.buffers;
        self.queue.gather(hidden, self.tables.places().head_rows, branch, wanted, width)?;
        let norm = self.weights.output_norm;
        self.queue.rms_norm(branch, norm, normed, wanted, width, self.decoder.norm_epsilon)?;
        let head = *self.weights.head();
        self.products(normed, wanted, &[(head, Address::default(), logits)])?;
        if let Some(cap) = self.decoder.logit_softcap {
            self.queue.softcap(logits, cap, wanted * vocabulary)?;
        }
        let bytes = wanted * vocabulary * size_of::<f32>();
        self.logits_bytes.resize(self.logits_bytes.len().max(bytes), 0);
        self.queue.0.download(logits, &mut self.logits_bytes[..bytes])?;
        for (logit, bytes) in self.logits.iter_mut().zip(self.logits_bytes[..bytes].chunks_exact(4)) {
            *logit = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        Ok(())
    }
}

impl<D: Device> Backend for CudaBackend<D> {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn step(&mut self, plan: &Plan, interrupt: &dyn Fn() -> bool) -> Result<&[f32], BackendError> {
        self.check(plan)?;
        let begun = self.clock.now();
        self.forms.prepare(plan);
        if let Err(error) = self.tables.fill(&mut self.queue.0, plan, &self.forms) {
            self.forms.take_back();
            return Err(error.into());
        }
        let places = *self.tables.places();
        for index in 0..plan.copies().len() {
            let (from, to) = (places.copies_from.offset(4 * index), places.copies_to.offset(4 * index));
            self.queue.copy_block(self.arena, self.layout.block_len, from, to)?;
        }
        self.change_forms()?;
        let rows = plan.rows().len();
        let (embedding, factor) = (self.weights.embedding, self.decoder.embedding_scale);
        let mut hidden = self.buffers.hidden;
        self.queue.embed(&embedding, places.ids, rows, factor, hidden)?;
        let layers = self.decoder.layers.len();
        for layer in 0..layers {
            if interrupt() {
                return Err(BackendError::Interrupted);
            }
            let live;
            (hidden, live) = self.attend(plan, layer, layer + 1 == layers)?;
            self.feed(hidden, live, layer)?;
        }
        let wanted = plan.logits_rows();
        if wanted > 0 {
            self.head(hidden, wanted)?;
        } else {
            // Until it has been computed: a step that only was asked for tells nobody what it costs, and could not
            // be cut short.
            self.queue.0.probe()?;
        }
        self.report_step(plan, begun);
        Ok(&self.logits[..wanted * self.shape.vocabulary])
    }

    fn read_block(&self, block: u32, out: &mut Vec<u8>) -> Result<(), BackendError> {
        self.read_state(block, out)
    }

    fn write_block(&mut self, block: u32, bytes: &[u8]) -> Result<(), BackendError> {
        self.write_state(block, bytes)
    }

    fn recover(&mut self) -> Result<(), BackendError> {
        // Nothing of a step outlives it but the device's own state.
        Ok(self.queue.0.probe()?)
    }

    fn govern(&mut self, governor: Governor) {
        self.govern_by(governor);
    }

    fn held(&self) -> Held {
        let parts = self.decoder.layers.iter().zip(&self.weights.layers).map(|(layer, (attention, mlp))| {
            LayerParts::new(
                layer,
                attention.as_ref().map_or(0, AttentionWeights::bytes),
                mlp.as_ref().map_or(0, MlpWeights::bytes),
            )
        });
        Held { weight_bytes: self.weights.bytes(), parts: parts.collect() }
    }
}

fn upload_rope<D: Device>(device: &mut D, table: &RopeTable) -> Result<Rope, CudaError> {
    let memory = device.allocate(table.bytes())?;
    let row = table.dimensions() * size_of::<f32>();
    let mut bytes = Vec::new();
    for position in 0..table.positions() {
        if let Some((cos, sin)) = table.at(position as u32) {
            bytes.extend(cos.iter().chain(sin).flat_map(|value| value.to_le_bytes()));
        }
        if bytes.len() >= 1 << 20 || position + 1 == table.positions() {
            let end = (position + 1) * row;
            device.upload(&bytes, memory.offset(end - bytes.len()))?;
            bytes.clear();
        }
    }
    Ok(Rope { table: memory, half: table.dimensions() / 2 })
}
