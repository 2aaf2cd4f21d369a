//! Training exit heads for one model file: teacher forcing over calibration texts, labels from the model itself.
//!
//! Of every domain's windows two in five are for fitting the heads, one is for choosing candidate thresholds, and
//! two are held out. What is claimed is what was seen on the held-out texts, computed for real with rows leaving:
//! the effect of approximate keys and values on later rows is part of it.

mod bound;
mod fit;
mod run;
mod windows;

use std::path::Path;

use zlrs_model::mask::Mask;
use zlrs_model::tokenizer::{Segment, Tokenizer};

pub use self::bound::proportion_upper;
pub use self::fit::Fit;
use self::fit::{Example, fit};
use self::run::{Runner, Tally};
use self::windows::{Use, shortlist, windows_of};
use super::{ExitHeads, Head, MAX_PROBES, Probe};
use crate::alone::Opened;
use crate::cpu::{CpuBackend, Record};
use crate::engine::{mask_sum, sha256_of};
use crate::{Compute, EngineError};

/// Shares of wrong first choices among the rows under a threshold, from careful to daring; thresholds are chosen for
/// each on texts of their own, and tested in this order on the held-out ones. Only a part of all rows leaves, so that
/// shares far above the bound can keep it.
pub const RATES: [f64; 10] = [0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.18, 0.25];
/// Fewer rows under a threshold than this are no ground to set it on.
const LEAST_ROWS: usize = 40;
/// Windows of a domain that a split needs: two to fit, one to choose, two held out.
pub const LEAST_WINDOWS: usize = 5;

/// Texts of one kind, as tokens.
#[derive(Debug, Clone)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// At least [`LEAST_WINDOWS`] texts.
    pub windows: Vec<Vec<u32>>,
    /// Most of its rows that may leave, 0 to 1: some kinds of text bear less than others, and one in which almost
    /// nothing is computed in full is one that the texts do not represent.
    pub skip_cap: f64,
}

/// What the heads must keep.
#[derive(Debug, Clone)]
pub struct TrainOptions {
    /// Most first choices that may be others than the full model's, in every domain, 0 to 1.
    pub bound: f64,
    /// Probability that the bound holds.
    pub confidence: f64,
    /// Layers to leave before; none chooses four in the later half.
    pub layers: Vec<usize>,
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self { bound: 0.01, confidence: 0.95, layers: Vec::new() }
    }
}

/// What was seen of a domain at some thresholds.
#[derive(Debug, Clone, PartialEq)]
pub struct DomainResult {
    /// Which.
    pub domain: String,
    /// Rows compared.
    pub rows: usize,
    /// Rows whose first choice is another than the full model's.
    pub differing: usize,
    /// Upper bound of their share (Clopper and Pearson).
    pub upper: f64,
    /// Rows that left.
    pub left: usize,
    /// Layers left out, summed over rows.
    pub row_layers: usize,
}

/// One candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// Of [`RATES`].
    pub rate: f64,
    /// By probe.
    pub thresholds: Vec<Option<f32>>,
    /// On the held-out texts.
    pub domains: Vec<DomainResult>,
    /// Whether every domain kept bound and cap.
    pub keeps: bool,
}

/// Heads, and what was seen.
#[derive(Debug, Clone)]
pub struct Trained {
    /// With the thresholds of the last level that kept the bound; without any if none did.
    pub heads: ExitHeads,
    /// By probe.
    pub fits: Vec<Fit>,
    /// Those that were tested: up to the first that did not keep the bound.
    pub levels: Vec<Level>,
    /// Index of the level in use.
    pub chosen: Option<usize>,
}

/// A model whose heads are trained.
pub struct Trainer {
    backend: CpuBackend,
    tokenizer: Tokenizer,
    weights_sha256: [u8; 32],
    mask_sum: Option<[u8; 32]>,
    window_tokens: usize,
}

impl Trainer {
    /// Reads a model, without the parts of a mask, for texts of up to `window_tokens` tokens each. O(file).
    ///
    /// # Errors
    /// As [`Engine::load`](crate::Engine::load).
    pub fn load(
        path: &Path,
        threads: Option<usize>,
        mask: Option<&Mask>,
        window_tokens: usize,
    ) -> Result<Self, EngineError> {
        let opened = Opened::open(path, threads, 2, window_tokens)?;
        let weights_sha256 = sha256_of(&opened.file)?;
        let decoder = match mask {
            Some(mask) => {
                mask.check_weights(weights_sha256)?;
                mask.compile(&opened.full, &opened.file)?
            }
            None => opened.full.clone(),
        };
        let weights = opened.weights(&decoder)?;
        let (_, tokenizer, backend) = opened.compute(decoder, weights)?;
        let mask_sum = mask.map(mask_sum);
        Ok(Self { backend, tokenizer, weights_sha256, mask_sum, window_tokens })
    }

    /// Tokens of a text, as the model gets them.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode_prompt(&[Segment::text(text)])
    }

    /// Trains heads and finds their thresholds. `progress(what, done, all)` is told how far it is, in windows, and
    /// ends the training by returning false. O(windows · (layers + probes · head)).
    ///
    /// # Errors
    /// [`EngineError::Option`] for texts and options out of range, [`EngineError::UnknownToken`],
    /// [`EngineError::Step`], [`EngineError::Closed`] when `progress` ended it.
    pub fn train(
        &mut self,
        domains: &[Domain],
        options: &TrainOptions,
        calibration_sha256: [u8; 32],
        progress: &mut dyn FnMut(&'static str, usize, usize) -> bool,
    ) -> Result<Trained, EngineError> {
        let layers = self.backend.decoder().layers.len();
        let vocabulary = self.backend.decoder().vocabulary;
        let width = self.backend.decoder().width;
        self.check(domains, options)?;
        let probes = probes_of(&options.layers, layers)?;
        let mut heads = ExitHeads {
            weights_sha256: self.weights_sha256,
            mask_sum: self.mask_sum.unwrap_or_default(),
            calibration_sha256,
            layers,
            vocabulary,
            width,
            shortlist: shortlist(domains),
            probes: probes
                .into_iter()
                .map(|layer| Probe { layer, head: Head::ZERO, shift: vec![0.0; width], threshold: None })
                .collect(),
            report: String::new(),
        };
        self.shift(&mut heads, domains, progress)?;
        let (examples, tuning) = self.examples(&heads, domains, progress)?;
        let mut fits = Vec::new();
        for (probe, own) in heads.probes.iter_mut().zip(&examples) {
            progress_or_end(progress, "fitting", fits.len(), examples.len())?;
            let (head, fit) = fit(probe.layer, own);
            probe.head = head;
            fits.push(fit);
        }
        let levels = self.test(&heads, domains, &tuning, options, progress)?;
        let chosen = levels.iter().rposition(|level| level.keeps);
        if let Some(level) = chosen.map(|chosen| &levels[chosen]) {
            for (probe, &threshold) in heads.probes.iter_mut().zip(&level.thresholds) {
                probe.threshold = threshold;
            }
        }
        self.backend.install_exits(None)?;
        Ok(Trained { heads, fits, levels, chosen })
    }

    fn check(&self, domains: &[Domain], options: &TrainOptions) -> Result<(), EngineError> {
        let vocabulary = self.backend.decoder().vocabulary;
        let out_of_range = |name, given: usize, allowed: String| EngineError::Option { name, given, allowed };
        let share = |name, share: f64| {
            if share > 0.0 && share <= 1.0 {
                return Ok(());
            }
            Err(out_of_range(name, (share * 1000.0) as usize, "above 0, up to 1000".to_owned()))
        };
        share("bound (in thousandths)", options.bound)?;
        if domains.is_empty() {
            return Err(out_of_range("domains", 0, "at least 1".to_owned()));
        }
        for domain in domains {
            share("skip_cap (in thousandths)", domain.skip_cap)?;
            if domain.windows.len() < LEAST_WINDOWS {
                let allowed = format!("at least {LEAST_WINDOWS}; give more text");
                return Err(out_of_range("windows of a domain", domain.windows.len(), allowed));
            }
            for ids in &domain.windows {
                if !(2..=self.window_tokens).contains(&ids.len()) {
                    let allowed = format!("2 to {}", self.window_tokens);
                    return Err(out_of_range("tokens of a text", ids.len(), allowed));
                }
                if let Some(index) = ids.iter().position(|&id| id as usize >= vocabulary) {
                    return Err(EngineError::UnknownToken { index, id: ids[index], vocabulary });
                }
            }
        }
        Ok(())
    }

    /// Finds what the layers behind each probe add in the mean, on every fourth text to fit.
    fn shift(
        &mut self,
        heads: &mut ExitHeads,
        domains: &[Domain],
        progress: &mut dyn FnMut(&'static str, usize, usize) -> bool,
    ) -> Result<(), EngineError> {
        self.backend.install_exits(Some(heads.clone()))?;
        self.backend.record_exits(Record::Added);
        let windows: Vec<_> = windows_of(domains, Use::Fit).step_by(4).collect();
        let mut sums = vec![vec![0.0; heads.width]; heads.probes.len()];
        let mut rows = 0;
        for (done, (_, ids)) in windows.iter().enumerate() {
            progress_or_end(progress, "means", done, windows.len())?;
            rows += Runner::new(&mut self.backend).added(ids, &mut sums)?;
        }
        for (probe, sum) in heads.probes.iter_mut().zip(&sums) {
            probe.shift = sum.iter().map(|sum| (sum / rows.max(1) as f64) as f32).collect();
        }
        Ok(())
    }

    /// What every probe sees in the texts to fit, and in those to choose thresholds on.
    #[expect(clippy::type_complexity, reason = "examples by probe, twice")]
    fn examples(
        &mut self,
        heads: &ExitHeads,
        domains: &[Domain],
        progress: &mut dyn FnMut(&'static str, usize, usize) -> bool,
    ) -> Result<(Vec<Vec<Example>>, Vec<Vec<Example>>), EngineError> {
        self.backend.install_exits(Some(heads.clone()))?;
        self.backend.record_exits(Record::Choices);
        let empty = || vec![Vec::new(); heads.probes.len()];
        let (mut fitting, mut tuning) = (empty(), empty());
        let windows: Vec<_> = windows_of(domains, Use::Fit)
            .map(|window| (window, true))
            .chain(windows_of(domains, Use::Tune).map(|window| (window, false)))
            .collect();
        for (done, &((_, ids), is_fit)) in windows.iter().enumerate() {
            progress_or_end(progress, "labelling", done, windows.len())?;
            let into = if is_fit { &mut fitting } else { &mut tuning };
            Runner::new(&mut self.backend).label(ids, into)?;
        }
        Ok((fitting, tuning))
    }

    /// Learn then Test with a fixed sequence of candidates: from careful to daring until one fails.
    fn test(
        &mut self,
        heads: &ExitHeads,
        domains: &[Domain],
        tuning: &[Vec<Example>],
        options: &TrainOptions,
        progress: &mut dyn FnMut(&'static str, usize, usize) -> bool,
    ) -> Result<Vec<Level>, EngineError> {
        let windows: Vec<(usize, &[u32])> = windows_of(domains, Use::Test).collect();
        let mut firsts = Vec::new();
        self.backend.install_exits(None)?;
        for (done, (_, ids)) in windows.iter().enumerate() {
            progress_or_end(progress, "full model on held-out texts", done, windows.len())?;
            firsts.push(Runner::new(&mut self.backend).firsts(ids, Compute::Exact)?.0);
        }
        let mut levels: Vec<Level> = Vec::new();
        for rate in RATES {
            let thresholds: Vec<Option<f32>> = heads
                .probes
                .iter()
                .zip(tuning)
                .map(|(probe, examples)| bound::threshold(&probe.head, examples, rate, LEAST_ROWS))
                .collect();
            let same = levels.last().is_some_and(|last| last.thresholds == thresholds);
            if same || thresholds.iter().all(Option::is_none) {
                continue;
            }
            let mut candidate = heads.clone();
            for (probe, &threshold) in candidate.probes.iter_mut().zip(&thresholds) {
                probe.threshold = threshold;
            }
            self.backend.install_exits(Some(candidate))?;
            let mut tallies = vec![Tally::default(); domains.len()];
            for (done, ((domain, ids), firsts)) in windows.iter().zip(&firsts).enumerate() {
                progress_or_end(progress, "leaving early on held-out texts", done, windows.len())?;
                let (own, traces) = Runner::new(&mut self.backend).firsts(ids, Compute::Aggressive)?;
                tallies[*domain].add(firsts, &own, &traces);
            }
            let results: Vec<DomainResult> = domains
                .iter()
                .zip(&tallies)
                .map(|(domain, tally)| DomainResult {
                    domain: domain.name.clone(),
                    rows: tally.rows,
                    differing: tally.differing,
                    upper: proportion_upper(tally.differing, tally.rows, options.confidence),
                    left: tally.left,
                    row_layers: tally.row_layers,
                })
                .collect();
            // Every domain must keep it, so that no single test needs a stricter level for their number.
            let keeps = results.iter().zip(domains).all(|(result, domain)| {
                result.upper <= options.bound && result.left as f64 <= domain.skip_cap * result.rows as f64
            });
            levels.push(Level { rate, thresholds, domains: results, keeps });
            if !keeps {
                break;
            }
        }
        Ok(levels)
    }
}

/// The layers to leave before.
fn probes_of(given: &[usize], layers: usize) -> Result<Vec<usize>, EngineError> {
    let mut probes = given.to_vec();
    if probes.is_empty() {
        let places = [layers * 2 / 3, layers * 5 / 6, layers.saturating_sub(2), layers.saturating_sub(1)];
        probes.extend(places.into_iter().filter(|&layer| layer > 0));
    }
    probes.sort_unstable();
    probes.dedup();
    if let Some(&layer) = probes.iter().find(|&&layer| layer == 0 || layer >= layers) {
        let allowed = format!("1 to {}", layers.saturating_sub(1));
        return Err(EngineError::Option { name: "a layer to leave before", given: layer, allowed });
    }
    if probes.is_empty() || probes.len() > MAX_PROBES {
        let allowed = format!("1 to {MAX_PROBES}");
        return Err(EngineError::Option { name: "layers to leave before", given: probes.len(), allowed });
    }
    Ok(probes)
}

fn progress_or_end(
    progress: &mut dyn FnMut(&'static str, usize, usize) -> bool,
    what: &'static str,
    done: usize,
    all: usize,
) -> Result<(), EngineError> {
    if progress(what, done, all) { Ok(()) } else { Err(EngineError::Closed) }
}
