//! Packing keeps every bit, reads every row once, and reports what failed.

use crate::weights::{Fill, Random, Scales, available, file_rows, pack};
use std::sync::Mutex;
use zlrs_kernels::{KernelError, Matrix, Pool, TensorType, naive};

/// Rows decode to the same bits from every packed form, for counts of rows around multiples of 8.
#[test]
fn packed_rows_decode_as_file_rows() {
    let pool = Pool::new(2).unwrap();
    let mut random = Random::new(29);
    for tensor_type in TensorType::ALL {
        for rows in [1, 7, 8, 9, 31] {
            let cols = 512;
            let file = file_rows(tensor_type, rows, cols, Fill::Random, Scales::Anything, &mut random);
            let row_bytes = tensor_type.row_bytes(cols).unwrap();
            for isa in available() {
                let weights = pack(isa, &pool, tensor_type, rows, cols, &file);
                for (row, bytes) in file.chunks(row_bytes).enumerate() {
                    let (mut given, mut expected) = (vec![1.0; cols], vec![2.0; cols]);
                    weights.decode_row(row, &mut given).unwrap();
                    naive::decode::decode_row(tensor_type, bytes, &mut expected);
                    for (given, expected) in given.iter().zip(&expected) {
                        let same =
                            given.to_bits() == expected.to_bits() || given.is_nan() && expected.is_nan();
                        assert!(same, "{tensor_type} {isa:?} row {row} of {rows}: {given} is not {expected}");
                    }
                }
            }
        }
    }
}

/// Every row is read exactly once, in slices smaller than the tensor, and memory is that of the file with rows
/// rounded up to 8.
#[test]
fn every_row_is_read_once_in_slices() {
    let pool = Pool::new(2).unwrap();
    let (rows, cols) = (3001, 2048);
    for isa in available() {
        for tensor_type in [TensorType::Q8_0, TensorType::F16] {
            let row_bytes = tensor_type.row_bytes(cols).unwrap();
            let seen = Mutex::new(vec![0; rows]);
            let largest = Mutex::new(0);
            let weights = Matrix::pack(isa, &pool, tensor_type, rows, cols, &|range, buffer: &mut [u8]| {
                assert_eq!(buffer.len(), range.len() * row_bytes);
                let mut largest = largest.lock().unwrap();
                *largest = buffer.len().max(*largest);
                seen.lock().unwrap()[range].iter_mut().for_each(|n| *n += 1);
                buffer.fill(1);
                Ok(())
            })
            .unwrap();
            assert!(seen.into_inner().unwrap().iter().all(|&n| n == 1));
            assert!(largest.into_inner().unwrap() <= 2 << 20);
            assert!(weights.bytes() >= rows * row_bytes && weights.bytes() < (rows + 8) * row_bytes);
            assert_eq!((weights.rows(), weights.cols()), (rows, cols));
            assert_eq!((weights.tensor_type(), weights.isa()), (tensor_type, isa));
        }
    }
}

/// A reader's failure comes back with the rows it concerns, and reading stops.
#[test]
fn a_failed_read_is_reported() {
    let pool = Pool::new(2).unwrap();
    let (rows, cols) = (20_000, 2048);
    for isa in available() {
        let reads = Mutex::new(0);
        let result = Matrix::pack(isa, &pool, TensorType::Q8_0, rows, cols, &|range, _: &mut [u8]| {
            *reads.lock().unwrap() += 1;
            if range.contains(&1234) { Err(std::io::Error::other("disk gone")) } else { Ok(()) }
        });
        match result.unwrap_err() {
            KernelError::Read { first_row, end_row, source } => {
                assert!((first_row..end_row).contains(&1234));
                assert_eq!(source.to_string(), "disk gone");
            }
            other => panic!("{other}"),
        }
        assert!(reads.into_inner().unwrap() < 30);
    }
}
