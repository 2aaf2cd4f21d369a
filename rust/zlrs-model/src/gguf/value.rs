//! Metadata values as the file has them.

/// A metadata value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// 8 bits, unsigned.
    U8(u8),
    /// 8 bits, signed.
    I8(i8),
    /// 16 bits, unsigned.
    U16(u16),
    /// 16 bits, signed.
    I16(i16),
    /// 32 bits, unsigned.
    U32(u32),
    /// 32 bits, signed.
    I32(i32),
    /// IEEE single precision.
    F32(f32),
    /// One byte, 0 or 1.
    Bool(bool),
    /// UTF-8 text.
    String(Box<str>),
    /// Values of one type.
    Array(Array),
    /// 64 bits, unsigned.
    U64(u64),
    /// 64 bits, signed.
    I64(i64),
    /// IEEE double precision.
    F64(f64),
}

/// An array of values of one type, stored densely.
#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    /// 8 bits, unsigned.
    U8(Vec<u8>),
    /// 8 bits, signed.
    I8(Vec<i8>),
    /// 16 bits, unsigned.
    U16(Vec<u16>),
    /// 16 bits, signed.
    I16(Vec<i16>),
    /// 32 bits, unsigned.
    U32(Vec<u32>),
    /// 32 bits, signed.
    I32(Vec<i32>),
    /// IEEE single precision.
    F32(Vec<f32>),
    /// Truth values.
    Bool(Vec<bool>),
    /// Texts.
    Strings(Box<Strings>),
    /// Arrays.
    Nested(Vec<Array>),
    /// 64 bits, unsigned.
    U64(Vec<u64>),
    /// 64 bits, signed.
    I64(Vec<i64>),
    /// IEEE double precision.
    F64(Vec<f64>),
}

/// Many strings in one allocation: a vocabulary of 256k tokens costs its bytes plus four each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strings {
    text: String,
    /// Where each string ends in `text`.
    ends: Vec<u32>,
}

impl Strings {
    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string at `index`.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)? as usize;
        let start = match index {
            0 => 0,
            _ => self.ends[index - 1] as usize,
        };
        self.text.get(start..end)
    }

    /// All strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + '_ {
        (0..self.len()).map(|index| self.get(index).unwrap_or_default())
    }

    pub(super) fn with_capacity(count: usize) -> Self {
        Self { text: String::new(), ends: Vec::with_capacity(count) }
    }

    /// Appends what `write` adds to the text as one more string. The reader's limits keep the text below
    /// 2³² bytes.
    pub(super) fn push_with<E>(&mut self, write: impl FnOnce(&mut String) -> Result<(), E>) -> Result<(), E> {
        write(&mut self.text)?;
        self.ends.push(self.text.len() as u32);
        Ok(())
    }
}

impl<'a> FromIterator<&'a str> for Strings {
    fn from_iter<I: IntoIterator<Item = &'a str>>(strings: I) -> Self {
        let mut all = Self::default();
        for string in strings {
            all.text.push_str(string);
            all.ends.push(all.text.len() as u32);
        }
        all
    }
}

impl Value {
    /// The name of the value's type, for messages.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::U8(_) => "a u8",
            Self::I8(_) => "an i8",
            Self::U16(_) => "a u16",
            Self::I16(_) => "an i16",
            Self::U32(_) => "a u32",
            Self::I32(_) => "an i32",
            Self::F32(_) => "an f32",
            Self::Bool(_) => "a bool",
            Self::String(_) => "a string",
            Self::Array(array) => array.type_name(),
            Self::U64(_) => "a u64",
            Self::I64(_) => "an i64",
            Self::F64(_) => "an f64",
        }
    }

    /// The value as an integer, whatever width it was stored in.
    pub const fn as_integer(&self) -> Option<i128> {
        Some(match *self {
            Self::U8(value) => value as i128,
            Self::I8(value) => value as i128,
            Self::U16(value) => value as i128,
            Self::I16(value) => value as i128,
            Self::U32(value) => value as i128,
            Self::I32(value) => value as i128,
            Self::U64(value) => value as i128,
            Self::I64(value) => value as i128,
            _ => return None,
        })
    }
}

impl Array {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(values) => values.len(),
            Self::I8(values) => values.len(),
            Self::U16(values) => values.len(),
            Self::I16(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::F32(values) => values.len(),
            Self::Bool(values) => values.len(),
            Self::Strings(values) => values.len(),
            Self::Nested(values) => values.len(),
            Self::U64(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::F64(values) => values.len(),
        }
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) const fn type_name(&self) -> &'static str {
        match self {
            Self::U8(_) => "an array of u8",
            Self::I8(_) => "an array of i8",
            Self::U16(_) => "an array of u16",
            Self::I16(_) => "an array of i16",
            Self::U32(_) => "an array of u32",
            Self::I32(_) => "an array of i32",
            Self::F32(_) => "an array of f32",
            Self::Bool(_) => "an array of bool",
            Self::Strings(_) => "an array of strings",
            Self::Nested(_) => "an array of arrays",
            Self::U64(_) => "an array of u64",
            Self::I64(_) => "an array of i64",
            Self::F64(_) => "an array of f64",
        }
    }

    /// The elements as integers, whatever width they were stored in; `None` for other arrays.
    pub fn as_integers(&self) -> Option<Vec<i64>> {
        Some(match self {
            Self::U8(values) => values.iter().map(|&value| i64::from(value)).collect(),
            Self::I8(values) => values.iter().map(|&value| i64::from(value)).collect(),
            Self::U16(values) => values.iter().map(|&value| i64::from(value)).collect(),
            Self::I16(values) => values.iter().map(|&value| i64::from(value)).collect(),
            Self::U32(values) => values.iter().map(|&value| i64::from(value)).collect(),
            Self::I32(values) => values.iter().map(|&value| i64::from(value)).collect(),
            Self::U64(values) => {
                values.iter().map(|&value| i64::try_from(value)).collect::<Result<_, _>>().ok()?
            }
            Self::I64(values) => values.clone(),
            _ => return None,
        })
    }
}
