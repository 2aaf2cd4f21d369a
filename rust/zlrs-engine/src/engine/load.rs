//! From a file to a running engine.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use zlrs_kernels::{Isa, MAX_THREADS, Pool};
use zlrs_model::ModelError;
use zlrs_model::decoder::Decoder;
use zlrs_model::gguf::File;
use zlrs_model::mask::Mask;
use zlrs_model::neurons::Neurons;
use zlrs_model::template::ChatTemplate;
use zlrs_model::tokenizer::Tokenizer;
use zlrs_model::weights::Weights;

use super::facts::{MaskUse, multiply_adds, parts, zero_heads};
use super::identity::{mask_sum, sha256_of};
use super::{Engine, Facts, KvChoice};
use crate::EngineError;
use crate::alone::default_threads;
use crate::backend::{Accelerator, Backend, BackendError};
use crate::cpu::{CpuBackend, kv_layout};
use crate::draft::Drafting;
use crate::exit::{ExitError, ExitHeads};
use crate::kv::BLOCK_TOKENS;
use crate::plan::{CHUNK_ROWS, CHUNK_ROWS_BESIDE_DECODING, ExactPlanner};
use crate::scheduler::{RUNNING_LIMIT, Scheduler, SchedulerOptions};

/// Most bytes of KV memory an engine takes when the caller names neither context nor bytes: models with very
/// long windows then get a shorter one.
pub const DEFAULT_KV_BYTES_LIMIT: usize = 4 << 30;

/// Tokens that the model guesses by itself, unless told otherwise: of most tokenizers the commonest.
pub const DRAFT_VOCABULARY: usize = 32_768;

/// Where a model is computed.
#[derive(Clone, Copy, Default)]
pub enum DeviceChoice<'a> {
    /// On the processor.
    #[default]
    Processor,
    /// On the accelerator if it can be used, else on the processor; [`Facts::device_note`] then says why.
    Prefer(&'a dyn Accelerator),
    /// On the accelerator, or not at all.
    Require(&'a dyn Accelerator),
}

/// How to load. The default suits one engine that has the machine to itself.
pub struct LoadOptions<'progress> {
    /// Threads that compute, 1 to 512; by default as many as the process may use.
    pub threads: Option<usize>,
    /// Longest prompt and answer together, 2 to the model's own window, which is the default.
    pub context_tokens: Option<usize>,
    /// Hard limit of the KV memory; by default what one sequence of `context_tokens` needs. Memory is taken
    /// as it is first used.
    pub kv_bytes: Option<usize>,
    /// Most requests that may wait, at least 1.
    pub queue_limit: usize,
    /// Most prompt tokens computed in one step, 1 to 256. Less makes others wait less for a long prompt and the
    /// prompt itself wait longer; answers do not depend on it.
    pub chunk_tokens: usize,
    /// Whether tokens are guessed, to verify several in one step; answers do not depend on it. By default as
    /// far as it pays.
    pub drafting: Drafting,
    /// Whether the model guesses tokens by itself where there are no other guesses, with the parts that `draft_mask`
    /// leaves; answers do not depend on it. On the processor only.
    pub self_drafting: Drafting,
    /// Parts that are not computed while the model guesses; without it it does not.
    pub draft_mask: Option<&'progress Mask>,
    /// Only the first so many tokens are guessed, at least 1.
    pub draft_vocabulary: usize,
    /// Where the model is computed.
    pub device: DeviceChoice<'progress>,
    /// How keys and values of aggressive requests are stored on an accelerator; anything but f16 changes answers.
    pub kv: KvChoice,
    /// The instruction set; by default what `ZLRS_ISA` says, or the best there is.
    pub isa: Option<Isa>,
    /// Parts of the model to leave out: they get no weights and no KV memory and are not computed.
    pub mask: Option<&'progress Mask>,
    /// Heads that let rows of aggressive requests leave before the last layer.
    pub exits: Option<&'progress ExitHeads>,
    /// Thresholds under which neurons count for nothing in rows of aggressive requests.
    pub neurons: Option<&'progress Neurons>,
    /// Whether a mask or exit heads for other weights are left aside, and the full model loaded, in place of an error.
    pub mask_fallback: bool,
    /// Told bytes of weights read and in all, from any worker.
    pub progress: &'progress (dyn Fn(u64, u64) + Sync),
}

impl Default for LoadOptions<'_> {
    fn default() -> Self {
        Self {
            threads: None,
            context_tokens: None,
            kv_bytes: None,
            queue_limit: 64,
            chunk_tokens: CHUNK_ROWS,
            drafting: Drafting::Auto,
            self_drafting: Drafting::Off,
            draft_mask: None,
            draft_vocabulary: DRAFT_VOCABULARY,
            device: DeviceChoice::Processor,
            kv: KvChoice::default(),
            isa: None,
            mask: None,
            exits: None,
            neurons: None,
            mask_fallback: false,
            progress: &|_, _| {},
        }
    }
}

/// What is decided from options and model before weights are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    context_tokens: usize,
    blocks: usize,
}

impl Engine {
    /// Reads the model file and starts the engine thread. O(file); weights are read into the form kernels
    /// want, never twice in memory.
    ///
    /// # Errors
    /// [`EngineError::Model`] for the file, [`EngineError::Option`] for an option out of range,
    /// [`EngineError::Arena`] for a KV memory without a block, [`EngineError::Kernel`] for the machine,
    /// [`EngineError::Device`] and [`EngineError::DeviceFull`] for a required accelerator.
    pub fn load(path: &Path, options: &LoadOptions<'_>) -> Result<Self, EngineError> {
        let isa = options.isa.map_or_else(Isa::select, Isa::checked)?;
        let threads = match options.threads {
            Some(threads) => in_range("threads", threads, 1, MAX_THREADS)?,
            None => default_threads(),
        };
        let queue_limit = in_range("queue_limit", options.queue_limit, 1, usize::MAX)?;
        let chunk_rows = in_range("chunk_tokens", options.chunk_tokens, 1, CHUNK_ROWS)?;
        let file = File::open(path)?;
        let metadata = file.metadata();
        let tokenizer = Arc::new(Tokenizer::from_metadata(metadata)?);
        let template = match ChatTemplate::from_metadata(metadata, &tokenizer) {
            Err(ModelError::NoTemplate) => None,
            result => Some(result.map_err(|error| error.to_string())),
        };
        let full = Decoder::from_metadata(metadata, &file)?;
        let token_multiply_adds_full = multiply_adds(&full);
        let (decoder, mask_use) = masked(full, &file, options)?;
        let block_bytes = kv_layout(&decoder)?.block_bytes();
        let sizes = sizes(decoder.context_length, block_bytes, options)?;
        let mut facts = Facts::new(&file, &decoder, isa, threads, sizes.context_tokens);
        facts.mask = mask_use;
        facts.token_multiply_adds_full = token_multiply_adds_full;
        let used = options.mask.filter(|_| facts.mask == MaskUse::Used);
        let mask = used.map(mask_sum);
        let exits = exits(&decoder, &file, mask, options)?;
        let neurons = neurons(&decoder, &file, mask, options)?;
        let on_device = on_device(options, &decoder, &file, sizes, &mut facts)?;
        let on_processor = on_device.is_none();
        let mut backend: Box<dyn Backend> = if let Some(backend) = on_device {
            let held = backend.held();
            (facts.weight_bytes, facts.parts) = (held.weight_bytes, held.parts);
            backend
        } else {
            let pool = Pool::new(threads)?;
            let weights = Weights::load(&decoder, &file, isa, &pool, options.progress)?;
            facts.weight_bytes = weights.bytes();
            facts.parts = parts(&decoder, &weights);
            let (context_tokens, blocks) = (sizes.context_tokens, sizes.blocks);
            let mut backend = CpuBackend::new(decoder, weights, isa, pool, context_tokens, blocks)?;
            if let Some(mask) = options.draft_mask.filter(|_| options.self_drafting != Drafting::Off) {
                mask.check_weights(sha256_of(&file)?)?;
                backend.draft_with(
                    mask,
                    in_range("draft_vocabulary", options.draft_vocabulary, 1, usize::MAX)?,
                )?;
            }
            backend.install_exits(exits.cloned())?;
            backend.install_neurons(neurons);
            Box::new(backend)
        };
        file.check_unchanged()?;
        facts.zero_heads = used.map(zero_heads).unwrap_or_default();
        let planner = ExactPlanner {
            // A step has room for a token of everyone who is being answered.
            chunk_rows: chunk_rows.max(RUNNING_LIMIT),
            chunk_rows_beside_decoding: chunk_rows.min(CHUNK_ROWS_BESIDE_DECODING),
        };
        let kv = if on_processor { options.kv.on_processor(options.device)? } else { options.kv };
        facts.kv = kv;
        let (planner, governor) = kv.plan(Box::new(planner), &mut *backend);
        let (drafting, self_drafting) = (options.drafting, options.self_drafting);
        let options = SchedulerOptions {
            queue_limit,
            planner,
            lower_kv: !kv.is_exact(),
            drafting,
            self_drafting,
            ..SchedulerOptions::default()
        };
        let scheduler = Scheduler::start(backend, tokenizer.clone(), options)?;
        Ok(Self { scheduler, tokenizer, template, facts, governor, file, mask, identity: OnceLock::new() })
    }
}

/// The model that is left, and what became of the mask.
fn masked(full: Decoder, file: &File, options: &LoadOptions<'_>) -> Result<(Decoder, MaskUse), EngineError> {
    let Some(mask) = options.mask else { return Ok((full, MaskUse::None)) };
    let compiled =
        sha256_of(file).and_then(|sum| mask.check_weights(sum)).and_then(|()| mask.compile(&full, file));
    match compiled {
        Ok(decoder) => Ok((decoder, MaskUse::Used)),
        Err(error @ ModelError::MaskMismatch { .. }) if options.mask_fallback => {
            Ok((full, MaskUse::Refused(error.to_string())))
        }
        Err(error) => Err(error.into()),
    }
}

/// The exit heads, if they are for this model.
fn exits<'a>(
    decoder: &Decoder,
    file: &File,
    mask: Option<[u8; 32]>,
    options: &LoadOptions<'a>,
) -> Result<Option<&'a ExitHeads>, EngineError> {
    let Some(heads) = options.exits else { return Ok(None) };
    match heads.check(sha256_of(file)?, mask, [decoder.layers.len(), decoder.vocabulary, decoder.width]) {
        Ok(()) => Ok(Some(heads)),
        Err(ExitError::Mismatch { .. }) if options.mask_fallback => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The thresholds of neurons, if they are for this model.
fn neurons(
    decoder: &Decoder,
    file: &File,
    mask: Option<[u8; 32]>,
    options: &LoadOptions<'_>,
) -> Result<Option<Vec<f32>>, EngineError> {
    let Some(neurons) = options.neurons else { return Ok(None) };
    match neurons.check(sha256_of(file)?, mask, decoder.layers.len()) {
        Ok(()) => Ok(Some(neurons.thresholds.clone())),
        Err(ModelError::MaskMismatch { .. }) if options.mask_fallback => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The model on the accelerator of the options, if one is named and can be used.
fn on_device(
    options: &LoadOptions<'_>,
    decoder: &Decoder,
    file: &File,
    sizes: Sizes,
    facts: &mut Facts,
) -> Result<Option<Box<dyn Backend>>, EngineError> {
    let (accelerator, required) = match options.device {
        DeviceChoice::Processor => return Ok(None),
        DeviceChoice::Prefer(accelerator) => (accelerator, false),
        DeviceChoice::Require(accelerator) => (accelerator, true),
    };
    let name = accelerator.name();
    if facts.mask == MaskUse::Used || options.exits.is_some() || options.neurons.is_some() {
        // Accelerators compute whole parts for all rows.
        let message = "a mask, exit heads or thresholds are in use, and they run on the processor".to_owned();
        if required {
            return Err(EngineError::Device { name, message });
        }
        facts.device_note = Some(format!("{name} is not used: {message}"));
        return Ok(None);
    }
    match accelerator.open(decoder, file, sizes.context_tokens, sizes.blocks, &options.progress) {
        Ok(backend) => {
            facts.device = name;
            Ok(Some(backend))
        }
        Err(BackendError::DeviceFull(error)) if required => {
            Err(EngineError::DeviceFull { name, message: error.to_string() })
        }
        Err(error) if required => Err(EngineError::Device { name, message: error.to_string() }),
        Err(error) => {
            facts.device_note = Some(format!("{name} is not used: {error}"));
            Ok(None)
        }
    }
}

fn in_range(name: &'static str, given: usize, least: usize, most: usize) -> Result<usize, EngineError> {
    if (least..=most).contains(&given) {
        return Ok(given);
    }
    let allowed = if most == usize::MAX { format!("at least {least}") } else { format!("{least} to {most}") };
    Err(EngineError::Option { name, given, allowed })
}

fn sizes(window: usize, block_bytes: usize, options: &LoadOptions<'_>) -> Result<Sizes, EngineError> {
    let context_tokens = match options.context_tokens {
        Some(tokens) => in_range("context_tokens", tokens, 2, window)?,
        None => window,
    };
    let wanted = context_tokens.div_ceil(BLOCK_TOKENS);
    let affordable = |bytes: usize| bytes.checked_div(block_bytes).unwrap_or(0);
    match (options.context_tokens, options.kv_bytes) {
        (_, Some(bytes)) => Ok(Sizes { context_tokens, blocks: affordable(bytes) }),
        (Some(_), None) => Ok(Sizes { context_tokens, blocks: wanted }),
        (None, None) => {
            let blocks = wanted.min(affordable(DEFAULT_KV_BYTES_LIMIT).max(1));
            Ok(Sizes { context_tokens: context_tokens.min(blocks * BLOCK_TOKENS), blocks })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: usize = 1000;
    const BLOCK: usize = 1 << 20;

    fn sizes_of(context_tokens: Option<usize>, kv_bytes: Option<usize>) -> (usize, usize) {
        let options = LoadOptions { context_tokens, kv_bytes, ..LoadOptions::default() };
        let sizes = sizes(WINDOW, BLOCK, &options).unwrap();
        (sizes.context_tokens, sizes.blocks)
    }

    #[test]
    fn the_kv_memory_holds_one_window_unless_told_otherwise() {
        assert_eq!(sizes_of(None, None), (1000, 63));
        assert_eq!(sizes_of(Some(100), None), (100, 7));
        assert_eq!(sizes_of(None, Some(10 * BLOCK + 5)), (1000, 10));
        assert_eq!(sizes_of(None, Some(5)), (1000, 0));
        let huge = sizes(1 << 27, BLOCK, &LoadOptions::default()).unwrap();
        assert_eq!((huge.context_tokens, huge.blocks), (4096 * BLOCK_TOKENS, 4096));
    }

    #[test]
    fn options_out_of_range_are_refused() {
        for tokens in [0, 1, WINDOW + 1] {
            let options = LoadOptions { context_tokens: Some(tokens), ..LoadOptions::default() };
            let error = sizes(WINDOW, BLOCK, &options).unwrap_err();
            assert_eq!(error.to_string(), format!("context_tokens is {tokens}; allowed: 2 to 1000"));
            assert_eq!(error.catalogue_type(), "configuration_error");
        }
    }
}
