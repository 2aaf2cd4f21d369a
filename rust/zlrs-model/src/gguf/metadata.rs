//! The key/value pairs of a file, with getters that name the key in every error.

use super::value::{Array, Strings, Value};
use crate::ModelError;

/// The metadata of a model file. Keys are unique.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    /// Sorted by key.
    entries: Vec<(Box<str>, Value)>,
}

impl Metadata {
    /// Metadata with these pairs.
    ///
    /// # Errors
    /// [`ModelError::Malformed`] if a key appears twice.
    pub fn new(mut entries: Vec<(Box<str>, Value)>) -> Result<Self, ModelError> {
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        match entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => {
                Err(ModelError::malformed(format!("the metadata key {:?} appears more than once", pair[0].0)))
            }
            None => Ok(Self { entries }),
        }
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All pairs, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (&**key, value))
    }

    /// The value of `key`. O(log n).
    pub fn get(&self, key: &str) -> Option<&Value> {
        let index = self.entries.binary_search_by(|(other, _)| (**other).cmp(key)).ok()?;
        self.entries.get(index).map(|(_, value)| value)
    }

    /// The text of `key`, if the key exists.
    ///
    /// # Errors
    /// [`ModelError::WrongType`].
    pub fn optional_str(&self, key: &str) -> Result<Option<&str>, ModelError> {
        self.get(key)
            .map(|value| match value {
                Value::String(text) => Ok(&**text),
                other => Err(wrong_type(key, "a string", other)),
            })
            .transpose()
    }

    /// The text of `key`.
    ///
    /// # Errors
    /// [`ModelError::MissingKey`], [`ModelError::WrongType`].
    pub fn str(&self, key: &str) -> Result<&str, ModelError> {
        self.optional_str(key)?.ok_or_else(|| missing(key))
    }

    /// The integer of `key`, stored in any width, if the key exists.
    ///
    /// # Errors
    /// [`ModelError::WrongType`]; [`ModelError::BadValue`] if it does not fit `u32`.
    pub fn optional_u32(&self, key: &str) -> Result<Option<u32>, ModelError> {
        self.get(key)
            .map(|value| {
                let integer = value.as_integer().ok_or_else(|| wrong_type(key, "an integer", value))?;
                u32::try_from(integer)
                    .map_err(|_| ModelError::bad_value(key, integer, "an integer of 0 to 4294967295"))
            })
            .transpose()
    }

    /// The integer of `key`.
    ///
    /// # Errors
    /// As [`optional_u32`](Self::optional_u32), and [`ModelError::MissingKey`].
    pub fn u32(&self, key: &str) -> Result<u32, ModelError> {
        self.optional_u32(key)?.ok_or_else(|| missing(key))
    }

    /// The integer of `key` as a size within `1..=limit`, if the key exists.
    ///
    /// # Errors
    /// As [`optional_u32`](Self::optional_u32), and [`ModelError::BadValue`] outside the range.
    pub fn optional_size(&self, key: &str, limit: usize) -> Result<Option<usize>, ModelError> {
        self.optional_u32(key)?.map(|value| size(key, i64::from(value), limit)).transpose()
    }

    /// The integer of `key` as a size within `1..=limit`.
    ///
    /// # Errors
    /// As [`optional_size`](Self::optional_size), and [`ModelError::MissingKey`].
    pub fn size(&self, key: &str, limit: usize) -> Result<usize, ModelError> {
        self.optional_size(key, limit)?.ok_or_else(|| missing(key))
    }

    /// One size for each of `layers` layers within `1..=limit`: from an array of that length, or the same
    /// number for all. `None` if the key does not exist.
    ///
    /// # Errors
    /// [`ModelError::WrongType`], [`ModelError::BadValue`].
    pub fn optional_layer_sizes(
        &self,
        key: &str,
        layers: usize,
        limit: usize,
    ) -> Result<Option<Vec<usize>>, ModelError> {
        match self.get(key) {
            Some(Value::Array(array)) => {
                let values = array
                    .as_integers()
                    .ok_or_else(|| wrong_type_array(key, "an integer or an array of integers", array))?;
                if values.len() != layers {
                    let given = format!("an array of {}", values.len());
                    return Err(ModelError::bad_value(
                        key,
                        given,
                        format!("one element for each of {layers} layers"),
                    ));
                }
                values.into_iter().map(|value| size(key, value, limit)).collect::<Result<_, _>>().map(Some)
            }
            _ => Ok(self.optional_size(key, limit)?.map(|value| vec![value; layers])),
        }
    }

    /// The finite number of `key`, if the key exists.
    ///
    /// # Errors
    /// [`ModelError::WrongType`]; [`ModelError::BadValue`] if it is not finite.
    pub fn optional_f32(&self, key: &str) -> Result<Option<f32>, ModelError> {
        self.get(key)
            .map(|value| {
                let number = match *value {
                    Value::F32(number) => number,
                    Value::F64(number) => number as f32,
                    ref other => return Err(wrong_type(key, "a number", other)),
                };
                if number.is_finite() {
                    Ok(number)
                } else {
                    Err(ModelError::bad_value(key, number, "a finite number"))
                }
            })
            .transpose()
    }

    /// The truth value of `key`, if the key exists.
    ///
    /// # Errors
    /// [`ModelError::WrongType`].
    pub fn optional_bool(&self, key: &str) -> Result<Option<bool>, ModelError> {
        self.get(key)
            .map(|value| match value {
                Value::Bool(truth) => Ok(*truth),
                other => Err(wrong_type(key, "a bool", other)),
            })
            .transpose()
    }

    /// The strings of `key`, if the key exists.
    ///
    /// # Errors
    /// [`ModelError::WrongType`].
    pub fn optional_strings(&self, key: &str) -> Result<Option<&Strings>, ModelError> {
        self.get(key)
            .map(|value| match value {
                Value::Array(Array::Strings(strings)) => Ok(&**strings),
                other => Err(wrong_type(key, "an array of strings", other)),
            })
            .transpose()
    }

    /// The strings of `key`.
    ///
    /// # Errors
    /// [`ModelError::MissingKey`], [`ModelError::WrongType`].
    pub fn strings(&self, key: &str) -> Result<&Strings, ModelError> {
        self.optional_strings(key)?.ok_or_else(|| missing(key))
    }

    /// The integers of `key`, stored in any width, if the key exists.
    ///
    /// # Errors
    /// [`ModelError::WrongType`].
    pub fn optional_integers(&self, key: &str) -> Result<Option<Vec<i64>>, ModelError> {
        self.get(key)
            .map(|value| match value {
                Value::Array(array) => {
                    array.as_integers().ok_or_else(|| wrong_type(key, "an array of integers", value))
                }
                other => Err(wrong_type(key, "an array of integers", other)),
            })
            .transpose()
    }

    /// The numbers of `key`, stored in single precision.
    ///
    /// # Errors
    /// [`ModelError::MissingKey`], [`ModelError::WrongType`].
    pub fn floats(&self, key: &str) -> Result<&[f32], ModelError> {
        match self.get(key).ok_or_else(|| missing(key))? {
            Value::Array(Array::F32(numbers)) => Ok(numbers),
            other => Err(wrong_type(key, "an array of f32", other)),
        }
    }
}

fn size(key: &str, value: i64, limit: usize) -> Result<usize, ModelError> {
    usize::try_from(value)
        .ok()
        .filter(|value| (1..=limit).contains(value))
        .ok_or_else(|| ModelError::bad_value(key, value, format!("1 to {limit}")))
}

fn missing(key: &str) -> ModelError {
    ModelError::MissingKey { key: key.to_owned() }
}

fn wrong_type(key: &str, expected: &'static str, found: &Value) -> ModelError {
    ModelError::WrongType { key: key.to_owned(), expected, found: found.type_name() }
}

fn wrong_type_array(key: &str, expected: &'static str, found: &Array) -> ModelError {
    ModelError::WrongType { key: key.to_owned(), expected, found: found.type_name() }
}
