//! Exact rows cost the same instructions with everything installed that leaves work out (exit heads, thresholds of
//! neurons, a mask to draft with): counted by callgrind over decoding steps of a synthetic model. Without valgrind
//! nothing is counted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use std::process::Command;

use support::model::{Model, text_ids};
use zlrs_engine::Compute;
use zlrs_engine::backend::Backend;
use zlrs_engine::exit::{ExitHeads, Head, Probe};
use zlrs_engine::plan::{Plan, Row};
use zlrs_kernels::{Isa, TensorType};
use zlrs_model::mask::Mask;
use zlrs_model::synthetic::{Settings, Types};

const LAYERS: usize = 4;
const WIDTH: usize = 512;
const STEPS: usize = 12;
/// Half a per cent more at most.
const MOST: f64 = 1.005;

fn heads() -> ExitHeads {
    let probe = |layer| Probe {
        layer,
        head: Head { output_bias: -1.0, ..Head::ZERO },
        shift: vec![0.5; WIDTH],
        threshold: Some(0.0),
    };
    ExitHeads {
        weights_sha256: [0; 32],
        mask_sum: [0; 32],
        calibration_sha256: [0; 32],
        layers: LAYERS,
        vocabulary: 256,
        width: WIDTH,
        shortlist: (0..12).collect(),
        probes: (1..LAYERS).map(probe).collect(),
        report: String::new(),
    }
}

/// Decoding steps, as the environment says; run by itself it does nothing.
#[test]
fn child_that_decodes() {
    let Ok(case) = std::env::var("ZLRS_TEST_CASE") else { return };
    let steps: usize = std::env::var("ZLRS_TEST_STEPS").unwrap().parse().unwrap();
    let model = Model::new(&Settings {
        types: Types::One(TensorType::Q8_0),
        layers: LAYERS,
        width: WIDTH,
        mlp_width: 1024,
        heads: 8,
        kv_heads: 4,
        ..Settings::default()
    });
    // Valgrind knows no later instruction set.
    let isa = if Isa::Avx2.is_available() { Isa::Avx2 } else { Isa::Naive };
    let mut backend = model.backend(isa, 1, 1);
    if case == "installed" {
        backend.install_exits(Some(heads())).unwrap();
        backend.install_neurons(Some(vec![0.4; LAYERS]));
        let mut guessing = Mask::empty(&model.decoder, [0; 32]);
        (guessing.layers[1].mlp, guessing.layers[2].attention) = (true, true);
        backend.draft_with(&guessing, 128).unwrap();
        assert!(backend.can_skip() && backend.can_leave());
    }
    let mut plan = Plan::default();
    for (position, token) in text_ids(steps, 3).into_iter().enumerate() {
        plan.clear();
        let sequence = plan.add_sequence(&[0]);
        let position = position as u32;
        plan.add_row(Row { token, position, sequence, wants_logits: true, compute: Compute::Exact });
        backend.step(&plan, &|| false).unwrap();
    }
}

/// Instructions of the steps beyond the first.
fn instructions(case: &str) -> f64 {
    let count = |steps: usize| -> f64 {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_decodes", "--test-threads=1"])
            .envs([("ZLRS_TEST_CASE", case), ("ZLRS_TEST_STEPS", &steps.to_string())])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let line = said.lines().find_map(|line| line.split("Collected : ").nth(1));
        line.unwrap_or_else(|| panic!("{said}")).trim().parse().unwrap()
    };
    count(STEPS) - count(1)
}

#[test]
fn exact_rows_cost_no_more_with_everything_installed() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let (without, with) = (instructions("none"), instructions("installed"));
    assert!(without > 1e6, "{without}");
    assert!(with <= without * MOST, "{with} beside {without}: {:+.3} %", 100.0 * (with / without - 1.0));
}
