//! Snapshots: there and back changes nothing, and no words, however wrong, make a later call panic.

use proptest::prelude::*;
use tollgate_core::Time;
use tollgate_core::store::{Snapshot, State};

use super::extremes::{blows, endure};
use super::limits::{build, builders};
use super::trace::{Walk, cases, steps};

fn words() -> impl Strategy<Value = Vec<u64>> {
    let word = prop_oneof![
        2 => 0..3_u64,
        2 => any::<u64>(),
        1 => Just(u64::MAX),
        1 => Just(Time::MAX.nanos()),
        2 => any::<u64>().prop_map(|word| word >> 2),
        2 => Just(1_790_000_000_000_000_000_u64),
        1 => (0..10_000_000_000_u64).prop_map(|off| 1_790_000_000_000_000_000 + off),
    ];
    prop_oneof![
        // The lengths that states have, block time included.
        1 => proptest::collection::vec(word.clone(), 3..=5),
        1 => proptest::collection::vec(word, 0..14).prop_map(|mut words| {
            // Sorted pairs or quadruples get past the first check more often.
            if words.len() % 2 == 1 {
                let instants: Vec<_> = (0..words.len()).step_by(2).collect();
                let mut sorted: Vec<_> = instants.iter().map(|index| words[*index]).collect();
                sorted.sort_unstable();
                for (index, word) in instants.into_iter().zip(sorted) {
                    words[index] = word;
                }
            }
            words
        }),
    ]
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn arbitrary_words_never_panic(limit in builders(), words in words(), blows in blows()) {
        let limit = build(limit);
        let snapshot = Snapshot::from_parts(Snapshot::VERSION, limit.kind(), words);
        if let Ok(mut state) = State::from_snapshot(&limit, &snapshot) {
            endure(&limit, &mut state, &blows);
        }
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn there_and_back_changes_nothing(limit in builders(), steps in steps(20), block: bool) {
        let limit = if block { limit.block_for(std::time::Duration::from_secs(1)) } else { limit };
        let limit = build(limit);
        let (mut state, mut travelled) = (State::default(), State::default());
        let mut walk = Walk::along(&steps);
        while let Some((now, ask)) = walk.next(&limit, &state) {
            let charge = ask.charge(&limit);
            if charge.supported().is_err() {
                continue;
            }
            let seen = state.apply(&charge, now);
            travelled = State::from_snapshot(&limit, &travelled.snapshot(&limit)).expect("its own words");
            prop_assert_eq!(travelled.apply(&charge, now), seen);
            prop_assert_eq!(travelled.snapshot(&limit), state.snapshot(&limit));
            walk.heard(&seen);
        }
    }

    #[test]
    fn another_version_or_kind_is_refused(limit in builders(), other in builders()) {
        let (limit, other) = (build(limit), build(other));
        let snapshot = State::default().snapshot(&limit);
        let newer = Snapshot::from_parts(Snapshot::VERSION + 1, limit.kind(), snapshot.words().to_vec());
        prop_assert!(State::from_snapshot(&limit, &newer).is_err());
        prop_assert_eq!(State::from_snapshot(&other, &snapshot).is_ok(), other.kind() == limit.kind());
    }
}
