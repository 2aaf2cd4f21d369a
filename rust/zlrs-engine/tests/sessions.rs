//! Saved states: taken back exactly or not at all, never by another tenant, whatever is in the file.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use support::model::{Model, text_ids};
use support::scripted::finished;
use zlrs_engine::session::{Fit, Restored, Saved, State, StateKey};
use zlrs_engine::{Compute, Engine, EngineError, LoadOptions, Request, Tenant};
use zlrs_model::decoder::Architecture;
use zlrs_model::synthetic::{Settings, Types};

const BLOCK: usize = 16;
const LIMIT: u64 = 1 << 30;
const ANNE: Tenant = Tenant([1; 32]);
const BELA: Tenant = Tenant([2; 32]);

fn key() -> StateKey {
    StateKey::new([9; 32])
}

fn load(model: &Model) -> Engine {
    Engine::load(model.file.path(), &LoadOptions::default()).unwrap()
}

fn of_seed(seed: u64) -> Model {
    Model::new(&Settings {
        architecture: Architecture::Qwen2,
        types: Types::Mixed,
        seed,
        ..Settings::default()
    })
}

/// Ids of the answer and the tokens that were there already.
fn ask(engine: &Engine, tenant: Tenant, ids: &[u32], max_tokens: usize) -> (Vec<u32>, usize) {
    let request = Request { ids: ids.to_vec(), max_tokens, tenant, ..Request::default() };
    let (_, ids, finished) = finished(engine.submit(request).unwrap());
    (ids, finished.usage.cached_tokens)
}

fn save(engine: &Engine, path: &Path, tenant: Tenant, ids: &[u32]) -> Saved {
    engine.save_state(path, &key(), State { tenant, ids, note: b"a note" }, LIMIT).unwrap()
}

fn restore(engine: &Engine, path: &Path, tenant: Tenant) -> Result<Restored, EngineError> {
    engine.restore_state(path, &key(), tenant, LIMIT)
}

fn used(engine: &Engine) -> u64 {
    engine.statistics().unwrap().kv_blocks_used
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    (folder, path)
}

#[test]
fn a_conversation_goes_on_after_a_restart_as_it_would_have() {
    let model = of_seed(1);
    let (folder, path) = folder();
    for prompt_tokens in [1, 15, 16, 17, 100] {
        let engine = load(&model);
        let mut ids = text_ids(prompt_tokens, 4);
        ids.extend(ask(&engine, ANNE, &ids, 20).0);
        let pin = engine.pin(ANNE, Compute::Exact, &ids).unwrap();
        let saved = save(&engine, &path, ANNE, &ids);
        assert_eq!(saved.tokens, pin.tokens() / BLOCK * BLOCK);
        assert_eq!(saved.bytes, fs::metadata(&path).unwrap().len());
        ids.extend(text_ids(9, 5));
        let expected = ask(&engine, ANNE, &ids, 20).0;
        drop(pin);
        engine.close();

        let engine = load(&model);
        let restored = restore(&engine, &path, ANNE).unwrap();
        assert_eq!((restored.fit, restored.note.as_slice()), (Fit::Weights, &b"a note"[..]));
        assert_eq!(restored.ids, ids[..ids.len() - 9]);
        assert_eq!((restored.pin.tokens(), used(&engine) as usize), (saved.tokens, saved.tokens / BLOCK));
        let (got, cached) = ask(&engine, ANNE, &ids, 20);
        assert_eq!(got, expected, "{prompt_tokens} tokens");
        // Restored means used, not only reported.
        assert_eq!(cached, saved.tokens);
        // For nobody else.
        assert_eq!(ask(&engine, BELA, &ids, 1).1, 0);
        drop(restored);
        assert_eq!(used(&engine), 0);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the state itself is left");
}

#[test]
fn other_weights_and_other_tokenizers_are_told_apart() {
    let (_folder, path) = folder();
    let engine = load(&of_seed(1));
    let ids = text_ids(40, 1);
    ask(&engine, ANNE, &ids, 1);
    save(&engine, &path, ANNE, &ids);
    let other_weights = load(&of_seed(2));
    let restored = restore(&other_weights, &path, ANNE).unwrap();
    assert_eq!((restored.fit, restored.pin.tokens(), restored.ids), (Fit::Tokenizer, 0, ids));
    assert_eq!(ask(&other_weights, ANNE, &text_ids(40, 1), 1).1, 0);
    let other_tokenizer = Model::new(&Settings { adds_bos: true, ..Settings::default() });
    let restored = restore(&load(&other_tokenizer), &path, ANNE).unwrap();
    assert_eq!((restored.fit, restored.pin.tokens()), (Fit::Nothing, 0));
}

#[test]
fn only_the_owner_with_the_key_gets_a_state() {
    let model = of_seed(1);
    let (_folder, path) = folder();
    let engine = load(&model);
    let ids = text_ids(40, 1);
    ask(&engine, ANNE, &ids, 1);
    save(&engine, &path, ANNE, &ids);
    let refused = restore(&engine, &path, BELA).unwrap_err();
    assert_eq!(refused.catalogue_type(), "session_forbidden");
    let forged = engine.restore_state(&path, &StateKey::new([8; 32]), ANNE, LIMIT).unwrap_err();
    assert_eq!(forged.catalogue_type(), "kv_incompatible");
    // Nothing is said of whose it is before the seal has been checked.
    let forged = engine.restore_state(&path, &StateKey::new([8; 32]), BELA, LIMIT).unwrap_err();
    assert_eq!(forged.catalogue_type(), "kv_incompatible");
    let missing = restore(&engine, &path.with_extension("no"), ANNE).unwrap_err();
    assert_eq!(missing.catalogue_type(), "session_expired");
    // Another tenant has computed nothing of these tokens, so nothing of them can be saved in its name.
    assert_eq!(save(&engine, &path, BELA, &ids).tokens, 0);
}

#[test]
fn no_changed_cut_or_lengthened_state_is_taken_and_no_block_is_lost() {
    let model = of_seed(1);
    let (_folder, path) = folder();
    let engine = load(&model);
    let ids = text_ids(40, 1);
    ask(&engine, ANNE, &ids, 1);
    let saved = save(&engine, &path, ANNE, &ids);
    let good = fs::read(&path).unwrap();
    drop(engine);
    let engine = load(&model);
    let held = |bytes: &[u8], what: &str, expected: &str| {
        fs::write(&path, bytes).unwrap();
        let error = restore(&engine, &path, ANNE).unwrap_err();
        assert_eq!(error.catalogue_type(), expected, "{what}: {error}");
        let statistics = engine.statistics().unwrap();
        assert_eq!((statistics.kv_blocks_used, statistics.kv_blocks_cached), (0, 0), "{what}");
    };
    // Every byte of the head, then some of the blocks and the seals.
    let head = good.len() - saved.tokens / BLOCK * engine.shape().block_bytes;
    for at in (0..head).chain((head..good.len()).step_by(997)).chain(good.len() - 32..good.len()) {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        // The version and the key's name: it could be another's good file.
        let expected = if (7..40).contains(&at) { "kv_incompatible" } else { "kv_corrupt" };
        held(&bytes, &format!("byte {at}"), expected);
    }
    for length in (0..good.len()).step_by(4001).chain([1, 8, 16, head - 1, good.len() - 1]) {
        held(&good[..length], &format!("cut to {length}"), "kv_corrupt");
    }
    held(&[&good[..], b"x"].concat(), "one byte more", "kv_corrupt");
    // Two good files put together.
    fs::write(&path, &good).unwrap();
    let other = text_ids(40, 2);
    ask(&engine, BELA, &other, 1);
    save(&engine, &path, BELA, &other);
    let mixed = [&good[..head], &fs::read(&path).unwrap()[head..]].concat();
    drop(engine);
    let engine = load(&model);
    fs::write(&path, mixed).unwrap();
    assert_eq!(restore(&engine, &path, ANNE).unwrap_err().catalogue_type(), "kv_corrupt");
    // And the good one is still good.
    fs::write(&path, &good).unwrap();
    assert_eq!(restore(&engine, &path, ANNE).unwrap().pin.tokens(), saved.tokens);
}

#[test]
fn links_pipes_folders_and_huge_files_are_refused_at_once() {
    let (folder, path) = folder();
    let engine = load(&of_seed(1));
    let is_corrupt = |path: &Path| {
        let error = restore(&engine, path, ANNE).unwrap_err();
        assert_eq!(error.catalogue_type(), "kv_corrupt", "{error}");
    };
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
    is_corrupt(&link);
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    is_corrupt(&pipe);
    is_corrupt(folder.path());
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    is_corrupt(&path);
}

#[test]
fn a_limit_on_size_cuts_what_is_saved_and_memory_holds_what_it_may() {
    let model = of_seed(1);
    let (_folder, path) = folder();
    let engine = load(&model);
    let ids = text_ids(200, 1);
    ask(&engine, ANNE, &ids, 1);
    let whole = save(&engine, &path, ANNE, &ids);
    assert_eq!(whole.tokens, 192);
    let state = State { tenant: ANNE, ids: &ids, note: b"" };
    let cut = engine.save_state(&path, &key(), state, whole.bytes / 2).unwrap();
    assert!(cut.tokens > 0 && cut.tokens < 192 && cut.bytes <= whole.bytes / 2);
    assert_eq!(restore(&load(&model), &path, ANNE).unwrap().pin.tokens(), cut.tokens);
    // Where more is known than the file holds, all of it is kept.
    assert_eq!(restore(&engine, &path, ANNE).unwrap().pin.tokens(), 200);
    let error = engine.save_state(&path, &key(), state, 100).unwrap_err();
    assert!(matches!(error, EngineError::StateTooLarge { limit_bytes: 100, .. }));
    // A failed save leaves the file of before.
    assert_eq!(fs::metadata(&path).unwrap().len(), cut.bytes);
    // A limit that was lowered since makes no state bad: it is refused, to its owner with the reason.
    for limit in [cut.bytes - 1, 300, 0] {
        let error = engine.restore_state(&path, &key(), ANNE, limit).unwrap_err();
        assert!(matches!(error, EngineError::StateUnusable { .. }), "{error}");
        assert!(error.to_string().contains(&format!("{} bytes, the limit is {limit}", cut.bytes)), "{error}");
    }
    let foreign = engine.restore_state(&path, &key(), BELA, cut.bytes - 1).unwrap_err();
    assert_eq!(foreign.catalogue_type(), "session_forbidden");
    assert_eq!(restore(&load(&model), &path, ANNE).unwrap().pin.tokens(), cut.tokens);

    save(&engine, &path, ANNE, &ids);
    let kv_bytes = Some(8 * engine.shape().block_bytes);
    let small = Engine::load(model.file.path(), &LoadOptions { kv_bytes, ..LoadOptions::default() }).unwrap();
    let restored = restore(&small, &path, ANNE).unwrap();
    assert_eq!((restored.fit, restored.pin.tokens(), used(&small)), (Fit::Weights, 0, 0));
    assert!(small.statistics().unwrap().kv_blocks_peak <= 8);
}

#[test]
fn a_closed_engine_saves_nothing_and_leaves_no_file() {
    let (folder, path) = folder();
    let engine = load(&of_seed(1));
    let ids = text_ids(40, 1);
    ask(&engine, ANNE, &ids, 1);
    let saved = save(&engine, &path, ANNE, &ids);
    assert!(saved.tokens > 0);
    engine.close();
    // The tree is empty now: there is nothing to read, and nobody to ask.
    assert_eq!(save(&engine, &path, ANNE, &ids).tokens, 0);
    save_into_nowhere(&engine, folder.path(), &ids);
}

fn save_into_nowhere(engine: &Engine, folder: &Path, ids: &[u32]) {
    let state = State { tenant: ANNE, ids, note: b"" };
    let error = engine.save_state(&folder.join("no/state"), &key(), state, LIMIT).unwrap_err();
    assert!(matches!(error, EngineError::StateFile { .. }), "{error}");
}

/// What users do, interleaved.
#[derive(Debug, Clone)]
enum Action {
    /// The user's conversation goes on by some tokens, and is answered.
    Turn(usize, usize),
    Save(usize),
    /// The user's state is read, and everything of it in memory given up before.
    Restore(usize),
    Unpin(usize),
}

fn action() -> impl Strategy<Value = Action> {
    let user = 0_usize..3;
    prop_oneof![
        5 => (user.clone(), 1_usize..40).prop_map(|(user, count)| Action::Turn(user, count)),
        2 => user.clone().prop_map(Action::Save),
        2 => user.clone().prop_map(Action::Restore),
        1 => user.prop_map(Action::Unpin),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Users with the same words: every answer is the one of an engine that serves this user alone, and nobody
    /// ever finds more computed than the own conversation has.
    #[test]
    fn users_never_see_each_other(actions in proptest::collection::vec(action(), 1..14)) {
        let model = of_seed(1);
        let (folder, _) = folder();
        // Memory for about two conversations of three: they push each other out.
        let kv_bytes = Some(24 * load(&model).shape().block_bytes);
        let engine = Engine::load(model.file.path(), &LoadOptions { kv_bytes, ..LoadOptions::default() }).unwrap();
        let alone = load(&model);
        let tenants = [Tenant([1; 32]), Tenant([2; 32]), Tenant([3; 32])];
        let path = |user: usize| folder.path().join(user.to_string());
        let mut conversations = vec![Vec::new(); 3];
        let mut pins: [Option<zlrs_engine::Pin>; 3] = [None, None, None];
        let mut saved = [None; 3];
        for action in actions {
            match action {
                Action::Turn(user, count) => {
                    let ids: &mut Vec<u32> = &mut conversations[user];
                    if ids.len() > 120 {
                        continue;
                    }
                    let known = ids.len();
                    ids.extend(text_ids(count, 7));
                    let (answer, cached) = ask(&engine, tenants[user], ids, 5);
                    prop_assert!(cached <= known, "{cached} of {known}");
                    let nobody = Tenant([99; 32]);
                    prop_assert_eq!(&answer, &ask(&alone, nobody, ids, 5).0);
                    ids.extend(answer);
                    pins[user] = Some(engine.pin(tenants[user], Compute::Exact, ids).unwrap());
                }
                Action::Save(user) => {
                    let note = [user as u8];
                    let state = State { tenant: tenants[user], ids: &conversations[user], note: &note };
                    engine.save_state(&path(user), &key(), state, LIMIT).unwrap();
                    saved[user] = Some(conversations[user].len());
                }
                Action::Restore(user) if saved[user].is_some() => {
                    pins[user] = None;
                    for (other, &tenant) in tenants.iter().enumerate() {
                        let restored = engine.restore_state(&path(user), &key(), tenant, LIMIT);
                        prop_assert_eq!(restored.is_ok(), other == user);
                        if let Ok(restored) = restored {
                            prop_assert_eq!(&restored.note[..], &[user as u8][..]);
                            prop_assert_eq!(&restored.ids[..], &conversations[user][..saved[user].unwrap()]);
                            pins[user] = Some(restored.pin);
                        }
                    }
                }
                Action::Unpin(user) => pins[user] = None,
                Action::Restore(_) => {}
            }
            let statistics = engine.statistics().unwrap();
            prop_assert!(statistics.kv_blocks_peak <= 24);
            prop_assert_eq!((statistics.queued, statistics.running), (0, 0));
        }
        drop(pins);
        prop_assert_eq!(used(&engine), 0);
    }
}

#[test]
fn a_conversation_cut_back_is_answered_as_if_nothing_had_been_longer() {
    let model = of_seed(1);
    let engine = load(&model);
    let alone = load(&model);
    let long = text_ids(100, 3);
    ask(&engine, ANNE, &long, 3);
    let pin = engine.pin(ANNE, Compute::Exact, &long).unwrap();
    for count in [99, 64, 33, 16, 15, 1] {
        let (got, cached) = ask(&engine, ANNE, &long[..count], 8);
        // All but the last token, also of a strict prefix of what is kept.
        assert_eq!(cached, count - 1);
        assert_eq!(got, ask(&alone, Tenant([count as u8; 32]), &long[..count], 8).0, "{count} tokens");
    }
    assert!(pin.is_held());
}

#[test]
fn what_a_cancelled_prefill_has_computed_can_be_kept_and_nothing_else_stays() {
    let model = of_seed(1);
    let engine = load(&model);
    let ids = text_ids(1500, 3);
    let request = Request { ids: ids.clone(), max_tokens: 400, tenant: ANNE, ..Request::default() };
    for _ in 0..20 {
        let generation = engine.submit(request.clone()).unwrap();
        generation.cancel();
        let (_, answer, _) = finished(generation);
        let pin = engine.pin(ANNE, Compute::Exact, &ids).unwrap();
        assert!(answer.len() < 400);
        assert_eq!(used(&engine) as usize, pin.tokens().div_ceil(BLOCK));
    }
    assert_eq!(used(&engine), 0);
    let (got, cached) = ask(&engine, ANNE, &ids, 5);
    assert_eq!(got, ask(&load(&model), BELA, &ids, 5).0);
    assert!(cached < ids.len());
}
