//! With the feature `serde`, what travels between stores can be serialized.

#![cfg(feature = "serde")]

use tollgate_core::store::{Snapshot, Tat};
use tollgate_core::{AlgorithmKind, Time};

fn travels<T: serde::Serialize + serde::de::DeserializeOwned>() {}

#[test]
fn snapshots_and_times_travel() {
    travels::<Snapshot>();
    travels::<Tat>();
    travels::<Time>();
    travels::<AlgorithmKind>();
}
