//! Writes GGUF files: the inverse of the reader, for tests.

use zlrs_kernels::TensorType;

use crate::gguf::{Array, Value, limits::DEFAULT_ALIGNMENT};

/// A GGUF file in the making. Nothing is checked: tests write wrong files with it too.
#[derive(Debug, Clone)]
pub struct Writer {
    version: u32,
    alignment: u32,
    entries: Vec<(String, Value)>,
    tensors: Vec<Tensor>,
}

#[derive(Debug, Clone)]
struct Tensor {
    name: String,
    /// The fastest-running first, as in the file.
    dimensions: Vec<u64>,
    type_number: u32,
    data: Vec<u8>,
}

impl Writer {
    /// An empty file of that version.
    #[must_use]
    pub fn new(version: u32) -> Self {
        Self { version, alignment: DEFAULT_ALIGNMENT, entries: Vec::new(), tensors: Vec::new() }
    }

    /// Adds a key/value pair.
    pub fn entry(&mut self, key: impl Into<String>, value: Value) -> &mut Self {
        self.entries.push((key.into(), value));
        self
    }

    /// Sets the alignment, in the metadata and in fact.
    pub fn alignment(&mut self, alignment: u32) -> &mut Self {
        self.alignment = alignment;
        self.entry("general.alignment", Value::U32(alignment))
    }

    /// Adds a tensor. `dimensions` are the file's: columns first.
    pub fn tensor(
        &mut self,
        name: impl Into<String>,
        dimensions: &[u64],
        tensor_type: TensorType,
        data: Vec<u8>,
    ) -> &mut Self {
        self.raw_tensor(name, dimensions, tensor_type.gguf(), data)
    }

    /// As [`tensor`](Self::tensor), with any type number.
    pub fn raw_tensor(
        &mut self,
        name: impl Into<String>,
        dimensions: &[u64],
        type_number: u32,
        data: Vec<u8>,
    ) -> &mut Self {
        self.tensors.push(Tensor { name: name.into(), dimensions: dimensions.to_vec(), type_number, data });
        self
    }

    /// The file.
    #[must_use]
    pub fn finish(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.entries.len() as u64).to_le_bytes());
        for (key, value) in &self.entries {
            put_string(&mut out, key);
            put_value(&mut out, value);
        }
        let alignment = self.alignment.max(1) as usize;
        let mut offset = 0;
        for tensor in &self.tensors {
            put_string(&mut out, &tensor.name);
            out.extend((tensor.dimensions.len() as u32).to_le_bytes());
            out.extend(tensor.dimensions.iter().flat_map(|length| length.to_le_bytes()));
            out.extend(tensor.type_number.to_le_bytes());
            out.extend((offset as u64).to_le_bytes());
            offset = (offset + tensor.data.len()).next_multiple_of(alignment);
        }
        for tensor in &self.tensors {
            out.resize(out.len().next_multiple_of(alignment), 0);
            out.extend(&tensor.data);
        }
        out
    }
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    let number: u32 = match value {
        Value::U8(_) => 0,
        Value::I8(_) => 1,
        Value::U16(_) => 2,
        Value::I16(_) => 3,
        Value::U32(_) => 4,
        Value::I32(_) => 5,
        Value::F32(_) => 6,
        Value::Bool(_) => 7,
        Value::String(_) => 8,
        Value::Array(_) => 9,
        Value::U64(_) => 10,
        Value::I64(_) => 11,
        Value::F64(_) => 12,
    };
    out.extend(number.to_le_bytes());
    match value {
        Value::U8(number) => out.extend(number.to_le_bytes()),
        Value::I8(number) => out.extend(number.to_le_bytes()),
        Value::U16(number) => out.extend(number.to_le_bytes()),
        Value::I16(number) => out.extend(number.to_le_bytes()),
        Value::U32(number) => out.extend(number.to_le_bytes()),
        Value::I32(number) => out.extend(number.to_le_bytes()),
        Value::F32(number) => out.extend(number.to_le_bytes()),
        Value::Bool(truth) => out.push(u8::from(*truth)),
        Value::String(text) => put_string(out, text),
        Value::Array(array) => put_array(out, array),
        Value::U64(number) => out.extend(number.to_le_bytes()),
        Value::I64(number) => out.extend(number.to_le_bytes()),
        Value::F64(number) => out.extend(number.to_le_bytes()),
    }
}

fn put_array(out: &mut Vec<u8>, array: &Array) {
    let mut head = |number: u32| {
        out.extend(number.to_le_bytes());
        out.extend((array.len() as u64).to_le_bytes());
    };
    match array {
        Array::U8(values) => {
            head(0);
            out.extend(values);
        }
        Array::I8(values) => {
            head(1);
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        Array::U16(values) => {
            head(2);
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        Array::I16(values) => {
            head(3);
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        Array::U32(values) => {
            head(4);
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        Array::I32(values) => {
            head(5);
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        Array::F32(values) => {
            head(6);
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        Array::Bool(values) => {
            head(7);
            out.extend(values.iter().map(|&truth| u8::from(truth)));
        }
        Array::Strings(strings) => {
            head(8);
            for text in strings.iter() {
                put_string(out, text);
            }
        }
        Array::Nested(arrays) => {
            head(9);
            for array in arrays {
                put_array(out, array);
            }
        }
        Array::U64(values) => {
            head(10);
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        Array::I64(values) => {
            head(11);
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        Array::F64(values) => {
            head(12);
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
    }
}
