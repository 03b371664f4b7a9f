//! A cluster whose slots migrate and whose nodes fail while the store is in use.
//!
//! - `changes`: migrations and failovers under load
//! - `atomicity`: requests over several entities are all or nothing
//! - `routing`: the slots of keys, script calls per slot, and wrong URLs

mod atomicity;
mod changes;
#[path = "../frozen_clock/mod.rs"]
mod frozen_clock;
mod routing;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use frozen_clock::{NOW, config};
use tollgate_core::store::Store;
use tollgate_core::{Charge, Limit, Request, StoreError, Verdict};
use tollgate_store_redis::RedisStore;
use tollgate_testkit::eventually;
use tollgate_testkit::{Redis, RedisCluster};

pub(crate) const CALLERS: u32 = 8;

pub(crate) fn url(cluster: &RedisCluster) -> String {
    let all: Vec<_> = cluster.servers().iter().map(Redis::address).collect();
    format!("redis+cluster://{}", all.join(","))
}

pub(crate) async fn open(cluster: &RedisCluster) -> RedisStore {
    config(&url(cluster)).require_reachable().connect().await.expect("a reachable cluster")
}

pub(crate) fn slot(entity: &str) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(entity.as_bytes()) % 16_384
}

/// Returns a slot and some of its entities.
pub(crate) fn entities_of_one_slot(count: usize) -> (u16, Vec<String>) {
    let all: Vec<_> =
        (0..400_000).map(|index| format!("user:{index}")).filter(|user| slot(user) == 42).collect();
    (42, all[..count].to_vec())
}

/// Returns entities in different slots, on all nodes.
pub(crate) fn entities_of_many_slots(name: &str, count: usize) -> Vec<String> {
    let mut seen = BTreeSet::new();
    (0..).map(|index| format!("{name}:{index}")).filter(|user| seen.insert(slot(user))).take(count).collect()
}

/// Returns one charge for each entity.
pub(crate) fn each<'a>(limit: &'a Limit, entities: &'a [String]) -> Vec<Charge<'a>> {
    entities.iter().map(|entity| limit.charge(entity)).collect()
}

pub(crate) async fn decide(store: &RedisStore, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
    store.decide(Request::new(charges), NOW).await
}

/// Returns a cluster for tests that do not change it.
pub(crate) async fn shared() -> &'static RedisCluster {
    static SHARED: tokio::sync::OnceCell<RedisCluster> = tokio::sync::OnceCell::const_new();
    SHARED.get_or_init(RedisCluster::start).await
}

/// The results of concurrent callers.
#[derive(Default)]
pub(crate) struct Tally {
    passed: AtomicU32,
    pub(crate) stop: AtomicBool,
    errors: std::sync::Mutex<Vec<StoreError>>,
}

impl Tally {
    pub(crate) fn count(&self, result: Result<bool, StoreError>) {
        match result {
            Ok(passed) => drop(self.passed.fetch_add(passed.into(), Ordering::Relaxed)),
            Err(error) => self.errors.lock().expect("no panic").push(error),
        }
    }

    pub(crate) fn passed(&self) -> u32 {
        self.passed.load(Ordering::Relaxed)
    }

    pub(crate) fn is_running(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn errors(&self) -> Vec<StoreError> {
        std::mem::take(&mut self.errors.lock().expect("no panic"))
    }
}

/// Waits until this many more calls have passed.
pub(crate) async fn wait_for_more(tally: &Tally, count: u32) {
    let from = tally.passed();
    eventually("calls that pass", async || (tally.passed() >= from + count).then_some(())).await;
}
