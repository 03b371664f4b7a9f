//! Keys are any bytes, and never meet.

use tollgate_core::store::{Run, Store};
use tollgate_core::{Key, Limit, Request, Time};

use crate::expect::{in_time, limiter, spent};

/// What somebody may send who wants to be counted as somebody else.
fn hostile() -> Vec<Vec<u8>> {
    let texts = ["", "'", "\"; DROP", "a:b", "~1", "daily~1", " ", "a\r\nb", "0x00", "\u{1f6a7}"];
    let mut all: Vec<_> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    all.extend([vec![0], vec![0, 0], vec![1], b"a\0b".to_vec(), vec![0xff, 0xfe, 0x80]]);
    // More than a server takes as a key, and then some.
    for length in [65_535, 65_536, 1 << 20] {
        let long = vec![b'x'; length];
        let mut other = long.clone();
        other[length - 1] = b'y';
        all.extend([long, other]);
    }
    all
}

/// Tells the keys of one test from those of another.
const LIMIT: &str = "for any key";

#[tokio::test]
async fn no_two_keys_share_a_state() {
    let limiter = limiter().await;
    let limit = Limit::per_day(3).build(LIMIT).expect("valid");
    let keys = hostile();
    // Every key as an entity, and as a namespace of itself and of a few others.
    let pairs = keys.iter().flat_map(|entity| [(&keys[0], entity), (entity, &keys[0]), (entity, entity)]);
    // An empty entity in an empty namespace would come up three times.
    let pairs: Vec<_> =
        pairs.filter(|(namespace, entity)| !(namespace.is_empty() && entity.is_empty())).collect();
    let charges: Vec<_> =
        pairs.iter().map(|(namespace, entity)| [limit.charge(Key::new(namespace, entity))]).collect();
    let batch: Vec<_> = charges.iter().map(|charges| Run::new(Request::new(charges), 1)).collect();
    for round in 1..=2 {
        for (told, (namespace, entity)) in
            in_time(limiter.store().decide_batch(&batch, Time::EPOCH)).await.into_iter().zip(&pairs)
        {
            let told = told.expect("a decision");
            let used = spent(&told.verdicts()[0].decisions()[0]);
            assert_eq!(used, round, "{} bytes in {} bytes", entity.len(), namespace.len());
        }
    }
}

#[tokio::test]
async fn every_key_is_counted_on() {
    let limiter = limiter().await;
    let limit = Limit::per_day(2).build("~ 'limit' : %").expect("valid");
    for entity in hostile() {
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
