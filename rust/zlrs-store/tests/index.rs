//! The index of keys does what an ordered map does.

use std::collections::BTreeMap;

use proptest::prelude::*;
use zlrs_graph::Digest;
use zlrs_store::Index;

#[derive(Debug, Clone, Copy)]
enum Action {
    Insert(u64, u64, u64),
    Verify(u64),
    Remove(u64),
    Retain(u64, u64),
}

fn action() -> impl Strategy<Value = Action> {
    let key = 0_u64..400;
    prop_oneof![
        12 => (key.clone(), 0_u64..1000, 0_u64..1_000_000).prop_map(|(key, row, ms)| Action::Insert(key, row, ms)),
        2 => key.clone().prop_map(Action::Verify),
        3 => key.prop_map(Action::Remove),
        1 => (0_u64..300, 0_u64..200_000).prop_map(|(row, ms)| Action::Retain(row, ms)),
    ]
}

proptest! {
    /// An ordered map does the same, for any number of buckets.
    #[test]
    fn an_index_is_a_map(actions in proptest::collection::vec(action(), 0..1500)) {
        let mut index = Index::default();
        let mut map = BTreeMap::new();
        let digest = |key: u64| Digest::of(&key.to_le_bytes());
        for action in actions {
            match action {
                Action::Insert(key, row, ms) => {
                    index.insert(&digest(key), row, ms);
                    map.insert(key, (row, ms.div_ceil(1000) * 1000, false));
                }
                Action::Verify(key) => {
                    index.mark_verified(&digest(key));
                    map.entry(key).and_modify(|place| place.2 = true);
                }
                Action::Remove(key) => {
                    index.remove(&digest(key));
                    map.remove(&key);
                }
                Action::Retain(lowest, now_ms) => {
                    index.retain(lowest, now_ms);
                    map.retain(|_, place| place.0 >= lowest && place.1 > now_ms);
                }
            }
            prop_assert_eq!((index.len(), index.is_empty()), (map.len(), map.is_empty()));
        }
        for key in 0..400 {
            let place = index.get(&digest(key)).map(|place| (place.row, place.expiry_ms, place.verified));
            prop_assert_eq!(place, map.get(&key).copied(), "{}", key);
        }
        index.insert(&digest(1), 1 << 40, 5);
        prop_assert_eq!(index.get(&digest(1)), None);
    }
}
