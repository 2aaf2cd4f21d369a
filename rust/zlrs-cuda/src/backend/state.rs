//! Blocks in and out of the device, in the form that is the same on every machine: f16.

use zlrs_engine::backend::BackendError;
use zlrs_engine::kv::BLOCK_TOKENS;
use zlrs_engine::plan::KvPrecision;
use zlrs_kernels::KernelError;
use zlrs_kernels::naive::sealed::{CodeBits, open_keys, open_values};

use super::CudaBackend;
use super::forms::{Form, kind};
use crate::Device;

impl<D: Device> CudaBackend<D> {
    /// Appends a block; one that is sealed is given as the f16 numbers nearest to what it holds.
    pub(super) fn read_state(&self, block: u32, out: &mut Vec<u8>) -> Result<(), BackendError> {
        let memory = self.block(block)?;
        let start = out.len();
        out.resize(start + self.shape.block_bytes, 0);
        self.queue.0.download(memory, &mut out[start..])?;
        if let Form::Sealed(precision) = self.forms.of(block) {
            self.open_state(precision, &mut out[start..]);
        }
        Ok(())
    }

    fn open_state(&self, precision: KvPrecision, block: &mut [u8]) {
        for (index, layer) in self.layout.layers.iter().enumerate().filter(|(_, layer)| layer.kv_heads > 0) {
            let bits =
                if kind(precision, self.is_edge(index)) == 1 { CodeBits::Eight } else { CodeBits::Four };
            let len = BLOCK_TOKENS * layer.head_dim;
            let mut opened = vec![0_u16; len];
            for head in 0..2 * layer.kv_heads {
                let of_keys = head < layer.kv_heads;
                let offset = if of_keys { layer.key_offset } else { layer.value_offset };
                let first = 2 * (offset + head % layer.kv_heads * len);
                let region = &mut block[first..first + 2 * len];
                if of_keys {
                    open_keys(bits, region, &mut opened);
                } else {
                    open_values(bits, region, &mut opened);
                }
                for (bytes, half) in region.chunks_exact_mut(2).zip(&opened) {
                    bytes.copy_from_slice(&half.to_le_bytes());
                }
            }
        }
    }

    /// Makes a block hold f16 numbers; it stays f16.
    pub(super) fn write_state(&mut self, block: u32, bytes: &[u8]) -> Result<(), BackendError> {
        let memory = self.block(block)?;
        let (expected, given) = (self.shape.block_bytes, bytes.len());
        if given != expected {
            return Err(KernelError::Length { what: "bytes of a KV block", expected, given }.into());
        }
        self.queue.0.upload(bytes, memory)?;
        self.forms.written(block);
        Ok(())
    }
}
