//! Whole forward passes of synthetic models, every kernel run on the host, give the CPU backend's logits bit for
//! bit: every architecture and weight type, prompts and single tokens, sequences together, copied and moved blocks.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use support::model::{BLOCKS, Model, Piece, plan};
use support::{Host, Order, Random, assert_bits};
use zlrs_cuda::{CudaBackend, CudaError, LoadError, self_test, self_test_model};
use zlrs_engine::backend::{Backend, BackendError};
use zlrs_engine::cpu::CpuBackend;
use zlrs_engine::plan::Plan;
use zlrs_kernels::TensorType;
use zlrs_model::decoder::Architecture;
use zlrs_model::synthetic::{Settings, Types};

fn check(cpu: &mut CpuBackend, cuda: &mut CudaBackend<Host>, plan: &Plan, what: &str) {
    let expected = cpu.step(plan, &|| false).unwrap().to_vec();
    let found = cuda.step(plan, &|| false).unwrap();
    assert!(expected.iter().all(|logit| logit.is_finite()), "{what}: not finite");
    assert_bits(found, &expected, what);
}

/// A prompt, more of it, tokens one by one, another sequence beside it.
fn conversation(settings: &Settings, what: &str) {
    let model = Model::new(settings);
    let (mut cpu, mut cuda) = (model.cpu(), model.cuda(Host::new(Order::Shuffled)).unwrap());
    let mut random = Random(1);
    let (one, other) = ([5_u32, 2, 9], [7_u32]);
    let pieces = [
        vec![Piece { blocks: &one, first: 0, rows: 19, all: false }],
        vec![
            Piece { blocks: &one, first: 19, rows: 1, all: false },
            Piece { blocks: &other, first: 0, rows: 9, all: true },
        ],
        vec![
            Piece { blocks: &other, first: 9, rows: 1, all: false },
            Piece { blocks: &one, first: 20, rows: 3, all: true },
        ],
        vec![Piece { blocks: &one, first: 23, rows: 20, all: false }],
    ];
    for (step, pieces) in pieces.iter().enumerate() {
        check(&mut cpu, &mut cuda, &plan(pieces, &mut random), &format!("{what}, step {step}"));
    }
}

#[test]
fn every_architecture() {
    for architecture in Architecture::ALL {
        let settings = Settings { architecture, ..Settings::default() };
        conversation(&settings, &format!("{architecture:?}"));
    }
}

#[test]
fn every_type_of_weights() {
    for tensor_type in TensorType::ALL {
        let types = Types::One(tensor_type);
        conversation(
            &Settings { types, layers: 1, tied_head: true, ..Settings::default() },
            tensor_type.name(),
        );
    }
}

#[test]
fn a_second_split_in_parts_and_together() {
    let settings = Settings { layers: 2, types: Types::One(TensorType::Q8_0), ..Settings::default() };
    let model = Model::new(&settings);
    let (mut cpu, mut cuda) = (model.cpu(), model.cuda(Host::new(Order::Ascending)).unwrap());
    let mut random = Random(2);
    let blocks: Vec<u32> = (0..40).map(|block| block * 7 % 40).collect();
    for (first, rows) in [(0, 256), (256, 250), (506, 30), (536, 1)] {
        let piece = Piece { blocks: &blocks, first, rows, all: false };
        check(&mut cpu, &mut cuda, &plan(&[piece], &mut random), &format!("from {first}"));
    }
}

#[test]
fn blocks_are_copied_and_moved_between_backends() {
    let model = Model::new(&Settings::default());
    let (mut cpu, mut cuda) = (model.cpu(), model.cuda(Host::new(Order::Ascending)).unwrap());
    let mut random = Random(3);
    check(
        &mut cpu,
        &mut cuda,
        &plan(&[Piece { blocks: &[4, 6], first: 0, rows: 20, all: true }], &mut random),
        "a prompt",
    );
    // The second block is copied before it is written on.
    let mut forked = plan(&[Piece { blocks: &[4, 8], first: 20, rows: 2, all: true }], &mut random);
    forked.copies_mut().push(zlrs_engine::kv::BlockCopy { from: 6, to: 8 });
    check(&mut cpu, &mut cuda, &forked, "a fork");
    let (mut of_cpu, mut of_cuda) = (Vec::new(), Vec::new());
    for block in [4, 8] {
        cpu.read_block(block, &mut of_cpu).unwrap();
        cuda.read_block(block, &mut of_cuda).unwrap();
    }
    assert!(of_cpu == of_cuda, "blocks differ");
    let block_bytes = cuda.shape().block_bytes;
    cpu.write_block(1, &of_cuda[..block_bytes]).unwrap();
    cuda.write_block(1, &of_cpu[..block_bytes]).unwrap();
    let moved = plan(&[Piece { blocks: &[1, 8], first: 22, rows: 1, all: true }], &mut random);
    check(&mut cpu, &mut cuda, &moved, "a moved block");
    assert!(matches!(cuda.write_block(1, &[0]), Err(BackendError::Kernel(_))));
    assert!(matches!(cuda.read_block(BLOCKS as u32, &mut of_cpu), Err(BackendError::Kernel(_))));
}

#[test]
fn interrupts_bad_plans_and_full_memory_are_errors() {
    let model = Model::new(&Settings::default());
    let mut cuda = model.cuda(Host::new(Order::Ascending)).unwrap();
    let mut random = Random(4);
    let good = plan(&[Piece { blocks: &[0], first: 0, rows: 2, all: true }], &mut random);
    assert!(matches!(cuda.step(&good, &|| true), Err(BackendError::Interrupted)));
    let far = plan(&[Piece { blocks: &[0], first: 15, rows: 2, all: true }], &mut random);
    assert!(matches!(cuda.step(&far, &|| false), Err(BackendError::Plan { .. })));
    let missing = plan(&[Piece { blocks: &[BLOCKS as u32], first: 0, rows: 1, all: true }], &mut random);
    assert!(matches!(cuda.step(&missing, &|| false), Err(BackendError::Kernel(_))));
    cuda.recover().unwrap();
    assert!(cuda.step(&good, &|| false).is_ok());

    for room in [0, 1 << 16, 1 << 20, 3 << 20] {
        let result = model.cuda(Host::with_room(room));
        let error = result.err().unwrap();
        assert!(matches!(error, LoadError::Device(CudaError::OutOfMemory { .. })), "{error}");
    }
}

#[test]
fn a_step_like_one_before_allocates_nothing_on_the_device() {
    let model = Model::new(&Settings::default());
    let host = Host::new(Order::Ascending);
    let allocations = host.allocations.clone();
    let mut cuda = model.cuda(host).unwrap();
    let mut random = Random(5);
    let mut step = |first| {
        let piece = Piece { blocks: &[3, 1], first, rows: 4, all: true };
        cuda.step(&plan(&[piece], &mut random), &|| false).unwrap();
    };
    step(0);
    let before = allocations.load(std::sync::atomic::Ordering::Relaxed);
    step(4);
    step(8);
    assert_eq!(allocations.load(std::sync::atomic::Ordering::Relaxed), before);
}

#[test]
fn the_self_test_passes_here_and_sees_a_kernel_that_is_off() {
    self_test(Host::new(Order::Shuffled)).unwrap();
    for kernel in ["gemv_q4_k_4", "rms_norm", "attention_merge", "attention_mixed", "seal_blocks"] {
        assert!(matches!(self_test(Host::without(kernel)), Err(CudaError::SelfTest { .. })), "{kernel}");
    }
}

#[test]
fn the_self_test_of_a_model_covers_its_own_kernels() {
    let model =
        Model::new(&Settings { types: Types::One(TensorType::Q6K), layers: 1, ..Settings::default() });
    self_test_model(Host::new(Order::Shuffled), &model.decoder, &model.file).unwrap();
    for kernel in
        ["gemv_q6_k_1", "gemv_q6_k_2", "gemv_q6_k_4", "gemv_q6_k_8", "matmul_q6_k", "attention_merge"]
    {
        let error = self_test_model(Host::without(kernel), &model.decoder, &model.file).err().unwrap();
        assert!(matches!(error, LoadError::Device(CudaError::SelfTest { .. })), "{kernel}: {error}");
    }
    self_test_model(Host::without("gemv_q4_k_1"), &model.decoder, &model.file).unwrap();
}
