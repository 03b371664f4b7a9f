//! An attacker who knows the names of limits and chooses keys cannot affect the state of another key.

use tollgate_core::store::ImmediateStore;
use tollgate_core::{IdempotencyKey, Limit, Request, Time};
use tollgate_store_memory::MemoryStore;

const NOW: Time = Time::from_secs(1_790_000_000);

/// The ids of limits are public. Keys that differ by them, at any offset and in any rotation, must not collide.
#[test]
fn a_key_that_cancels_out_a_limits_id_does_not_collide() {
    let (login, api) =
        (Limit::per_hour(1).build("login").expect("valid"), Limit::per_hour(1).build("api").expect("valid"));
    let store = MemoryStore::config().max_keys(100_000).build();
    let victim = *b"victim@mail.com!and a longer tail";
    let difference = login.id() ^ api.id();
    for length in [8, 9, 12, 15, 16, 17, 24, 33] {
        for offset in 0..=length - 8 {
            for rotation in 0..64 {
                let mut crafted = victim[..length].to_vec();
                let mask = difference.rotate_right(rotation).to_ne_bytes();
                for (byte, mask) in crafted[offset..offset + 8].iter_mut().zip(mask) {
                    *byte ^= mask;
                }
                let _ = store.charge_now(&api.charge(&crafted), &NOW);
            }
        }
    }
    for length in [8, 9, 12, 15, 16, 17, 24, 33] {
        assert!(store.charge_now(&login.charge(&victim[..length]), &NOW).is_allowed(), "length {length}");
    }
}

/// No idempotency key is dropped early. If there is no room for more, new ones fail.
#[test]
fn idempotency_keys_are_recorded_or_fail() {
    let (store, limit) = (MemoryStore::new(), Limit::per_hour(1_000_000).build("api").expect("valid"));
    let charges = [limit.charge("key")];
    let first = IdempotencyKey::new(0);
    let call = |key, now| store.decide_now(Request::new(&charges).with_idempotency_key(key), now);
    assert!(call(first, NOW).is_ok());
    let error = (1..400_000).find_map(|key| call(IdempotencyKey::new(key), NOW).err()).expect("a bound");
    assert!(error.is_retryable() && error.to_string().contains("idempotency keys"), "{error}");
    let left = store.charge_now(&limit.charge("key").with_cost(0), &NOW).remaining();
    assert!(call(first, NOW).is_ok(), "still recorded");
    assert_eq!(
        store.charge_now(&limit.charge("key").with_cost(0), &NOW).remaining(),
        left,
        "and not executed again"
    );
    let later = NOW + std::time::Duration::from_secs(61);
    assert!(call(IdempotencyKey::new(1 << 40), later).is_ok(), "there is room again");
}
