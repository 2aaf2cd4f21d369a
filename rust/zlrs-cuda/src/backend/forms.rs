//! The forms of KV blocks: f16 while they are filled, then what the plan asked for when they became complete.
//!
//! A block is sealed in its own place at the first step whose rows of the sequence all lie behind it: until then its
//! last positions may be guesses that are taken back. In the step that completes it, rows behind it read a sealed
//! copy. So a row reads every block before its own in its lower precision and its own as f16, whichever rows are
//! computed together. A sealed block that is written on again, because a sequence was cut back, is made f16 first;
//! what sealing lost stays lost.

use zlrs_engine::Compute;
use zlrs_engine::kv::BLOCK_TOKENS;
use zlrs_engine::plan::{CHUNK_ROWS, KvPrecision, Plan};

/// Most copies of a step: each takes a row at a block's end and one behind it.
pub(super) const MOST_COPIES: usize = CHUNK_ROWS / 2;

/// How a block is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As f16; complete, and to be sealed like this, unless it is f16.
    Half(KvPrecision),
    Sealed(KvPrecision),
}

/// A block and the precision it gets or had.
pub(super) type Change = (u32, KvPrecision);

/// Forms of all blocks, and what a step changes.
#[derive(Debug)]
pub(super) struct Forms {
    blocks: Vec<Form>,
    /// 1 + the number of a block's copy in this step, 0 for none.
    copy_numbers: Vec<u32>,
    /// First and last position of each sequence of the plan, and whether its rows are exact.
    spans: Vec<Option<(usize, usize, bool)>>,
    /// Made f16 again, sealed in place, sealed beside the f16.
    pub opened: Vec<Change>,
    pub sealed: Vec<Change>,
    pub copied: Vec<Change>,
    /// Whether some block of the plan is not f16 for all of its rows.
    pub mixed: bool,
    /// What blocks were before this step changed them, in the order of changes.
    before: Vec<(u32, Form)>,
}

impl Forms {
    /// All f16.
    pub fn new(blocks: usize) -> Self {
        Self {
            blocks: vec![Form::Half(KvPrecision::F16); blocks],
            copy_numbers: vec![0; blocks],
            spans: Vec::new(),
            opened: Vec::new(),
            sealed: Vec::new(),
            copied: Vec::new(),
            mixed: false,
            before: Vec::new(),
        }
    }

    pub fn of(&self, block: u32) -> Form {
        self.blocks[block as usize]
    }

    /// A block that was written as a whole.
    pub fn written(&mut self, block: u32) {
        self.blocks[block as usize] = Form::Half(KvPrecision::F16);
    }

    fn set(&mut self, block: u32, form: Form) {
        let before = std::mem::replace(&mut self.blocks[block as usize], form);
        self.before.push((block, before));
    }

    /// Takes back what [`Forms::prepare`] decided: nothing of it was done on the device.
    pub fn take_back(&mut self) {
        while let Some((block, form)) = self.before.pop() {
            self.blocks[block as usize] = form;
        }
    }

    /// Decides what the step changes. The plan has been checked. O(blocks of the plan).
    pub fn prepare(&mut self, plan: &Plan) {
        self.before.clear();
        for (block, _) in self.copied.drain(..) {
            self.copy_numbers[block as usize] = 0;
        }
        self.opened.clear();
        self.sealed.clear();
        for copy in plan.copies() {
            self.set(copy.to, self.blocks[copy.from as usize]);
        }
        self.spans.clear();
        self.spans.resize(plan.sequences(), None);
        for row in plan.rows() {
            let position = row.position as usize;
            let exact = row.compute == Compute::Exact;
            let span = self.spans[row.sequence as usize].get_or_insert((position, position, exact));
            *span = (span.0.min(position), span.1.max(position), span.2 || exact);
        }
        for sequence in 0..plan.sequences() {
            if let Some((first, last, exact)) = self.spans[sequence] {
                // Exact requests keep f16 whatever is in force for the others.
                let precision = if exact { KvPrecision::F16 } else { plan.kv_precision };
                self.prepare_sequence(plan.blocks_of(sequence as u32), first, last, precision);
            }
        }
        self.mixed = (0..plan.sequences() as u32)
            .any(|sequence| plan.blocks_of(sequence).iter().any(|&block| self.word(block, false) != 0));
    }

    fn prepare_sequence(&mut self, table: &[u32], first: usize, last: usize, precision: KvPrecision) {
        let (first_block, last_block) = (first / BLOCK_TOKENS, last / BLOCK_TOKENS);
        for &block in &table[..first_block] {
            match self.blocks[block as usize] {
                Form::Half(KvPrecision::F16) | Form::Sealed(_) => {}
                Form::Half(precision) => {
                    self.sealed.push((block, precision));
                    self.set(block, Form::Sealed(precision));
                }
            }
        }
        for (index, &block) in table.iter().enumerate().take(last_block + 1).skip(first_block) {
            let written_on = index == first_block && !first.is_multiple_of(BLOCK_TOKENS);
            if let (Form::Sealed(precision), true) = (self.blocks[block as usize], written_on) {
                self.opened.push((block, precision));
            }
            let complete = last >= index * BLOCK_TOKENS + BLOCK_TOKENS - 1;
            let precision = if complete { precision } else { KvPrecision::F16 };
            self.set(block, Form::Half(precision));
            if index < last_block && precision != KvPrecision::F16 {
                self.copied.push((block, precision));
                self.copy_numbers[block as usize] = self.copied.len() as u32;
            }
        }
    }

    /// A block's form as the kernels read it (`cuda/kernels/sealed.cuh`), in one of the model's first and last
    /// layers or in another.
    pub fn word(&self, block: u32, edge: bool) -> i32 {
        let copy = self.copy_numbers[block as usize];
        match self.blocks[block as usize] {
            Form::Sealed(precision) => kind(precision, edge),
            Form::Half(precision) if copy > 0 => kind(precision, edge) | (copy << 2) as i32,
            Form::Half(_) => 0,
        }
    }
}

/// Codes of a precision. The first and the last layer, whose keys are the most sensitive, keep 8 bits.
pub(super) fn kind(precision: KvPrecision, edge: bool) -> i32 {
    match precision {
        KvPrecision::Q8 => 1,
        KvPrecision::Q4 => 2 - i32::from(edge),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use zlrs_engine::Compute;
    use zlrs_engine::kv::BlockCopy;
    use zlrs_engine::plan::Row;

    use super::*;

    const Q8: KvPrecision = KvPrecision::Q8;
    const Q4: KvPrecision = KvPrecision::Q4;

    fn step(forms: &mut Forms, table: &[u32], first: u32, rows: u32, precision: KvPrecision) {
        let mut plan = Plan::default();
        plan.kv_precision = precision;
        let sequence = plan.add_sequence(table);
        for position in first..first + rows {
            plan.add_row(Row {
                token: 0,
                position,
                sequence,
                wants_logits: true,
                compute: Compute::Aggressive,
            });
        }
        forms.prepare(&plan);
    }

    #[test]
    fn a_block_is_sealed_once_nothing_of_it_can_be_taken_back() {
        let mut forms = Forms::new(8);
        step(&mut forms, &[5, 2, 3], 0, 35, Q4);
        assert_eq!((&forms.copied[..], &forms.sealed[..]), (&[(5, Q4), (2, Q4)][..], &[][..]));
        assert_eq!([5, 2, 3].map(|block| forms.word(block, false)), [2 | 1 << 2, 2 | 2 << 2, 0]);
        assert_eq!(forms.word(5, true), 1 | 1 << 2, "the first and the last layer keep 8 bits");
        // The guesses at 30 and after were wrong: the second block is filled again, by another precision's step.
        step(&mut forms, &[5, 2, 3], 30, 3, Q8);
        assert_eq!((&forms.sealed[..], &forms.copied[..]), (&[(5, Q4)][..], &[(2, Q8)][..]));
        step(&mut forms, &[5, 2, 3], 33, 1, Q4);
        assert_eq!((&forms.sealed[..], &forms.copied[..], forms.mixed), (&[(2, Q8)][..], &[][..], true));
        assert_eq!(forms.of(5), Form::Sealed(Q4));
        assert_eq!(forms.of(3), Form::Half(KvPrecision::F16));
    }

    #[test]
    fn what_was_not_done_is_taken_back() {
        let mut forms = Forms::new(8);
        step(&mut forms, &[5, 2, 3], 0, 35, Q4);
        let before = forms.blocks.clone();
        step(&mut forms, &[5, 2, 3], 30, 5, Q8);
        assert_ne!(forms.blocks, before);
        forms.take_back();
        assert_eq!(forms.blocks, before);
        step(&mut forms, &[5, 2, 3], 35, 1, Q4);
        assert_eq!(&forms.sealed[..], &[(5, Q4), (2, Q4)]);
    }

    #[test]
    fn f16_needs_nothing_and_a_new_owner_begins_with_it() {
        let mut forms = Forms::new(4);
        step(&mut forms, &[0, 1], 0, 20, KvPrecision::F16);
        assert!(!forms.mixed && forms.copied.is_empty());
        step(&mut forms, &[0, 1], 20, 1, Q8);
        assert!(!forms.mixed, "complete before precisions were lowered");
        step(&mut forms, &[2, 3], 0, 17, Q8);
        step(&mut forms, &[2, 3], 17, 1, Q8);
        assert_eq!(forms.of(2), Form::Sealed(Q8));
        step(&mut forms, &[2], 0, 3, Q8);
        assert_eq!((forms.of(2), forms.opened.len(), forms.mixed), (Form::Half(KvPrecision::F16), 0, false));
    }

    #[test]
    fn a_copy_of_a_sealed_block_is_opened_before_it_is_written_on() {
        let mut forms = Forms::new(4);
        step(&mut forms, &[0, 1], 0, 17, Q8);
        step(&mut forms, &[0, 1], 17, 1, Q8);
        let mut plan = Plan::default();
        let sequence = plan.add_sequence(&[3]);
        plan.copies_mut().push(BlockCopy { from: 0, to: 3 });
        plan.add_row(Row {
            token: 0,
            position: 7,
            sequence,
            wants_logits: true,
            compute: Compute::Aggressive,
        });
        forms.prepare(&plan);
        assert_eq!((&forms.opened[..], forms.of(0)), (&[(3, Q8)][..], Form::Sealed(Q8)));
        assert_eq!(forms.word(3, false), 0);
    }

    #[test]
    fn exact_rows_keep_f16_beside_others() {
        let mut forms = Forms::new(4);
        for first in [0, 17] {
            let mut plan = Plan::default();
            plan.kv_precision = Q4;
            for (table, compute) in [(&[0, 1], Compute::Exact), (&[2, 3], Compute::Aggressive)] {
                let sequence = plan.add_sequence(table);
                for position in first..first + 17 - first / 17 * 16 {
                    plan.add_row(Row { token: 0, position, sequence, wants_logits: true, compute });
                }
            }
            forms.prepare(&plan);
        }
        assert_eq!((forms.of(0), forms.of(2)), (Form::Half(KvPrecision::F16), Form::Sealed(Q4)));
    }
}
