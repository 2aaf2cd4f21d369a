//! A backend that follows a script, for tests of the scheduler alone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use zlrs_engine::backend::{Backend, BackendError, Shape};
use zlrs_engine::clock::Clock;
use zlrs_engine::kv::BLOCK_TOKENS;
use zlrs_engine::plan::{Layers, Plan};
use zlrs_engine::scheduler::{Scheduler, SchedulerOptions};
use zlrs_engine::vocabulary::Vocabulary;
use zlrs_engine::{Event, Finished, Generation, Request};

pub const VOCABULARY: usize = 260;
/// Tokens that drafts can guess.
pub const DRAFT_VOCABULARY: usize = 120;
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
    /// The device's memory is full.
    Full,
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

/// Tokens of the prompts of [`request`].
pub const PROMPT_TOKENS: usize = 3;

/// Answers prompts of [`PROMPT_TOKENS`] tokens whose first is t with `scripts[t]`, one entry a generated token, then
/// END for ever. All it knows of a sequence is what it reads from the blocks of the plan.
pub struct Scripted {
    pub scripts: Vec<Vec<Say>>,
    /// Token stored in a slot of a block.
    pub memory: HashMap<(u32, usize), u32>,
    pub logits: Vec<f32>,
    pub shape: Shape,
    /// Held shut, a step waits: for the gate, or for its interruption.
    pub gate: Arc<Gate>,
    /// Number of the step before which the gate shuts by itself.
    pub shut_after: usize,
    pub recovered: Arc<AtomicUsize>,
    /// While it is, every step fails like one on a device that is gone, and recovering does too.
    pub lost: Arc<AtomicBool>,
    /// Steps with [`Layers::Draft`] guess wrong at every so many positions; `None` has no such steps.
    pub drafts: Option<usize>,
    /// Such steps.
    pub draft_steps: Arc<AtomicUsize>,
    /// Scripts in the order in which their prompts were computed, and the most sequences with rows in one step.
    pub log: Arc<Mutex<(Vec<u32>, usize)>>,
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
            shut_after: usize::MAX,
            recovered: Arc::default(),
            lost: Arc::default(),
            drafts: None,
            draft_steps: Arc::default(),
            log: Arc::default(),
            memory: HashMap::new(),
        }
    }
}

fn gone() -> BackendError {
    BackendError::Device("the device is gone".into())
}

impl Backend for Scripted {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn draft_vocabulary(&self) -> usize {
        self.drafts.map_or(0, |_| DRAFT_VOCABULARY)
    }

    fn step(&mut self, plan: &Plan, interrupt: &dyn Fn() -> bool) -> Result<&[f32], BackendError> {
        if self.lost.load(Ordering::SeqCst) {
            return Err(gone());
        }
        let step = self.gate.steps.fetch_add(1, Ordering::SeqCst) + 1;
        let mut open = self.gate.open.lock().unwrap();
        *open &= step != self.shut_after;
        while !*open {
            if interrupt() {
                self.gate.interrupted.store(true, Ordering::SeqCst);
                return Err(BackendError::Interrupted);
            }
            open = self.gate.changed.wait_timeout(open, Duration::from_millis(1)).unwrap().0;
        }
        drop(open);
        if plan.layers == Layers::Draft {
            self.draft_steps.fetch_add(1, Ordering::SeqCst);
        }
        self.logits.clear();
        for copy in plan.copies() {
            for slot in 0..BLOCK_TOKENS {
                if let Some(&token) = self.memory.get(&(copy.from, slot)) {
                    self.memory.insert((copy.to, slot), token);
                }
            }
        }
        let mut sequences: Vec<u32> = plan.rows().iter().map(|row| row.sequence).collect();
        sequences.dedup();
        let first = plan.rows().iter().filter(|row| row.position == 0).map(|row| row.token);
        let mut log = self.log.lock().unwrap();
        log.0.extend(first);
        log.1 = log.1.max(sequences.len());
        drop(log);
        for row in plan.rows() {
            let position = row.position as usize;
            let blocks = plan.blocks_of(row.sequence);
            let cell = |position: usize| (blocks[position / BLOCK_TOKENS], position % BLOCK_TOKENS);
            self.memory.insert(cell(position), row.token);
            if !row.wants_logits {
                continue;
            }
            let script = self.scripts.get(self.memory[&cell(0)] as usize);
            let say = script.and_then(|script| script.get(position + 1 - PROMPT_TOKENS).copied());
            if let (Layers::Draft, Some(every)) = (plan.layers, self.drafts) {
                assert!(row.wants_logits);
                let mut logits = vec![0.0; DRAFT_VOCABULARY];
                let guess = match say {
                    Some(Say::Token(id)) if !position.is_multiple_of(every) => id as usize,
                    _ => position % 7 + 96,
                };
                if let Some(logit) = logits.get_mut(guess) {
                    *logit = 1.0;
                }
                // What a draft stores is not what the model stores.
                self.memory.insert(cell(position), row.token + 1000);
                self.logits.extend_from_slice(&logits);
                continue;
            }
            let mut logits = vec![0.0; self.shape.vocabulary];
            match say.unwrap_or(Say::Token(END)) {
                Say::Token(id) => logits[id as usize] = 1.0,
                Say::NotANumber(id) => logits[id as usize] = f32::NAN,
                Say::Panic => panic!("the script says panic"),
                Say::Full => return Err(BackendError::DeviceFull("the script says full".into())),
                Say::Fail => return Err(BackendError::Plan { what: "the script says fail".to_owned() }),
            }
            self.logits.extend_from_slice(&logits);
        }
        Ok(&self.logits)
    }

    fn recover(&mut self) -> Result<(), BackendError> {
        self.recovered.fetch_add(1, Ordering::SeqCst);
        if self.lost.load(Ordering::SeqCst) { Err(gone()) } else { Ok(()) }
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
    Request { ids: vec![script, 65, 66], max_tokens: 50, ..Request::default() }
}

/// All of a generation: text, ids, and its last event.
pub fn collect(mut generation: Generation) -> (String, Vec<u32>, Event) {
    let mut all = (String::new(), Vec::new());
    let mut started = 0;
    loop {
        match generation.next_blocking().unwrap().expect("a generation ends with a last event") {
            Event::Started { input_tokens, .. } => {
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

/// Waits, however long it takes.
pub fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::sleep(Duration::from_millis(1));
    }
}
