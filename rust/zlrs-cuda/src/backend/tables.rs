//! What the kernels of a step look up: ids, positions, block tables, parts. One upload a step.

use zlrs_engine::kv::BLOCK_TOKENS;
use zlrs_engine::plan::{Plan, Row};
use zlrs_model::decoder::{Attention, Decoder};

use super::forms::{Change, Forms, kind};
use crate::queue::{Parts, RowPlaces};
use crate::{Address, CudaError, Device, attention_shared_bytes};

/// Positions of a split of attention.
const SPLIT: usize = 512;
/// Shared memory that a block of attention may have without asking the driver for more.
const SHARED_BYTES: usize = 48 << 10;
/// Most rows of a part: more save little, as keys and values then come from the cache.
const ROWS_TOGETHER: usize = 16;
/// Most rows whose splits get blocks of their own: with more, rows alone keep the device busy.
const ROWS_APART: usize = 16;
/// Most bytes of partial results.
const PARTIAL_BYTES: usize = 64 << 20;

/// A kind of attention: layers of the same kind share their parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    heads: usize,
    group: usize,
    head_dim: usize,
}

impl Kind {
    fn of(attention: &Attention) -> Self {
        let group = attention.heads / attention.kv_heads;
        Self { heads: attention.heads, group, head_dim: attention.head_dim }
    }

    /// Most queries of a block.
    fn queries(&self) -> usize {
        (SHARED_BYTES / attention_shared_bytes(1, self.head_dim)).max(1)
    }

    /// Bytes of a row's partial results.
    fn partial_bytes(&self, splits: usize) -> usize {
        self.heads * splits * (self.head_dim + 2) * size_of::<f32>()
    }
}

/// Where one list lies among the step's numbers.
#[derive(Debug, Clone, Copy, Default)]
struct List {
    start: usize,
    len: usize,
}

/// Parts of a kind: all rows, and those behind the last layer's keys and values.
#[derive(Debug, Clone, Copy, Default)]
struct KindParts {
    all: List,
    live: List,
    all_queries: usize,
    live_queries: usize,
}

/// Blocks whose form changes: their numbers and what they become or were, for most layers and for the first and
/// the last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Changes {
    pub blocks: Address,
    pub forms: [Address; 2],
    pub count: usize,
}

/// Addresses of the lists.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Places {
    pub ids: Address,
    /// Rows that go on, by their index among all.
    pub live_rows: Address,
    /// Rows that want logits, by their index among those that go on.
    pub head_rows: Address,
    pub copies_from: Address,
    pub copies_to: Address,
    /// Forms beside the block table, for most layers and for the first and the last; no memory where all is f16.
    pub forms: [Address; 2],
    pub opened: Changes,
    pub sealed: Changes,
    pub copied: Changes,
    pub all: Option<RowPlaces>,
    pub live: Option<RowPlaces>,
}

#[derive(Debug)]
pub(super) struct Tables {
    kinds: Vec<Kind>,
    parts: Vec<KindParts>,
    numbers: Vec<i32>,
    bytes: Vec<u8>,
    live: Vec<Row>,
    all: Vec<Row>,
    memory: Address,
    memory_len: usize,
    partials: Address,
    partial_bytes: usize,
    places: Places,
    /// Whether rows are left behind in the last layer.
    leaves: bool,
}

impl Tables {
    pub fn new<D: Device>(
        device: &mut D,
        decoder: &Decoder,
        context_tokens: usize,
    ) -> Result<Self, CudaError> {
        let mut kinds = Vec::new();
        let leaves = decoder.layers.last().is_some_and(|layer| layer.attention.is_some());
        for attention in decoder.layers.iter().filter_map(|layer| layer.attention.as_ref()) {
            if !kinds.contains(&Kind::of(attention)) {
                kinds.push(Kind::of(attention));
            }
        }
        let splits = context_tokens.div_ceil(SPLIT);
        let row_bytes = kinds.iter().map(|kind| kind.partial_bytes(splits)).max().unwrap_or(0);
        let partial_bytes = row_bytes * ROWS_APART.min(PARTIAL_BYTES / row_bytes.max(1)).max(1);
        let partials = device.allocate(partial_bytes.max(1))?;
        Ok(Self {
            parts: vec![KindParts::default(); kinds.len()],
            kinds,
            numbers: Vec::new(),
            bytes: Vec::new(),
            live: Vec::new(),
            all: Vec::new(),
            memory: Address::default(),
            memory_len: 0,
            partials,
            partial_bytes,
            places: Places::default(),
            leaves,
        })
    }

    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Rows that go on behind the last layer's keys and values.
    pub fn live(&self) -> &[Row] {
        &self.live
    }

    /// Writes the lists of a step to the device.
    pub fn fill<D: Device>(&mut self, device: &mut D, plan: &Plan, forms: &Forms) -> Result<(), CudaError> {
        self.numbers.clear();
        self.all.clear();
        self.all.extend_from_slice(plan.rows());
        let leaves = self.leaves;
        self.live.clear();
        self.live.extend(plan.rows().iter().filter(|row| !leaves || row.wants_logits));

        let starts = self.add(plan_starts(plan));
        let block_table = self.add(
            (0..plan.sequences() as u32)
                .flat_map(|sequence| plan.blocks_of(sequence).iter().map(|&block| block as i32)),
        );
        let mut words = [List::default(); 2];
        if forms.mixed {
            words = [false, true].map(|edge| {
                let tables = (0..plan.sequences() as u32).flat_map(|sequence| plan.blocks_of(sequence));
                self.add(tables.map(|&block| forms.word(block, edge)))
            });
        }
        let opened = self.add_changes(&forms.opened, false);
        let sealed = self.add_changes(&forms.sealed, false);
        let copied = self.add_changes(&forms.copied, true);
        let ids = self.add(plan.rows().iter().map(|row| row.token as i32));
        let kept = plan.rows().iter().enumerate().filter(|(_, row)| !leaves || row.wants_logits);
        let live_rows = self.add(kept.clone().map(|(index, _)| index as i32));
        let wanted = kept.enumerate().filter(|(_, (_, row))| row.wants_logits);
        let head_rows = self.add(wanted.map(|(index, _)| index as i32));
        let copies_from = self.add(plan.copies().iter().map(|copy| copy.from as i32));
        let copies_to = self.add(plan.copies().iter().map(|copy| copy.to as i32));
        let (all, live) = (std::mem::take(&mut self.all), std::mem::take(&mut self.live));
        let mut rows = [List::default(); 4];
        for (lists, rows) in rows.chunks_exact_mut(2).zip([&all, &live]) {
            lists[0] = self.add(rows.iter().map(|row| row.position as i32));
            let starts = starts.start;
            for row in rows {
                let start = self.numbers[starts + row.sequence as usize];
                self.numbers.push(start);
            }
            lists[1] = List { start: self.numbers.len() - rows.len(), len: rows.len() };
        }
        for index in 0..self.kinds.len() {
            let kind = self.kinds[index];
            let (all, all_queries) = self.add_parts(&kind, &all);
            let (live, live_queries) = self.add_parts(&kind, &live);
            self.parts[index] = KindParts { all, live, all_queries, live_queries };
        }
        (self.all, self.live) = (all, live);
        self.upload(device)?;
        let at = |list: List| self.memory.offset(list.start * size_of::<i32>());
        let row_places = |lists: &[List]| RowPlaces {
            positions: at(lists[0]),
            tables: at(lists[1]),
            block_table: at(block_table),
        };
        let changes = |lists: [List; 3]| Changes {
            blocks: at(lists[0]),
            forms: [at(lists[1]), at(lists[2])],
            count: lists[0].len,
        };
        self.places = Places {
            forms: if forms.mixed { words.map(at) } else { [Address::default(); 2] },
            opened: changes(opened),
            sealed: changes(sealed),
            copied: changes(copied),
            ids: at(ids),
            live_rows: at(live_rows),
            head_rows: at(head_rows),
            copies_from: at(copies_from),
            copies_to: at(copies_to),
            all: Some(row_places(&rows[..2])),
            live: Some(row_places(&rows[2..])),
        };
        Ok(())
    }

    /// How the rows of a layer are shared out.
    pub fn parts(&self, attention: &Attention, last: bool) -> Parts {
        let kind = Kind::of(attention);
        let index = self.kinds.iter().position(|known| *known == kind).unwrap_or(0);
        let (parts, rows) = (self.parts[index], if last { &self.live } else { &self.all });
        let (list, queries) =
            if last { (parts.live, parts.live_queries) } else { (parts.all, parts.all_queries) };
        let splits = |row: &Row| {
            let end = row.position as usize + 1;
            let start = attention.window.map_or(0, |window| end.saturating_sub(window as usize));
            end.div_ceil(SPLIT) - start / SPLIT
        };
        let splits = rows.iter().map(splits).max().unwrap_or(1);
        let fits = self.apart(&kind, rows) && rows.len() * kind.partial_bytes(splits) <= self.partial_bytes;
        Parts {
            memory: self.memory.offset(list.start * size_of::<i32>()),
            count: list.len / 4,
            queries,
            splits: if fits { splits } else { 1 },
            partials: self.partials,
        }
    }

    /// Whether the rows are so few that each is a part of its own, so that its splits can be.
    fn apart(&self, kind: &Kind, rows: &[Row]) -> bool {
        rows.len() <= ROWS_APART
            && rows.iter().any(|row| row.position as usize >= SPLIT)
            && rows.len() * kind.partial_bytes(1) <= self.partial_bytes
    }

    /// Adds the parts of rows, and says how many queries the largest has.
    fn add_parts(&mut self, kind: &Kind, rows: &[Row]) -> (List, usize) {
        let queries = kind.queries();
        let heads_at_once = kind.group.min(queries);
        let rows_at_once =
            if self.apart(kind, rows) { 1 } else { (queries / heads_at_once).clamp(1, ROWS_TOGETHER) };
        let start = self.next_list();
        let (mut first, mut largest) = (0, 1);
        while first < rows.len() {
            let same = rows[first..].iter().take_while(|row| row.sequence == rows[first].sequence);
            let count = same.take(rows_at_once).count();
            for head in (0..kind.group).step_by(heads_at_once) {
                let heads = heads_at_once.min(kind.group - head);
                self.numbers.extend([first, count, head, heads].map(|number| number as i32));
                largest = largest.max(count * heads);
            }
            first += count;
        }
        (List { start, len: self.numbers.len() - start }, largest)
    }

    fn add_changes(&mut self, changes: &[Change], copies: bool) -> [List; 3] {
        let word = |index: usize, precision, edge| {
            kind(precision, edge) | if copies { (index as i32 + 1) << 2 } else { 0 }
        };
        let forms = |edge| {
            changes.iter().enumerate().map(move |(index, &(_, precision))| word(index, precision, edge))
        };
        [
            self.add(changes.iter().map(|&(block, _)| block as i32)),
            self.add(forms(false)),
            self.add(forms(true)),
        ]
    }

    /// Where a list may begin: the four numbers of a part are read as one word.
    fn next_list(&mut self) -> usize {
        self.numbers.resize(self.numbers.len().next_multiple_of(4), 0);
        self.numbers.len()
    }

    fn add(&mut self, numbers: impl Iterator<Item = i32>) -> List {
        let start = self.next_list();
        self.numbers.extend(numbers);
        List { start, len: self.numbers.len() - start }
    }

    fn upload<D: Device>(&mut self, device: &mut D) -> Result<(), CudaError> {
        if self.memory_len < self.numbers.len() {
            if self.memory_len > 0 {
                device.free(self.memory);
            }
            self.memory_len = 0;
            let len = self.numbers.len().next_power_of_two();
            self.memory = device.allocate(len * size_of::<i32>())?;
            self.memory_len = len;
        }
        self.bytes.clear();
        self.bytes.extend(self.numbers.iter().flat_map(|number| number.to_le_bytes()));
        device.upload(&self.bytes, self.memory)
    }
}

/// Where each sequence begins in the block table.
fn plan_starts(plan: &Plan) -> impl Iterator<Item = i32> + '_ {
    (0..plan.sequences() as u32).scan(0, |start, sequence| {
        let own = *start;
        *start += plan.blocks_of(sequence).len() as i32;
        Some(own)
    })
}

const _: () = assert!(SPLIT.is_multiple_of(BLOCK_TOKENS));
