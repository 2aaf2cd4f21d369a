//! Calls that cannot be right are refused, by what and with which numbers, and write nothing.

use crate::weights::available;
use zlrs_kernels::{Isa, KernelError, Matrix, Pool, Scratch, TensorType, matmul};

fn zeros(
    isa: Isa,
    pool: &Pool,
    tensor_type: TensorType,
    rows: usize,
    cols: usize,
) -> Result<Matrix, KernelError> {
    Matrix::pack(isa, pool, tensor_type, rows, cols, &|_, buffer: &mut [u8]| {
        buffer.fill(0);
        Ok(())
    })
}

#[test]
fn shapes_that_cannot_be() {
    let pool = Pool::new(1).unwrap();
    for isa in available() {
        for (tensor_type, cols) in
            [(TensorType::Q4K, 128), (TensorType::Q5_0, 33), (TensorType::F32, 0), (TensorType::Q8_0, 0)]
        {
            let error = zeros(isa, &pool, tensor_type, 1, cols).unwrap_err();
            assert!(matches!(error, KernelError::PartialBlock { cols: c, .. } if c == cols), "{error}");
        }
        for (rows, cols) in [
            (usize::MAX, 32),
            (usize::MAX / 34, 32),
            (1, usize::MAX / 32 * 32),
            (usize::MAX / 2 / 34, 64),
            (1 << 40, 1 << 30),
        ] {
            let error = zeros(isa, &pool, TensorType::Q8_0, rows, cols).unwrap_err();
            assert!(matches!(error, KernelError::TooLarge { .. }), "{rows} x {cols}: {error}");
        }
        // Fits the address space but no machine.
        let error = zeros(isa, &pool, TensorType::Q8_0, 1 << 45, 1 << 13).unwrap_err();
        assert!(matches!(error, KernelError::OutOfMemory { .. }), "{error}");
    }
}

#[test]
fn slices_that_do_not_fit() {
    let pool = Pool::new(1).unwrap();
    for isa in available() {
        let weights = zeros(isa, &pool, TensorType::Q8_0, 10, 64).unwrap();
        let call = |x: usize, rows: usize, bias: usize, out: usize| {
            let (x, bias, mut out) = (vec![1.0; x], vec![1.0; bias], vec![7.0; out]);
            let result = matmul(&pool, &weights, &x, rows, Some(&bias), &mut out, &mut Scratch::new());
            if result.is_err() {
                assert!(out.iter().all(|&v| v == 7.0));
            }
            result
        };
        assert!(call(128, 2, 10, 20).is_ok());
        for (x, rows, bias, out, what) in [
            (127, 2, 10, 20, "matmul input"),
            (128, 2, 9, 20, "matmul bias"),
            (128, 2, 10, 21, "matmul output"),
            (64, 2, 10, 20, "matmul input"),
            (64, usize::MAX, 10, 10, "matmul input"),
        ] {
            match call(x, rows, bias, out).unwrap_err() {
                KernelError::Length { what: given, .. } => assert_eq!(given, what),
                other => panic!("{other}"),
            }
        }
        assert!(matches!(
            weights.decode_row(10, &mut [0.0; 64]),
            Err(KernelError::OutOfRange { given: 10, limit: 10, .. })
        ));
        assert!(matches!(
            weights.decode_row(0, &mut [0.0; 63]),
            Err(KernelError::Length { expected: 64, given: 63, .. })
        ));
    }
}

/// No rows of weights or none of activations: nothing to do, no error.
#[test]
fn empty_products() {
    let pool = Pool::new(2).unwrap();
    for isa in available() {
        for tensor_type in TensorType::ALL {
            let none = zeros(isa, &pool, tensor_type, 0, 256).unwrap();
            matmul(&pool, &none, &[1.0; 256], 1, None, &mut [], &mut Scratch::new()).unwrap();
            let some = zeros(isa, &pool, tensor_type, 3, 256).unwrap();
            matmul(&pool, &some, &[], 0, None, &mut [], &mut Scratch::new()).unwrap();
        }
    }
}

#[test]
fn names_of_instruction_sets() {
    for isa in Isa::ALL {
        assert_eq!(Isa::from_name(isa.name()).unwrap(), isa);
    }
    let error = Isa::from_name("sse9").unwrap_err().to_string();
    assert!(error.contains("sse9") && error.contains("avx2"), "{error}");
    assert!(Isa::detect().is_available());
    // Whatever this run's environment says is what selection obeys.
    let expected = std::env::var("ZLRS_ISA").map_or(Isa::detect(), |name| Isa::from_name(&name).unwrap());
    assert_eq!(Isa::select().unwrap(), expected);
}

#[test]
fn types_and_their_numbers() {
    for tensor_type in TensorType::ALL {
        assert_eq!(TensorType::from_gguf(tensor_type.gguf()), Some(tensor_type));
        assert_eq!(tensor_type.row_bytes(tensor_type.block_len()), Some(tensor_type.block_bytes()));
        assert_eq!(tensor_type.row_bytes(0), None);
    }
    assert_eq!(TensorType::from_gguf(4), None);
    assert_eq!(TensorType::Q4K.row_bytes(255), None);
    assert_eq!(TensorType::F32.row_bytes(usize::MAX), None);
}
