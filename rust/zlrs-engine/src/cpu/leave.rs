//! Rows that leave before the last layer, and the keys and values of the layers they do not see.

use zlrs_kernels::{KernelError, add, matmul_many, rms_norm};

use super::buffers::{Buffers, parts};
use super::rows::norm_rows;
use super::{CpuBackend, attend};
use crate::Compute;
use crate::exit::{
    ExitHeads, ExitState, FOLLOWERS_LIMIT, Features, RowTrace, SHORTLIST_LIMIT, View, dot, features,
};
use crate::plan::{Layers, Plan, Row};

/// Marks a row that has not left.
const STAYS: usize = usize::MAX;

/// What a probe saw of a row, for training.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The row's index in its plan.
    pub row: usize,
    /// Which probe.
    pub probe: usize,
    /// What the head sees.
    pub features: Features,
    /// The model's first choice if the row left here.
    pub first_choice: u32,
    /// What the later layers added to its state; empty unless that is recorded.
    pub added: Vec<f32>,
}

/// What is kept of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Record {
    /// Features and the first choice of a row that leaves.
    #[default]
    Choices,
    /// What the later layers add. Every row wants logits.
    Added,
}

/// Installed heads and the state of a step.
#[derive(Debug, Default)]
pub(super) struct Exits {
    heads: Option<ExitHeads>,
    /// Rows of the head for the shortlist, `[shortlist][width]`.
    shortlist: Vec<f32>,
    /// Keeps samples and lets nobody leave.
    recording: Option<Vec<Sample>>,
    records: Record,
    /// Whether the step has rows that may leave.
    is_used: bool,
    /// By sequence.
    states: Vec<ExitState>,
    /// By row of the plan.
    traces: Vec<RowTrace>,
    /// By row of the plan: its place among those that have left, or [`STAYS`].
    places: Vec<usize>,
    /// Rows that have left, and what they left with, `[rows][width]`.
    left: Vec<Row>,
    left_hidden: Vec<f32>,
    /// The same with the mean of what they miss: what their logits are made from.
    left_shifted: Vec<f32>,
    /// A row with that mean.
    shifted: Vec<f32>,
    /// By row of the plan, `[rows][width]`: the state at the probe before.
    before: Vec<f32>,
    /// By row of the plan: the best candidate at the probe before.
    best: Vec<Option<usize>>,
    /// By row of the plan, `[rows][followers][width]`: rows of the head for its followers.
    followers: Vec<f32>,
}

impl Exits {
    /// Before a step: whether anybody may leave in it.
    fn begin(&mut self, plan: &Plan, hidden: &[f32], width: usize) {
        self.left.clear();
        self.left_hidden.clear();
        self.left_shifted.clear();
        self.traces.clear();
        let some = || plan.rows().iter().any(|row| row.compute == Compute::Aggressive);
        // Drafts have layers of their own.
        self.is_used = self.heads.is_some() && plan.layers == Layers::All && some();
        if !self.is_used {
            return;
        }
        let rows = plan.rows().len();
        self.states.clear();
        self.states.extend_from_slice(plan.exit_states());
        self.traces.resize(rows, RowTrace::default());
        self.places.clear();
        self.places.resize(rows, STAYS);
        self.best.clear();
        self.best.resize(rows, None);
        self.before.clear();
        self.before.extend_from_slice(&hidden[..rows * width]);
        self.followers.clear();
    }

    /// What a row's logits are made from, if it has left.
    pub fn left_with(&self, row: usize, width: usize) -> Option<&[f32]> {
        let place = *self.places.get(row).filter(|_| self.is_used)?;
        (place != STAYS).then(|| &self.left_shifted[place * width..][..width])
    }
}

impl CpuBackend {
    /// From now on lets aggressive rows leave where these heads say so, or nobody. The heads are for this model.
    ///
    /// # Errors
    /// [`KernelError`] for a token of the shortlist that the model does not have, and a shift of another width.
    pub fn install_exits(&mut self, heads: Option<ExitHeads>) -> Result<(), KernelError> {
        let width = self.decoder.width;
        if let Some(probe) =
            heads.iter().flat_map(|heads| &heads.probes).find(|probe| probe.shift.len() != width)
        {
            let given = probe.shift.len();
            return Err(KernelError::Length { what: "values of a shift", expected: width, given });
        }
        let mut exits = Exits { heads, ..Exits::default() };
        if let Some(heads) = &exits.heads {
            exits.shortlist = vec![0.0; heads.shortlist.len().min(SHORTLIST_LIMIT) * self.decoder.width];
            let rows = exits.shortlist.chunks_exact_mut(self.decoder.width);
            for (&id, row) in heads.shortlist.iter().zip(rows) {
                self.weights.head().decode_row(id as usize, row)?;
            }
        }
        self.exits = exits;
        Ok(())
    }

    /// Keeps what every probe sees from now on, and lets nobody leave.
    pub fn record_exits(&mut self, records: Record) {
        self.exits.recording = Some(Vec::new());
        self.exits.records = records;
    }

    /// What the probes of the last step saw.
    pub fn take_samples(&mut self) -> Vec<Sample> {
        self.exits.recording.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether installed heads let anybody leave.
    pub(super) fn has_active_exits(&self) -> bool {
        self.exits.heads.as_ref().is_some_and(ExitHeads::is_active)
    }

    pub(super) fn begin_exits(&mut self, plan: &Plan) {
        self.exits.begin(plan, &self.buffers.hidden, self.decoder.width);
    }

    pub(super) fn exit_traces(&self) -> &[RowTrace] {
        &self.exits.traces
    }

    /// Before a layer: lets rows leave if there is a probe.
    pub(super) fn probe(&mut self, plan: &Plan, layer: usize) -> Result<(), KernelError> {
        if !self.exits.is_used {
            return Ok(());
        }
        let find = |heads: &ExitHeads| heads.probes.iter().position(|probe| probe.layer == layer);
        let Some(number) = self.exits.heads.as_ref().and_then(find) else { return Ok(()) };
        let Self { exits, buffers, decoder, weights, machine, .. } = self;
        let Some(heads) = &exits.heads else { return Ok(()) };
        let width = decoder.width;
        if exits.followers.is_empty() {
            exits.followers.resize(plan.rows().len() * FOLLOWERS_LIMIT * width, 0.0);
            for row in 0..plan.rows().len() {
                let into = exits.followers[row * FOLLOWERS_LIMIT * width..].chunks_exact_mut(width);
                for (&id, into) in plan.followers_of(row).ids().iter().zip(into) {
                    weights.head().decode_row(id as usize, into)?;
                }
            }
        }
        let probe = &heads.probes[number];
        let skipped_layers = (decoder.layers.len() - layer) as u16;
        let (mut from, mut kept) = (0, 0);
        for (index, row) in plan.rows().iter().enumerate() {
            let trace = &mut exits.traces[index];
            let state = &mut exits.states[row.sequence as usize];
            if exits.places[index] != STAYS {
                // It has left: the later probes count it as one that would.
                state.push(number, true);
                continue;
            }
            let own = &buffers.hidden[from * width..][..width];
            let mut leaves = false;
            if row.compute == Compute::Aggressive {
                exits.shifted.clear();
                exits.shifted.extend_from_slice(own);
                add(machine.isa, &probe.shift, &mut exits.shifted);
                let normed = &mut buffers.branch[..width];
                rms_norm(machine.isa, &exits.shifted, &weights.output_norm, decoder.norm_epsilon, normed);
                let followers = plan.followers_of(index);
                let follower_rows = exits.followers[index * FOLLOWERS_LIMIT * width..].chunks_exact(width);
                let candidates = exits.shortlist.chunks_exact(width);
                let shortlist = candidates.len();
                let candidates = candidates.chain(follower_rows.take(followers.ids().len()));
                let mut logits = [0.0; SHORTLIST_LIMIT + FOLLOWERS_LIMIT];
                let mut count = 0;
                for (logit, candidate) in logits.iter_mut().zip(candidates) {
                    *logit = dot(normed, candidate);
                    count += 1;
                }
                let view = View {
                    state: own,
                    before: &exits.before[index * width..][..width],
                    best_before: exits.best[index],
                    logits: &logits[..count],
                    shortlist,
                    followers: &followers,
                    position: row.position,
                };
                let (features, best) = features(machine.isa, &view);
                exits.best[index] = Some(best);
                exits.before[index * width..][..width].copy_from_slice(own);
                if let Some(samples) = &mut exits.recording {
                    let added = match exits.records {
                        Record::Choices => Vec::new(),
                        // Until the end of the step what is there already.
                        Record::Added => own.to_vec(),
                    };
                    samples.push(Sample { row: index, probe: number, features, first_choice: 0, added });
                } else {
                    let contribution = probe.head.predict(&features);
                    let under = probe.threshold.is_some_and(|threshold| contribution < threshold);
                    trace.under |= u8::from(under) << number;
                    leaves = state.push(number, under);
                }
            }
            if leaves {
                // Later probes do not see it.
                trace.under |= u8::MAX << number;
                trace.skipped_layers = skipped_layers;
                exits.places[index] = exits.left.len();
                exits.left.push(buffers.rows[from]);
                exits.left_hidden.extend_from_slice(own);
                exits.left_shifted.extend_from_slice(&exits.shifted);
            } else {
                if kept < from {
                    buffers.hidden.copy_within(from * width..(from + 1) * width, kept * width);
                    buffers.rows[kept] = buffers.rows[from];
                }
                kept += 1;
            }
            from += 1;
        }
        buffers.rows.truncate(kept);
        self.label_samples(number)
    }

    /// While recording: the first choices if all rows left at the probe.
    fn label_samples(&mut self, probe: usize) -> Result<(), KernelError> {
        if self.exits.recording.is_none() || self.exits.records != Record::Choices {
            return Ok(());
        }
        let (width, vocabulary) = (self.decoder.width, self.shape.vocabulary);
        let rows = self.buffers.rows.len();
        for index in 0..rows {
            let Some(heads) = &self.exits.heads else { return Ok(()) };
            let Buffers { hidden, branch, .. } = &mut self.buffers;
            let (shifted, normed) = (&mut self.exits.shifted, &mut branch[index * width..][..width]);
            shifted.clear();
            shifted.extend_from_slice(&hidden[index * width..][..width]);
            add(self.machine.isa, &heads.probes[probe].shift, shifted);
            let norm = &self.weights.output_norm;
            rms_norm(self.machine.isa, shifted, norm, self.decoder.norm_epsilon, normed);
        }
        self.logits_of(rows, false)?;
        let logits = self.buffers.logits.chunks_exact(vocabulary);
        let firsts: Vec<u32> = logits.take(rows).map(first_choice).collect();
        let samples = self.exits.recording.iter_mut().flatten();
        samples.filter(|sample| sample.probe == probe).for_each(|sample| {
            sample.first_choice = firsts[sample.row];
        });
        Ok(())
    }

    /// While recording: what the layers behind the probes have added, when all are done.
    pub(super) fn record_added(&mut self) {
        if self.exits.records == Record::Added {
            let width = self.decoder.width;
            for sample in self.exits.recording.iter_mut().flatten() {
                let last = &self.buffers.hidden[sample.row * width..][..width];
                sample.added.iter_mut().zip(last).for_each(|(added, last)| *added = last - *added);
            }
        }
    }

    /// The keys and values in a layer of the rows that have left: from the state they left with.
    pub(super) fn fill(&mut self, plan: &Plan, layer: usize) -> Result<(), KernelError> {
        let Self { decoder, weights, ropes, memory, buffers, machine, exits, .. } = self;
        if exits.left.is_empty() {
            return Ok(());
        }
        let (Some(part), Some(weights)) =
            (&decoder.layers[layer].attention, &weights.layers[layer].attention)
        else {
            return Ok(());
        };
        let (rows, width, kv_width) = (exits.left.len(), decoder.width, part.kv_width());
        let branch = &mut buffers.branch[..rows * width];
        let [key, value] = parts(&mut buffers.between, [rows * kv_width; 2]);
        norm_rows(machine, &exits.left_hidden, &weights.norm, decoder.norm_epsilon, branch)?;
        let maps = &mut [attend::product(&weights.key, key), attend::product(&weights.value, value)];
        matmul_many(&machine.pool, maps, branch, rows, &mut buffers.scratch)?;
        let turn = attend::Turn {
            isa: machine.isa,
            layout: decoder.rope_layout,
            table: &ropes[part.rope],
            head_dim: part.head_dim,
            epsilon: decoder.norm_epsilon,
        };
        turn.run(&machine.pool, key, weights.key_norm.as_deref(), &exits.left)?;
        attend::store(machine.isa, memory, plan, layer, &exits.left, key, value)
    }
}

/// The largest logit's token; the lower of equals.
pub(crate) fn first_choice(logits: &[f32]) -> u32 {
    let mut first = 0;
    for (index, &logit) in logits.iter().enumerate() {
        if logit > logits[first] {
            first = index;
        }
    }
    first as u32
}
