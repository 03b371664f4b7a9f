//! Keys are any bytes, and different keys never share state.

use tollgate_core::store::{Run, Store};
use tollgate_core::{Key, Limit, Request, Time};

use crate::fixture::{in_time, limiter, spent};

/// Keys that an attacker may send to be counted under another key.
fn hostile_keys() -> Vec<Vec<u8>> {
    let texts = ["", "'", "\"; DROP", "a:b", "~1", "daily~1", " ", "a\r\nb", "0x00", "\u{1f6a7}"];
    let mut all: Vec<_> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    all.extend([vec![0], vec![0, 0], vec![1], b"a\0b".to_vec(), vec![0xff, 0xfe, 0x80]]);
    // Longer than the server allows for a key.
    for length in [65_535, 65_536, 1 << 20] {
        let long = vec![b'x'; length];
        let mut other = long.clone();
        other[length - 1] = b'y';
        all.extend([long, other]);
    }
    all
}

/// Separates the states of this test from those of the others.
const LIMIT: &str = "any key";

#[tokio::test]
async fn no_two_keys_share_a_state() {
    let limiter = limiter().await;
    let limit = Limit::per_day(3).build(LIMIT).expect("valid");
    let keys = hostile_keys();
    // Every key as an entity, as a namespace, and as both.
    let pairs = keys.iter().flat_map(|entity| [(&keys[0], entity), (entity, &keys[0]), (entity, entity)]);
    // An empty entity in an empty namespace would occur three times.
    let pairs: Vec<_> =
        pairs.filter(|(namespace, entity)| !(namespace.is_empty() && entity.is_empty())).collect();
    let charges: Vec<_> =
        pairs.iter().map(|(namespace, entity)| [limit.charge(Key::new(namespace, entity))]).collect();
    let batch: Vec<_> = charges.iter().map(|charges| Run::new(Request::new(charges), 1)).collect();
    for round in 1..=2 {
        for (result, (namespace, entity)) in
            in_time(limiter.store().decide_batch(&batch, Time::EPOCH)).await.into_iter().zip(&pairs)
        {
            let verdicts = result.expect("a decision");
            let used = spent(&verdicts.verdicts()[0].decisions()[0]);
            assert_eq!(used, round, "{} bytes in {} bytes", entity.len(), namespace.len());
        }
    }
}

#[tokio::test]
async fn every_key_has_a_working_state() {
    let limiter = limiter().await;
    let limit = Limit::per_day(2).build("~ 'limit' : %").expect("valid");
    for entity in hostile_keys() {
        let key = Key::from(&entity);
        for left in [1, 0] {
            assert_eq!(in_time(limiter.check(&limit, key)).await.expect("a decision").remaining(), left);
        }
        assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").is_denied());
        let state = in_time(limiter.store().export(&limit, key, Time::EPOCH)).await.expect("a state");
        assert!(state.state.is_some());
        in_time(limiter.reset(&limit, key)).await.expect("a decision");
        assert_eq!(in_time(limiter.peek(&limit, key)).await.expect("a decision").remaining(), 2);
    }
}
