//! Headers that are right, and headers that are wrong in every way that has been seen in the wild.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod common;

use std::error::Error as _;

use proptest::prelude::*;
use sha2::Digest as _;
use zlrs_kernels::TensorType;
use zlrs_model::ModelError;
use zlrs_model::gguf::{Array, File, Header, Strings, Value, limits};
use zlrs_model::source::TensorSource;
use zlrs_model::synthetic::{Settings, Writer, model};

fn refused(bytes: &[u8]) -> String {
    let bytes = bytes.to_vec();
    Header::read(&bytes).unwrap_err().to_string()
}

fn one_tensor(dimensions: &[u64], type_number: u32, data: usize) -> Vec<u8> {
    Writer::new(3).raw_tensor("t", dimensions, type_number, vec![0; data]).finish()
}

#[test]
fn every_value_type_is_read_as_written() {
    let all = vec![
        ("a", Value::U8(1)),
        ("b", Value::I8(-1)),
        ("c", Value::U16(2)),
        ("d", Value::I16(-2)),
        ("e", Value::U32(3)),
        ("f", Value::I32(-3)),
        ("g", Value::F32(0.5)),
        ("h", Value::Bool(true)),
        ("i", Value::String("ä".into())),
        ("j", Value::U64(u64::MAX)),
        ("k", Value::I64(i64::MIN)),
        ("l", Value::F64(-0.5)),
        ("m", Value::Array(Array::U8(vec![1, 2]))),
        ("n", Value::Array(Array::I8(vec![-1]))),
        ("o", Value::Array(Array::U16(vec![1]))),
        ("p", Value::Array(Array::I16(vec![-1]))),
        ("q", Value::Array(Array::U32(vec![1]))),
        ("r", Value::Array(Array::I32(vec![-1]))),
        ("s", Value::Array(Array::F32(vec![1.5]))),
        ("t", Value::Array(Array::Bool(vec![true, false]))),
        ("u", Value::Array(Array::Strings(Box::new(["x", "", "yz"].into_iter().collect::<Strings>())))),
        ("v", Value::Array(Array::Nested(vec![Array::U8(vec![1]), Array::Nested(vec![])]))),
        ("w", Value::Array(Array::U64(vec![u64::MAX]))),
        ("x", Value::Array(Array::I64(vec![-1]))),
        ("y", Value::Array(Array::F64(vec![2.5]))),
    ];
    for version in [2, 3] {
        let mut writer = Writer::new(version);
        for (key, value) in &all {
            writer.entry(*key, value.clone());
        }
        let header = Header::read(&writer.finish()).unwrap();
        assert_eq!(header.version, version);
        let read: Vec<_> = header.metadata.iter().map(|(key, value)| (key, value.clone())).collect();
        assert_eq!(read, all);
    }
}

#[test]
fn getters_name_the_key_and_both_types() {
    let mut writer = Writer::new(3);
    writer.entry("n", Value::I64(7)).entry("neg", Value::I8(-7)).entry("inf", Value::F32(f32::INFINITY));
    let metadata = Header::read(&writer.finish()).unwrap().metadata;
    assert_eq!(metadata.u32("n").unwrap(), 7);
    assert_eq!(metadata.optional_str("absent").unwrap(), None);
    for (error, words) in [
        (metadata.str("n").unwrap_err(), r#"metadata "n" is an i64, expected a string"#),
        (metadata.u32("neg").unwrap_err(), r#"metadata "neg" is -7"#),
        (metadata.size("n", 6).unwrap_err(), "1 to 6"),
        (metadata.optional_f32("inf").unwrap_err(), "a finite number"),
        (metadata.str("absent").unwrap_err(), r#"no "absent""#),
        (metadata.strings("n").unwrap_err(), "an array of strings"),
    ] {
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn what_is_not_a_little_endian_gguf_2_or_3_says_what_it_is() {
    let good = model(&Settings::default());
    assert!(refused(b"GG").contains("ends too early"));
    assert!(refused(b"").contains("ends too early"));
    assert!(refused(b"PK\x03\x04........").contains("ZIP"));
    assert!(refused(b"version https://git-lfs").contains("large-file store"));
    assert!(refused(b"<!DOCTYPE html>").contains("web page"));
    assert!(refused(b"FUGG\x03\0\0\0").contains("big-endian"));
    let mut swapped = good.clone();
    swapped[4..8].copy_from_slice(&3_u32.to_be_bytes());
    assert!(refused(&swapped).contains("big-endian"));
    for version in [0_u32, 1, 4] {
        let mut other = good.clone();
        other[4..8].copy_from_slice(&version.to_le_bytes());
        assert!(refused(&other).contains(&format!("version {version} is not supported")));
    }
}

#[test]
fn dimensions_that_cannot_be_are_refused() {
    let f32_number = TensorType::F32.gguf();
    assert!(refused(&one_tensor(&[], f32_number, 4)).contains("0 dimensions"));
    assert!(refused(&one_tensor(&[1; 5], f32_number, 4)).contains("5 dimensions"));
    assert!(refused(&one_tensor(&[0], f32_number, 4)).contains("dimension 0"));
    assert!(refused(&one_tensor(&[4, 0], f32_number, 4)).contains("dimension 1"));
    assert!(refused(&one_tensor(&[1 << 40, 1 << 40], f32_number, 4)).contains("multiply to more"));
    assert!(refused(&one_tensor(&[4, 1 << 32, 1 << 32], f32_number, 4)).contains("multiply to more"));
    assert!(refused(&one_tensor(&[u64::MAX, 2], f32_number, 4)).contains("multiple of"));
    assert!(refused(&one_tensor(&[31], TensorType::Q8_0.gguf(), 34)).contains("multiple of 32"));
    assert!(refused(&one_tensor(&[32], 20, 18)).contains("IQ4_NL"));
    assert!(refused(&one_tensor(&[32], 999, 18)).contains("type number 999"));
    assert!(refused(&one_tensor(&[3], f32_number, 11)).contains("the file has"));
    let header = Header::read(&one_tensor(&[3, 2, 2], f32_number, 48)).unwrap();
    let tensor = header.tensor("t").unwrap();
    assert_eq!((tensor.rows, tensor.cols, tensor.bytes, tensor.dimensions), (4, 3, 48, 3));
}

/// Byte offset of the only tensor's data offset in files of `one_tensor`-like makings: the last 8 bytes of
/// the header before padding.
fn offset_field(bytes: &[u8], tensors: usize) -> usize {
    let header_end = 24 + tensors * (8 + 1 + 4 + 8 + 4 + 8);
    assert!(bytes.len() > header_end);
    header_end - 8
}

#[test]
fn tensors_lie_aligned_inside_the_file_and_apart() {
    let two = Writer::new(3)
        .tensor("a", &[8], TensorType::F32, vec![0; 32])
        .tensor("b", &[8], TensorType::F32, vec![0; 32])
        .finish();
    let at = offset_field(&two, 2);
    let moved = |offset: u64| {
        let mut bytes = two.clone();
        bytes[at..at + 8].copy_from_slice(&offset.to_le_bytes());
        refused(&bytes)
    };
    assert!(moved(0).contains("overlap"));
    assert!(moved(33).contains("multiple of the alignment 32"));
    assert!(moved(64).contains("ends too early"));
    assert!(moved(u64::MAX - 31).contains("ends too early"));
    let twice = Writer::new(3)
        .tensor("a", &[8], TensorType::F32, vec![0; 32])
        .tensor("a", &[8], TensorType::F32, vec![0; 32])
        .finish();
    assert!(refused(&twice).contains(r#"tensor "a" appears more than once"#));
    let key_twice = Writer::new(3).entry("k", Value::U8(1)).entry("k", Value::U8(2)).finish();
    assert!(refused(&key_twice).contains(r#""k" appears more than once"#));
}

#[test]
fn alignment_is_a_small_power_of_two() {
    for alignment in [1_u32, 8, 64, 4096] {
        let bytes =
            Writer::new(3).alignment(alignment).tensor("t", &[2], TensorType::F32, vec![7; 8]).finish();
        let header = Header::read(&bytes).unwrap();
        assert_eq!(header.data_offset % u64::from(alignment), 0);
        assert_eq!(&bytes[header.tensors[0].offset as usize..][..8], [7; 8]);
    }
    for alignment in [0_u32, 3, limits::MAX_ALIGNMENT * 2] {
        let bytes = Writer::new(3).entry("general.alignment", Value::U32(alignment)).finish();
        assert!(refused(&bytes).contains("power of two"));
    }
}

/// A header with these counts and nothing after them.
fn counts(tensors: u64, entries: u64) -> Vec<u8> {
    [&b"GGUF"[..], &3_u32.to_le_bytes(), &tensors.to_le_bytes(), &entries.to_le_bytes()].concat()
}

/// A header with one entry of key "k", of that type, with these bytes as value.
fn entry(kind: u32, value: &[u8]) -> Vec<u8> {
    [&counts(0, 1)[..], &1_u64.to_le_bytes(), b"k", &kind.to_le_bytes(), value].concat()
}

#[test]
fn counts_and_lengths_have_limits() {
    assert!(refused(&counts(u64::MAX, 0)).contains("the number of tensors is 18446744073709551615"));
    assert!(refused(&counts(0, limits::MAX_METADATA_ENTRIES + 1)).contains("the limit is 65536"));
    assert!(refused(&counts(limits::MAX_TENSORS, 0)).contains("ends too early"));
    let key = [&counts(0, 1)[..], &(1_u64 << 40).to_le_bytes()].concat();
    assert!(refused(&key).contains("the limit is 65535"));
    assert!(refused(&entry(8, &u64::MAX.to_le_bytes())).contains("the limit is 16777216"));
    assert!(refused(&entry(8, &1000_u64.to_le_bytes())).contains("needs 1000 bytes"));
    let array = |kind: u32, count: u64| entry(9, &[&kind.to_le_bytes()[..], &count.to_le_bytes()].concat());
    assert!(refused(&array(4, u64::MAX)).contains("the limit is 16777216"));
    assert!(refused(&array(12, limits::MAX_ARRAY_LEN)).contains("needs 134217728 bytes"));
    assert!(refused(&array(8, limits::MAX_ARRAY_LEN)).contains("ends too early"));
    assert!(refused(&array(9, limits::MAX_ARRAY_LEN)).contains("ends too early"));
    assert!(refused(&array(77, 1)).contains("unknown type 77"));
    assert!(refused(&entry(13, &[0; 8])).contains("unknown type 13"));
    assert!(refused(&entry(7, &[2])).contains("bool of value 2"));
    assert!(refused(&entry(8, &[&2_u64.to_le_bytes()[..], &[0xff, 0xfe]].concat())).contains("UTF-8"));
    // Arrays in arrays, one in another, deeper than the limit.
    let nested =
        [&9_u32.to_le_bytes()[..], &1_u64.to_le_bytes()].concat().repeat(limits::MAX_ARRAY_DEPTH + 1);
    assert!(refused(&entry(9, &nested)).contains("the limit is 4"));
}

#[test]
fn parts_of_a_split_model_are_named() {
    let bytes = Writer::new(3).entry("split.count", Value::U16(3)).entry("split.no", Value::U16(1)).finish();
    assert!(refused(&bytes).contains("part 2 of 3"));
}

#[test]
fn a_good_file_cut_anywhere_is_refused() {
    let good = model(&Settings::default());
    let header_end = Header::read(&good).unwrap().data_offset as usize;
    let cuts = (0..header_end).step_by(97).chain((0..good.len()).step_by(4096));
    for cut in cuts {
        assert!(Header::read(&good[..cut].to_vec()).is_err(), "cut at {cut}");
    }
    // Bytes after the last tensor are no reason to refuse.
    assert!(Header::read(&[&good[..], &[0; 100]].concat()).is_ok());
}

#[test]
fn a_vocabulary_of_256k_strings_is_read() {
    let texts: Vec<String> = (0..256 << 10).map(|index| format!("token{index}")).collect();
    let strings: Strings = texts.iter().map(String::as_str).collect();
    let bytes = Writer::new(3).entry("t", Value::Array(Array::Strings(Box::new(strings)))).finish();
    let header = Header::read(&bytes).unwrap();
    let read = header.metadata.strings("t").unwrap();
    assert_eq!(read.len(), 256 << 10);
    assert!(read.iter().eq(texts.iter().map(String::as_str)));
    assert_eq!(read.get(read.len()), None);
}

#[test]
fn files_are_opened_summed_and_read_by_name() {
    let bytes = model(&Settings::default());
    let handle = common::file_of(&bytes);
    let file = File::open(handle.path()).unwrap();
    assert_eq!(file.bytes(), bytes.len() as u64);
    let sum = file.sha256().unwrap();
    assert_eq!(sum.len(), 64);
    let digits = (0..32).map(|at| u8::from_str_radix(&sum[2 * at..2 * at + 2], 16).unwrap());
    assert!(digits.eq(sha2::Sha256::digest(&bytes)));
    let tensor = file.info("output_norm.weight").unwrap();
    let mut read = vec![0; 8];
    file.read(tensor, 4, &mut read).unwrap();
    assert_eq!(read, bytes[tensor.offset as usize + 4..][..8]);
    let mut beyond = vec![0; tensor.bytes as usize + 1];
    assert_eq!(file.read(tensor, 0, &mut beyond).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    assert!(file.read(tensor, u64::MAX, &mut read).is_err());
    assert!(file.info("absent").is_none());
}

#[test]
fn errors_of_files_name_the_path() {
    let missing = File::open("no/such/model.gguf".as_ref()).unwrap_err();
    assert!(missing.to_string().starts_with("no/such/model.gguf: could not open the file"), "{missing}");
    assert!(missing.source().is_some());
    let directory = tempfile::tempdir().unwrap();
    assert!(File::open(directory.path()).unwrap_err().to_string().contains("it is a directory"));
    let other = common::file_of(b"hello world");
    assert!(matches!(File::open(other.path()).unwrap_err().cause(), ModelError::NotGguf { .. }));
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        texts in prop::collection::vec(any::<String>(), 0..20),
        numbers in prop::collection::vec(any::<i64>(), 0..20),
        lengths in prop::collection::vec(1..50_u64, 0..6),
    ) {
        let mut writer = Writer::new(3);
        let strings: Strings = texts.iter().map(String::as_str).collect();
        writer.entry("texts", Value::Array(Array::Strings(Box::new(strings))));
        writer.entry("numbers", Value::Array(Array::I64(numbers.clone())));
        for (index, &length) in lengths.iter().enumerate() {
            writer.tensor(format!("t{index}"), &[length], TensorType::F32, vec![index as u8; length as usize * 4]);
        }
        let bytes = writer.finish();
        let header = Header::read(&bytes).unwrap();
        prop_assert!(header.metadata.strings("texts").unwrap().iter().eq(texts.iter().map(String::as_str)));
        prop_assert_eq!(header.metadata.optional_integers("numbers").unwrap().unwrap(), numbers);
        for (index, &length) in lengths.iter().enumerate() {
            let tensor = header.tensor(&format!("t{index}")).unwrap();
            prop_assert_eq!(tensor.bytes, length * 4);
            let data = &bytes[tensor.offset as usize..][..tensor.bytes as usize];
            prop_assert!(data.iter().all(|&byte| byte == index as u8));
        }
    }
}
