//! A backend that follows a script, for tests of the scheduler alone.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use zlrs_engine::backend::{Backend, BackendError, Shape};
use zlrs_engine::clock::Clock;
use zlrs_engine::kv::BLOCK_TOKENS;
use zlrs_engine::plan::Plan;
use zlrs_engine::sampling::Sampling;
use zlrs_engine::scheduler::{Scheduler, SchedulerOptions};
use zlrs_engine::vocabulary::Vocabulary;
use zlrs_engine::{Event, Finished, Generation, Request};

pub const VOCABULARY: usize = 260;
pub const END: u32 = 256;
pub const CONTROL: u32 = 257;

/// Token i is byte i; 256 ends, 257 is control.
pub struct Bytes(Vec<[u8; 1]>);

impl Bytes {
    pub fn new() -> Arc<Self> {
        Arc::new(Self((0..=255).map(|byte| [byte]).collect()))
    }
}

impl Vocabulary for Bytes {
    fn token_bytes(&self, id: u32) -> &[u8] {
        self.0.get(id as usize).map_or(&[], |bytes| &bytes[..])
    }
    fn is_end(&self, id: u32) -> bool {
        id == END
    }
    fn is_control(&self, id: u32) -> bool {
        id == CONTROL
    }
}

/// What the scripted model does at one position of a sequence.
#[derive(Clone, Copy, Debug)]
pub enum Say {
    Token(u32),
    NotANumber(u32),
    Panic,
    Fail,
}

/// Gives the test control over when steps happen.
#[derive(Default)]
pub struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
    pub steps: AtomicUsize,
    pub interrupted: AtomicBool,
}

impl Gate {
    pub fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

/// Answers prompts whose first token is t with `scripts[t]`, one entry a generated token, then END for ever.
pub struct Scripted {
    pub scripts: Vec<Vec<Say>>,
    pub logits: Vec<f32>,
    pub shape: Shape,
    /// Held shut, a step waits: for the gate, or for its interruption.
    pub gate: Arc<Gate>,
    pub recovered: Arc<AtomicUsize>,
    pub generated: usize,
    pub script: usize,
}

pub const SHAPE: Shape =
    Shape { vocabulary: VOCABULARY, context_tokens: 256, block_bytes: 64, blocks: 12, max_rows: 256 };

impl Scripted {
    pub fn new(scripts: Vec<Vec<Say>>) -> Self {
        let gate = Arc::new(Gate::default());
        gate.open();
        Self {
            scripts,
            logits: Vec::new(),
            shape: SHAPE,
            gate,
            recovered: Arc::default(),
            generated: 0,
            script: 0,
        }
    }
}

impl Backend for Scripted {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn step(&mut self, plan: &Plan, interrupt: &dyn Fn() -> bool) -> Result<&[f32], BackendError> {
        self.gate.steps.fetch_add(1, Ordering::SeqCst);
        let mut open = self.gate.open.lock().unwrap();
        while !*open {
            if interrupt() {
                self.gate.interrupted.store(true, Ordering::SeqCst);
                return Err(BackendError::Interrupted);
            }
            open = self.gate.changed.wait_timeout(open, Duration::from_millis(1)).unwrap().0;
        }
        drop(open);
        self.logits.clear();
        for row in plan.rows() {
            assert!((row.position as usize) < plan.blocks_of(row.sequence).len() * BLOCK_TOKENS);
            if row.position == 0 {
                self.script = row.token as usize;
                self.generated = 0;
            }
            if !row.wants_logits {
                continue;
            }
            let say = self.scripts.get(self.script).and_then(|script| script.get(self.generated).copied());
            self.generated += 1;
            let mut logits = vec![0.0; self.shape.vocabulary];
            match say.unwrap_or(Say::Token(END)) {
                Say::Token(id) => logits[id as usize] = 1.0,
                Say::NotANumber(id) => logits[id as usize] = f32::NAN,
                Say::Panic => panic!("the script says panic"),
                Say::Fail => return Err(BackendError::Plan { what: "the script says fail".to_owned() }),
            }
            self.logits.extend_from_slice(&logits);
        }
        Ok(&self.logits)
    }

    fn recover(&mut self) -> Result<(), BackendError> {
        self.recovered.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Time that only the test moves.
#[derive(Default)]
pub struct ManualClock(Mutex<Duration>);

impl ManualClock {
    pub fn advance(&self, by: Duration) {
        *self.0.lock().unwrap() += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }
}

pub fn scheduler(backend: Scripted, options: SchedulerOptions) -> Scheduler {
    Scheduler::start(Box::new(backend), Bytes::new(), options).unwrap()
}

pub fn says(text: &str) -> Vec<Say> {
    text.bytes().map(|byte| Say::Token(u32::from(byte))).collect()
}

pub fn request(script: u32) -> Request {
    Request {
        ids: vec![script, 65, 66],
        max_tokens: 50,
        sampling: Sampling::default(),
        stop: Vec::new(),
        deadline: None,
    }
}

/// All of a generation: text, ids, and its last event.
pub fn collect(mut generation: Generation) -> (String, Vec<u32>, Event) {
    let mut all = (String::new(), Vec::new());
    let mut started = 0;
    loop {
        match generation.next_blocking().unwrap().expect("a generation ends with a last event") {
            Event::Started { input_tokens } => {
                started += 1;
                assert_eq!(input_tokens, generation.input_tokens());
            }
            Event::Delta { text, ids } => {
                all.0.push_str(&text);
                all.1.extend(ids);
            }
            last => {
                assert!(started <= 1);
                assert!(generation.next_blocking().unwrap().is_none());
                return (all.0, all.1, last);
            }
        }
    }
}

pub fn finished(generation: Generation) -> (String, Vec<u32>, Finished) {
    match collect(generation) {
        (text, ids, Event::Finished(finished)) => (text, ids, finished),
        (_, _, other) => panic!("{other:?}"),
    }
}
