//! With the feature `serde`, the types that stores exchange can be serialized.

#![cfg(feature = "serde")]

use tollgate_core::store::Snapshot;
use tollgate_core::{AlgorithmKind, Time};

fn assert_serializable<T: serde::Serialize + serde::de::DeserializeOwned>() {}

#[test]
fn snapshots_and_times_are_serializable() {
    assert_serializable::<Snapshot>();
    assert_serializable::<Time>();
    assert_serializable::<AlgorithmKind>();
}
