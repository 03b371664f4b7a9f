//! The wrappers around a running Redis.

use std::time::Duration;

use tollgate::memory::MemoryStore;
use tollgate_resilience::{Coalesced, FallbackStore, Guarded, Share};
use tollgate_store_redis::RedisStore;

use crate::measure::Plan;
use crate::redis::floor;
use crate::redis::load::Lap;
use crate::redis::race;
use crate::redis::server::Server;
use crate::redis::subject::{Contestant, Failure, runner};
use crate::redis::tollgate::{Check, bare};
use crate::redis::workload::{
    ALONE, CHECKS_50, CHECKS_500, MANY_KEYS_50, MANY_KEYS_500, Workload, thousands,
};
use crate::report::Findings;

pub const BARE: &str = "tollgate";
pub const GUARDED: &str = "guarded";
pub const COALESCED: &str = "coalesced";

pub const HOT_500: &str = "hot-500";

const WORKLOADS: [Workload; 4] = [
    MANY_KEYS_50,
    MANY_KEYS_500,
    Workload {
        name: HOT_500,
        in_flight: 500,
        keys: 1,
        checks: 25_000,
        rank: Lap::time,
        columns: &[
            ("thousands/s-hot", thousands),
            (HOT_500, Lap::time),
            ("client-cpu-hot", Lap::client),
            ("server-cpu-hot", Lap::server),
        ],
    },
    // Few keys: the added cost does not depend on their number.
    Workload {
        name: ALONE,
        in_flight: 1,
        keys: 2_000,
        checks: 5_000,
        rank: Lap::time,
        columns: &[(ALONE, Lap::time), ("client-cpu-alone", Lap::client), ("server-cpu-alone", Lap::server)],
    },
];

fn contestants() -> Vec<Contestant> {
    let ours = |name, build, workloads| Contestant { name, build, peer: false, workloads };
    vec![
        bare(BARE, &[CHECKS_50, CHECKS_500, HOT_500, ALONE]),
        ours(GUARDED, |place| runner(Check::through(place, guarded)), &[CHECKS_50, ALONE]),
        ours(
            COALESCED,
            |place| runner(Check::through(place, Coalesced::new)),
            &[CHECKS_50, CHECKS_500, HOT_500, ALONE],
        ),
        floor::contestant(&[CHECKS_50, CHECKS_500, ALONE]),
    ]
}

fn guarded(redis: RedisStore) -> Guarded<RedisStore> {
    // The cost of a deadline does not depend on its length. One second is met on a busy machine, too: no check falls
    // back.
    let fallback = FallbackStore::new(MemoryStore::new(), Share::one_of(10));
    Guarded::builder(redis).deadline(Duration::from_secs(1)).on_failure(fallback).build().expect("valid")
}

pub async fn measure(plan: Plan, findings: &mut Findings) -> Result<(), Failure> {
    let server = Server::open(None).await?;
    race::measure(plan, &server, &WORKLOADS, &contestants(), findings).await
}

pub fn print(findings: &Findings) {
    race::print(findings, &WORKLOADS, &contestants());
}
