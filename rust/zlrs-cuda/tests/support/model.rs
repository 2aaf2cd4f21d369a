//! Synthetic models on the processor and on the host's kernels, and plans for them.

use std::io::Write;

use zlrs_cuda::{CudaBackend, LoadError};
use zlrs_engine::Compute;
use zlrs_engine::cpu::CpuBackend;
use zlrs_engine::plan::{Plan, Row};
use zlrs_kernels::{Isa, Pool};
use zlrs_model::decoder::Decoder;
use zlrs_model::gguf::File;
use zlrs_model::synthetic::{self, Settings};
use zlrs_model::weights::Weights;

use super::{Host, Random};

pub const CONTEXT: usize = 640;
pub const BLOCKS: usize = 64;

pub struct Model {
    pub file: File,
    pub decoder: Decoder,
    _path: tempfile::TempPath,
}

impl Model {
    pub fn new(settings: &Settings) -> Self {
        let mut file = tempfile::Builder::new().suffix(".gguf").tempfile().unwrap();
        file.write_all(&synthetic::model(settings)).unwrap();
        let path = file.into_temp_path();
        let file = File::open(&path).unwrap();
        let decoder = Decoder::from_metadata(file.metadata(), &file).unwrap();
        Self { file, decoder, _path: path }
    }

    pub fn cpu(&self) -> CpuBackend {
        let pool = Pool::new(1).unwrap();
        let isa = Isa::select().unwrap();
        let weights = Weights::load(&self.decoder, &self.file, isa, &pool, &|_, _| {}).unwrap();
        CpuBackend::new(self.decoder.clone(), weights, isa, pool, CONTEXT, BLOCKS).unwrap()
    }

    pub fn cuda(&self, host: Host) -> Result<CudaBackend<Host>, LoadError> {
        CudaBackend::new(host, self.decoder.clone(), &self.file, CONTEXT, BLOCKS, &|_, _| {})
    }
}

/// Rows of a sequence: its blocks, the first position, how many rows, whether all want logits or the last.
pub struct Piece<'a> {
    pub blocks: &'a [u32],
    pub first: u32,
    pub rows: u32,
    pub all: bool,
}

pub fn plan(pieces: &[Piece<'_>], random: &mut Random) -> Plan {
    let mut plan = Plan::default();
    for piece in pieces {
        let sequence = plan.add_sequence(piece.blocks);
        for position in piece.first..piece.first + piece.rows {
            let wants_logits = piece.all || position + 1 == piece.first + piece.rows;
            plan.add_row(Row {
                token: (random.next() % 256) as u32,
                position,
                sequence,
                wants_logits,
                compute: Compute::Exact,
            });
        }
    }
    plan
}
