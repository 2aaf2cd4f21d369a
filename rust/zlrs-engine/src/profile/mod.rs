//! What the parts of a model do, measured: what each adds, and what is lost without it.
//!
//! A [`Meter`] holds one full model and no scheduler. It computes texts once as they are, keeps the logits of some
//! rows, and computes them again without the parts of a mask. Masks that are measured one after the other have most
//! layers in common: the meter can keep what one of them reaches before every layer ([`Meter::trace`]) and computes
//! others from the first layer on in which they differ from it.

mod harm;
mod neurons;
mod observation;
mod window;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

pub use harm::Harm;
pub use neurons::Reach;
pub use observation::{LayerObservation, Observation, PartObservation};

use zlrs_kernels::{Isa, Pool};
use zlrs_model::decoder::Decoder;
use zlrs_model::gguf::File;
use zlrs_model::mask::Mask;
use zlrs_model::tokenizer::{Segment, Tokenizer};
use zlrs_model::weights::Weights;

use self::observation::Recorder;
use self::window::Window;
use crate::alone::Opened;
use crate::cpu::CpuBackend;
use crate::engine::{LayerParts, parts, sha256_of};
use crate::{Compute, EngineError};

/// Most bytes of logits that a meter keeps.
pub const KEPT_LOGITS_BYTES: usize = 2 << 30;

/// Most bytes of hidden states that a meter keeps; texts beyond are computed from their first layer on.
pub const KEPT_HIDDEN_BYTES: usize = 2 << 30;

/// A model under measurement.
pub struct Meter {
    file: File,
    full: Decoder,
    tokenizer: Tokenizer,
    backend: CpuBackend,
    parts: Vec<LayerParts>,
    weight_bytes: usize,
    token_bytes: usize,
    window_tokens: usize,
    windows: Vec<Window>,
    /// A row is kept after every so many tokens, and after the last.
    every: usize,
    /// What the texts are compared with, and the neurons of which are counted: nothing left out unless told otherwise.
    base: Mask,
    /// What the kept hidden states were computed with.
    traced: Mask,
    /// Layers that were computed since the load, over all texts: what the measuring cost.
    computed_layers: usize,
}

impl Meter {
    /// Reads a model for texts of up to `window_tokens` tokens each. O(file).
    ///
    /// # Errors
    /// As [`Engine::load`](crate::Engine::load).
    pub fn load(path: &Path, threads: Option<usize>, window_tokens: usize) -> Result<Self, EngineError> {
        let opened = Opened::open(path, threads, 2, window_tokens)?;
        let full = opened.full.clone();
        let weights = opened.weights(&full)?;
        let (parts, weight_bytes) = (parts(&full, &weights), weights.bytes());
        let token_bytes = weights.head().bytes()
            + parts.iter().map(|part| part.attention_bytes + part.mlp_bytes).sum::<usize>();
        let (file, tokenizer, backend) = opened.compute(full.clone(), weights)?;
        let base = Mask::empty(&full, [0; 32]);
        let traced = base.clone();
        Ok(Self {
            file,
            full,
            tokenizer,
            backend,
            parts,
            weight_bytes,
            token_bytes,
            window_tokens,
            windows: Vec::new(),
            every: 1,
            base,
            traced,
            computed_layers: 0,
        })
    }

    /// Tokens of a text, as the model gets them.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode_prompt(&[Segment::text(text)])
    }

    /// A mask that leaves nothing out.
    ///
    /// # Errors
    /// [`EngineError::Model`] if the file cannot be read any more.
    pub fn empty_mask(&self) -> Result<Mask, EngineError> {
        Ok(Mask::empty(&self.full, sha256_of(&self.file)?))
    }

    /// What each layer of the full model holds.
    pub fn parts(&self) -> &[LayerParts] {
        &self.parts
    }

    /// Logits in a row.
    pub fn vocabulary(&self) -> usize {
        self.full.vocabulary
    }

    /// Bytes of all packed weights.
    pub fn weight_bytes(&self) -> usize {
        self.weight_bytes
    }

    /// Bytes of packed weights that are read for one decoded token: all layers and the head.
    pub fn token_bytes(&self) -> usize {
        self.token_bytes
    }

    /// What each layer would hold with a mask, and the bytes of packed weights, by loading it. O(file).
    ///
    /// # Errors
    /// Those of [`Mask::compile`] and of the load.
    pub fn compiled(&self, mask: &Mask) -> Result<(Vec<LayerParts>, usize), EngineError> {
        let decoder = mask.compile(&self.full, &self.file)?;
        let weights = Weights::load(&decoder, &self.file, Isa::select()?, &Pool::new(1)?, &|_, _| {})?;
        Ok((parts(&decoder, &weights), weights.bytes()))
    }

    /// From now on the model without the parts of a mask stands for the full one in [`Meter::reference`],
    /// [`Meter::gate_thresholds`], [`Meter::gate_reach`] and [`Meter::measure_neurons`]: the bits are those of a load
    /// with the mask. Texts that were kept are forgotten.
    ///
    /// # Errors
    /// [`EngineError::Model`] for a mask of another model.
    pub fn leave_out(&mut self, mask: &Mask) -> Result<(), EngineError> {
        mask.check_weights(sha256_of(&self.file)?)?;
        mask.check(&self.full)?;
        self.windows.clear();
        self.base = mask.clone();
        Ok(())
    }

    /// Computes the texts with the full model and keeps its logits after every `every`-th token, and after each
    /// text's last. Replaces the texts of the last call.
    ///
    /// # Errors
    /// [`EngineError::Option`] for texts that are too long or too many and an `every` of 0,
    /// [`EngineError::UnknownToken`], [`EngineError::Step`].
    pub fn reference(&mut self, windows: Vec<Vec<u32>>, every: usize) -> Result<(), EngineError> {
        if every == 0 {
            return Err(EngineError::Option { name: "every", given: 0, allowed: "at least 1".into() });
        }
        let vocabulary = self.full.vocabulary;
        let rows: usize = windows.iter().map(|ids| ids.len().div_ceil(every)).sum();
        let most = KEPT_LOGITS_BYTES / (vocabulary * size_of::<f32>());
        if rows > most {
            let allowed = format!("0 to {most}; give less text, or keep fewer of its rows");
            return Err(EngineError::Option { name: "rows to keep", given: rows, allowed });
        }
        for ids in &windows {
            if !(2..=self.window_tokens).contains(&ids.len()) {
                let allowed = format!("2 to {}", self.window_tokens);
                return Err(EngineError::Option { name: "tokens of a text", given: ids.len(), allowed });
            }
            if let Some(index) = ids.iter().position(|&id| id as usize >= vocabulary) {
                return Err(EngineError::UnknownToken { index, id: ids[index], vocabulary });
            }
        }
        self.windows.clear();
        self.every = every;
        self.backend.ablate(&self.full, &self.base)?;
        for ids in windows {
            let mut window = Window::new(ids);
            window.keep_rows(&mut self.backend, every)?;
            self.computed_layers += self.full.layers.len();
            self.windows.push(window);
        }
        Ok(())
    }

    /// Computes some of the texts without the parts of the mask and keeps what they reach before every layer, so
    /// that masks which differ from this one in later layers only are measured from there. Replaces what was kept,
    /// up to [`KEPT_HIDDEN_BYTES`]; `windows` that do not fit are left.
    ///
    /// # Errors
    /// As [`Meter::measure`].
    pub fn trace(&mut self, mask: &Mask, windows: &[usize]) -> Result<(), EngineError> {
        self.windows.iter_mut().for_each(Window::forget);
        self.backend.ablate(&self.full, mask)?;
        self.traced = mask.clone();
        let (layers, width) = (self.full.layers.len(), self.full.width);
        let mut room = KEPT_HIDDEN_BYTES;
        for &index in windows {
            let Some(window) = self.windows.get_mut(index) else { continue };
            let bytes = layers * width * window.tokens() * size_of::<f32>();
            if bytes > room {
                break;
            }
            room -= bytes;
            window.keep_hidden(&mut self.backend)?;
            self.computed_layers += layers;
        }
        Ok(())
    }

    /// Computes the texts again without the parts of the mask: what each kept row loses, by text. From the first
    /// layer on that differs from the mask of [`Meter::trace`], for the texts that it kept; the figures are the
    /// same bits.
    ///
    /// # Errors
    /// [`EngineError::Model`] for a mask of another model, [`EngineError::Step`].
    pub fn measure(&mut self, mask: &Mask, windows: &[usize]) -> Result<Vec<Vec<Harm>>, EngineError> {
        self.backend.ablate(&self.full, mask)?;
        let layers = self.full.layers.len();
        let same = mask.layers.iter().zip(&self.traced.layers).take_while(|(a, b)| a == b).count();
        // Logits are computed even if nothing differs.
        let first = same.min(layers - 1);
        let mut all = Vec::new();
        for window in windows.iter().filter_map(|&index| self.windows.get(index)) {
            let first = if window.has_hidden() { first } else { 0 };
            all.push(window.harms(&mut self.backend, self.every, first, Compute::Exact)?);
            self.computed_layers += layers - first;
        }
        Ok(all)
    }

    /// Layers computed since the load, over all texts: what the measuring cost.
    pub fn computed_layers(&self) -> usize {
        self.computed_layers
    }

    /// Computes some of the texts with the full model and sums up what every part adds.
    ///
    /// # Errors
    /// [`EngineError::Step`].
    pub fn observe(&mut self, windows: &[usize]) -> Result<Observation, EngineError> {
        self.backend.ablate(&self.full, &Mask::empty(&self.full, [0; 32]))?;
        let observation = Arc::new(Mutex::new(Observation::new(&self.full)));
        self.backend.observe(Some(Box::new(Recorder::new(Arc::clone(&observation), self.full.width))));
        let result = windows
            .iter()
            .filter_map(|&index| self.windows.get(index))
            .try_for_each(|window| window.pass(&mut self.backend));
        self.backend.observe(None);
        result?;
        let observation = observation.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(observation.clone())
    }
}
