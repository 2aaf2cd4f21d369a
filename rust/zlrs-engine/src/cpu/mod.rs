//! The model on this machine's processor.

mod attend;
mod buffers;
mod draft;
mod feed;
mod leave;
mod memory;
mod neurons;
mod observe;
mod resume;
mod rows;

use std::sync::{Arc, Mutex, PoisonError};

use zlrs_kernels::{Isa, KernelError, KvLayout, Pool, RopeTable, matmul, rms_norm, scale, softcap};
use zlrs_model::ModelError;
use zlrs_model::decoder::Decoder;
use zlrs_model::mask::Mask;
use zlrs_model::weights::Weights;

use self::buffers::Buffers;
use self::draft::Draft;
use self::leave::Exits;
pub(crate) use self::leave::first_choice;
pub use self::leave::{Record, Sample};
use self::memory::KvMemory;
pub use self::observe::Observer;
pub use self::resume::SeeHidden;
use crate::backend::{Backend, BackendError, Shape};
use crate::exit::RowTrace;
use crate::kv::BLOCK_TOKENS;
use crate::plan::{Blocks, CHUNK_ROWS, Drafts, Heads, KvPrecision, Layers, Plan};

/// Weights, KV memory, working memory and threads. Deterministic: the logits of a row depend on the tokens
/// before it and on the weights alone.
pub struct CpuBackend {
    decoder: Decoder,
    weights: Weights,
    ropes: Vec<RopeTable>,
    memory: KvMemory,
    buffers: Buffers,
    machine: Machine,
    shape: Shape,
    /// What drafts are computed with.
    draft: Option<Draft>,
    /// Lets rows leave before the last layer.
    exits: Exits,
    /// Thresholds by layer of what aggressive rows take as 0.
    neurons: Option<Vec<f32>>,
    /// Sees what every part adds; none in an engine that serves.
    observer: Option<Box<dyn Observer>>,
    /// Where the last states of a step are left for heads that read them.
    states: Option<Arc<Mutex<Vec<f32>>>>,
}

/// Where kernels run.
#[derive(Debug)]
struct Machine {
    pool: Arc<Pool>,
    isa: Isa,
}

/// How keys and values of a model lie in a block.
///
/// # Errors
/// [`KernelError`] when a block would exceed the address space.
pub fn kv_layout(decoder: &Decoder) -> Result<KvLayout, KernelError> {
    let heads = |layer: &zlrs_model::decoder::Layer| {
        layer.attention.as_ref().map_or((0, 0), |attention| (attention.kv_heads, attention.head_dim))
    };
    KvLayout::new(&decoder.layers.iter().map(heads).collect::<Vec<_>>())
}

impl CpuBackend {
    /// A backend for sequences of up to `context_tokens` tokens with `blocks` blocks of KV memory. `isa` is the
    /// one the weights were packed for.
    ///
    /// # Errors
    /// [`KernelError`] when memory is short or a RoPE parameter is out of range.
    pub fn new(
        decoder: Decoder,
        weights: Weights,
        isa: Isa,
        pool: Pool,
        context_tokens: usize,
        blocks: usize,
    ) -> Result<Self, KernelError> {
        let ropes = decoder
            .ropes
            .iter()
            .map(|parameters| RopeTable::new(parameters, context_tokens))
            .collect::<Result<_, _>>()?;
        let memory = KvMemory::new(kv_layout(&decoder)?, blocks)?;
        let shape = Shape {
            vocabulary: decoder.vocabulary,
            context_tokens,
            block_bytes: memory.layout.block_bytes(),
            blocks,
            max_rows: CHUNK_ROWS,
        };
        let buffers = Buffers::new(&decoder, shape.max_rows);
        let machine = Machine { pool: Arc::new(pool), isa };
        let (draft, neurons, exits) = (None, None, Exits::default());
        Ok(Self {
            decoder,
            weights,
            ropes,
            memory,
            buffers,
            machine,
            shape,
            draft,
            neurons,
            exits,
            observer: None,
            states: None,
        })
    }

    /// What the model computes.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// From now on computes `full`, the description its weights were loaded with, without the parts that `mask`
    /// leaves out; the weights stay in memory. For measuring what a mask does.
    ///
    /// # Errors
    /// Those of [`Mask::ablate`].
    pub fn ablate(&mut self, full: &Decoder, mask: &Mask) -> Result<(), ModelError> {
        self.decoder = mask.ablate(full)?;
        Ok(())
    }

    /// From now on shows an observer what every part adds, or nobody.
    pub fn observe(&mut self, observer: Option<Box<dyn Observer>>) {
        self.observer = observer;
    }

    /// Refuses what cannot be computed before anything is written.
    fn check(&self, plan: &Plan) -> Result<(), BackendError> {
        // Exhaustive on purpose: a new way to skip work must be taught here before it can be planned.
        let (Layers::All | Layers::Draft, Heads::All, Blocks::All) = (plan.layers, plan.heads, plan.blocks);
        let (Drafts::None | Drafts::Chain) = plan.drafts;
        let refuse = |what: String| Err(BackendError::Plan { what });
        if plan.layers == Layers::Draft && self.draft.is_none() {
            return refuse("drafts, of a model that has nothing to draft with".to_owned());
        }
        match plan.kv_precision {
            KvPrecision::F16 => {}
            KvPrecision::Q8 | KvPrecision::Q4 => {
                return refuse("the processor stores keys and values as f16".to_owned());
            }
        }
        if plan.rows().len() > self.shape.max_rows {
            return refuse(format!("{} rows, at most {} fit", plan.rows().len(), self.shape.max_rows));
        }
        for row in plan.rows() {
            if row.sequence as usize >= plan.sequences() {
                return refuse(format!("a row of sequence {}, of {}", row.sequence, plan.sequences()));
            }
            let blocks = plan.blocks_of(row.sequence);
            let room = (blocks.len() * BLOCK_TOKENS).min(self.shape.context_tokens);
            if row.position as usize >= room {
                return refuse(format!("position {} of a sequence with room for {room}", row.position));
            }
            if row.token as usize >= self.shape.vocabulary {
                return refuse(format!("token {} of {}", row.token, self.shape.vocabulary));
            }
        }
        Ok(())
    }

    /// The embeddings of the rows.
    fn embed(&mut self, plan: &Plan) -> Result<(), KernelError> {
        let hidden = self.buffers.hidden.chunks_exact_mut(self.decoder.width);
        for (row, hidden) in plan.rows().iter().zip(hidden) {
            self.weights.embedding.decode_row(row.token as usize, hidden)?;
            if self.decoder.embedding_scale != 1.0 {
                scale(self.machine.isa, self.decoder.embedding_scale, hidden);
            }
        }
        Ok(())
    }

    /// The rows of `hidden`, none of which has left.
    fn begin(&mut self, plan: &Plan) {
        self.buffers.rows.clear();
        self.buffers.rows.extend_from_slice(plan.rows());
        self.begin_exits(plan);
    }

    /// The logits of the rows that want them. Of `hidden`, `live` rows are there: those that want logits if some were
    /// left behind, else all that have not left.
    fn head(&mut self, plan: &Plan, live: usize) -> Result<usize, KernelError> {
        let width = self.decoder.width;
        let holds_others = live == self.buffers.rows.len();
        let (mut wanted, mut place) = (0, 0);
        for (index, row) in plan.rows().iter().enumerate() {
            let left_with = self.exits.left_with(index, width);
            let stays = left_with.is_none();
            if row.wants_logits {
                let hidden = left_with.unwrap_or_else(|| &self.buffers.hidden[place * width..][..width]);
                let normed = &mut self.buffers.branch[wanted * width..][..width];
                let norm = &self.weights.output_norm;
                rms_norm(self.machine.isa, hidden, norm, self.decoder.norm_epsilon, normed);
                wanted += 1;
            }
            place += usize::from(stays && (row.wants_logits || holds_others));
        }
        if let Some(states) = &self.states {
            let mut states = states.lock().unwrap_or_else(PoisonError::into_inner);
            states.clear();
            states.extend_from_slice(&self.buffers.branch[..wanted * width]);
        }
        let drafts = self.draft.is_some() && plan.layers == Layers::Draft;
        self.logits_of(wanted, drafts)
    }

    /// The logits of the first rows of `branch`, which are normed, by the whole head or that of drafts; how many
    /// values they are.
    fn logits_of(&mut self, wanted: usize, drafts: bool) -> Result<usize, KernelError> {
        let width = self.decoder.width;
        let head = match &self.draft {
            Some(draft) if drafts => &draft.head,
            _ => self.weights.head(),
        };
        let length = wanted * head.rows();
        if self.buffers.logits.len() < length {
            self.buffers.logits.resize(length, 0.0);
        }
        if wanted > 0 {
            let logits = &mut self.buffers.logits[..length];
            let normed = &self.buffers.branch[..wanted * width];
            matmul(&self.machine.pool, head, normed, wanted, None, logits, &mut self.buffers.scratch)?;
            if let Some(cap) = self.decoder.logit_softcap {
                softcap(self.machine.isa, cap, logits);
            }
        }
        Ok(length)
    }
}

impl Backend for CpuBackend {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn step(&mut self, plan: &Plan, interrupt: &dyn Fn() -> bool) -> Result<&[f32], BackendError> {
        self.check(plan)?;
        for copy in plan.copies() {
            self.memory.copy(copy)?;
        }
        self.embed(plan)?;
        self.begin(plan);
        let mut live = plan.rows().len();
        for layer in 0..self.decoder.layers.len() {
            if interrupt() {
                return Err(BackendError::Interrupted);
            }
            self.probe(plan, layer)?;
            self.fill(plan, layer)?;
            live = self.buffers.rows.len();
            if live > 0 {
                live = self.attend(plan, layer, layer + 1 == self.decoder.layers.len())?;
                self.feed(plan, live, layer)?;
            }
        }
        self.record_added();
        let length = self.head(plan, live)?;
        Ok(&self.buffers.logits[..length])
    }

    fn draft_vocabulary(&self) -> usize {
        self.draft.as_ref().map_or(0, |draft| draft.head.rows())
    }

    fn can_leave(&self) -> bool {
        self.has_active_exits()
    }

    fn can_skip(&self) -> bool {
        self.neurons.is_some() || self.can_leave()
    }

    fn traces(&self) -> &[RowTrace] {
        self.exit_traces()
    }

    fn read_block(&self, block: u32, out: &mut Vec<u8>) -> Result<(), BackendError> {
        Ok(self.memory.read(block, out)?)
    }

    fn write_block(&mut self, block: u32, bytes: &[u8]) -> Result<(), BackendError> {
        Ok(self.memory.write(block, bytes)?)
    }

    fn state_width(&self) -> Option<usize> {
        Some(self.decoder.width)
    }

    fn keep_states(&mut self, states: Option<Arc<Mutex<Vec<f32>>>>) {
        self.states = states;
    }

    fn pool(&self) -> Option<Arc<Pool>> {
        Some(Arc::clone(&self.machine.pool))
    }

    fn recover(&mut self) -> Result<(), BackendError> {
        // The old pool may be poisoned: its threads are joined when it is dropped.
        self.machine.pool = Arc::new(Pool::new(self.machine.pool.threads())?);
        Ok(())
    }
}
