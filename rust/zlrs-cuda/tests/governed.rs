//! The backend tells the governor what its steps move, in which form, and the governor's word reaches blocks; a lost
//! device is found lost.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use std::sync::atomic::Ordering;

use support::model::{Model, Piece, plan};
use support::{Host, Order, Random};
use zlrs_cuda::Argument;
use zlrs_engine::backend::{Backend, BackendError};
use zlrs_engine::governor::{Governor, Mode, STEPS_OF_A_READING, Sensor, SensorReading, Settings};
use zlrs_engine::plan::KvPrecision;
use zlrs_model::synthetic::Settings as ModelSettings;

#[test]
fn every_word_is_read_once() {
    let mut random = Random(2);
    for (count, blocks) in [(1_usize, 1_u32), (255, 1), (1000, 3), (4097, 5)] {
        let words: Vec<u32> = (0..4 * count).map(|_| random.next() as u32).collect();
        let mut host = Host::new(Order::Shuffled);
        let memory = host.upload_all(&words);
        let out = host.upload_all(&vec![u32::MAX; 256 * blocks as usize]);
        let [memory, out_argument] = [memory, out].map(Argument::Address);
        host.run("read_words", [blocks, 1, 1], 256, 0, &[memory, Argument::Size(count as u64), out_argument]);
        let found: Vec<u32> = host.download_all(out, 256 * blocks as usize);
        let mut expected = vec![0; found.len()];
        for (index, word) in words.chunks_exact(4).enumerate() {
            expected[index % found.len()] ^= word.iter().fold(0, |all, part| all ^ part);
        }
        assert_eq!(found, expected, "{count} words, {blocks} blocks");
    }
}

struct Cool;

impl Sensor for Cool {
    fn read(&mut self) -> SensorReading {
        SensorReading { temperature_c: Some(40.0), clock_mhz: Some(1), memory_clock_mhz: Some(2) }
    }
}

#[test]
fn steps_are_reported_and_the_governor_is_obeyed() {
    let model = Model::new(&ModelSettings { layers: 1, ..ModelSettings::default() });
    let host = Host::new(Order::Ascending);
    let backend = model.cuda(host).unwrap().with_sensor(Some(Box::new(Cool)));
    // What a device reads in no time takes the host minutes.
    let mut backend = backend.with_peak_bytes(1 << 20);
    let governor = Governor::new(Settings { persistence: 1, dwell: 0, ..Settings::default() });
    backend.govern(governor.clone());
    let mut random = Random(6);
    let table = [0, 1, 2, 3];
    for position in 0..2 * STEPS_OF_A_READING {
        let piece = Piece { blocks: &table, first: position, rows: 1, all: true };
        let mut step = plan(&[piece], &mut random);
        step.kv_precision = governor.precision();
        backend.step(&step, &|| false).unwrap();
    }
    let report = governor.report();
    assert!(report.peak_bytes_per_second > 0.0);
    // Kernels on the host are far from the host's own bandwidth: the memory is idle.
    assert_eq!((report.mode, report.precision), (Mode::HbmOptimized, KvPrecision::Q4));
    let decision = report.decisions[0];
    assert_eq!((decision.reading, decision.sensor.memory_clock_mhz), (1, Some(2)));
    assert!(decision.demand_share.unwrap() > 0.0 && decision.achieved_share == decision.demand_share);
    let held = backend.held();
    assert_eq!((held.parts.len(), held.parts[0].kv_heads), (1, 2));
    assert!(held.weight_bytes > held.parts[0].attention_bytes + held.parts[0].mlp_bytes);
}

#[test]
fn a_lost_device_cannot_be_recovered() {
    let model = Model::new(&ModelSettings { layers: 1, ..ModelSettings::default() });
    let host = Host::new(Order::Ascending);
    let lost = host.lost.clone();
    let mut backend = model.cuda(host).unwrap();
    let mut random = Random(6);
    let good = plan(&[Piece { blocks: &[0], first: 0, rows: 2, all: true }], &mut random);
    backend.step(&good, &|| false).unwrap();
    lost.store(true, Ordering::Relaxed);
    assert!(matches!(backend.step(&good, &|| false), Err(BackendError::Device(_))));
    assert!(matches!(backend.recover(), Err(BackendError::Device(_))));
    lost.store(false, Ordering::Relaxed);
    backend.recover().unwrap();
    backend.step(&good, &|| false).unwrap();
}
