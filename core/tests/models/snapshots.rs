//! Snapshots: a round trip changes nothing, and no words, however invalid, make a later call panic.

use proptest::prelude::*;
use tollgate_core::store::{Snapshot, State};
use tollgate_core::{ErrorKind, Time};

use super::extremes::{apply_all, extreme_calls};
use super::limits::{build, builders};
use super::trace::{Trace, cases, steps};

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
        // The lengths of actual snapshots, including the block time.
        1 => proptest::collection::vec(word.clone(), 3..=5),
        1 => proptest::collection::vec(word, 0..14).prop_map(|mut words| {
            // Sorted instants pass the first validation more often.
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
    fn arbitrary_words_never_panic(limit in builders(), words in words(), calls in extreme_calls()) {
        let limit = build(limit);
        let snapshot = Snapshot::from_parts(Snapshot::VERSION, limit.kind(), words);
        if let Ok(mut state) = State::from_snapshot(&limit, &snapshot) {
            apply_all(&limit, &mut state, &calls);
        }
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn a_round_trip_changes_nothing(limit in builders(), steps in steps(20), block: bool) {
        let limit = if block { limit.block_for(std::time::Duration::from_secs(1)) } else { limit };
        let limit = build(limit);
        let (mut state, mut restored) = (State::default(), State::default());
        let mut trace = Trace::of(&steps);
        while let Some((now, operation)) = trace.next(&limit, &state) {
            let charge = operation.charge(&limit);
            if charge.supported().is_err() {
                continue;
            }
            let decision = state.apply(&charge, now);
            restored = State::from_snapshot(&limit, &restored.snapshot(&limit)).expect("a valid snapshot");
            prop_assert_eq!(restored.apply(&charge, now), decision);
            prop_assert_eq!(restored.snapshot(&limit), state.snapshot(&limit));
            trace.observe(&decision);
        }
    }

    #[test]
    fn another_version_or_algorithm_is_an_error(limit in builders(), other in builders()) {
        let (limit, other) = (build(limit), build(other));
        let snapshot = State::default().snapshot(&limit);
        let part = |version, words: &[u64]| Snapshot::from_parts(version, limit.kind(), words.to_vec());
        for corrupt in [
            part(Snapshot::VERSION + 1, snapshot.words()),
            part(Snapshot::VERSION, &[]),
            // Too many words for some algorithms, and out of range for the others.
            part(Snapshot::VERSION, &[u64::MAX; 7]),
        ] {
            let error = State::from_snapshot(&limit, &corrupt).expect_err("it is corrupt");
            prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        prop_assert_eq!(State::from_snapshot(&other, &snapshot).is_ok(), other.kind() == limit.kind());
    }
}
