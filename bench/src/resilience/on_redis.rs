//! The wrappers around a Redis that lives.

use std::time::Duration;

use tollgate::memory::MemoryStore;
use tollgate_resilience::{Coalesced, Guarded, Local, Share};
use tollgate_store_redis::RedisStore;

use crate::measure::Plan;
use crate::redis::floor;
use crate::redis::load::Lap;
use crate::redis::race::{self, Workload, thousands};
use crate::redis::server::Server;
use crate::redis::subject::{Contestant, Failure, runner};
use crate::redis::tollgate::Check;
use crate::report::Findings;

pub const PLAIN: &str = "tollgate";
pub const GUARDED: &str = "guarded";
pub const COALESCED: &str = "coalesced";
/// One bare script per check, by the same client.
pub const FLOOR: &str = "floor";

pub const MANY_50: &str = "100k-50";
pub const MANY_500: &str = "100k-500";
pub const HOT_500: &str = "hot-500";
pub const ALONE: &str = "alone";

const WORKLOADS: [Workload; 4] = [
    Workload {
        name: MANY_50,
        in_flight: 50,
        keys: 100_000,
        checks: 25_000,
        rank: Lap::time,
        columns: &[
            ("thousands/s-50", thousands),
            (MANY_50, Lap::time),
            ("client-cpu-50", Lap::client),
            ("server-cpu-50", Lap::server),
        ],
    },
    Workload {
        name: MANY_500,
        in_flight: 500,
        keys: 100_000,
        checks: 25_000,
        rank: Lap::time,
        columns: &[
            ("thousands/s-500", thousands),
            (MANY_500, Lap::time),
            ("client-cpu-500", Lap::client),
            ("server-cpu-500", Lap::server),
        ],
    },
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
    // Few keys, as what is added to a call does not depend on their number.
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
        ours(
            PLAIN,
            |place| runner(Check::through(place, |redis| redis)),
            &[MANY_50, MANY_500, HOT_500, ALONE],
        ),
        ours(GUARDED, |place| runner(Check::through(place, guarded)), &[MANY_50, ALONE]),
        ours(
            COALESCED,
            |place| runner(Check::through(place, Coalesced::new)),
            &[MANY_50, MANY_500, HOT_500, ALONE],
        ),
        ours(FLOOR, |place| runner(floor::build(place)), &[MANY_50, MANY_500, ALONE]),
    ]
}

fn guarded(redis: RedisStore) -> Guarded<RedisStore> {
    // A deadline costs the same however long it is, and one of a second is met on a busy machine, too:
    // nobody is to fall back here.
    let local = Local::on(MemoryStore::new(), Share::one_of(10));
    Guarded::new(redis).deadline(Duration::from_secs(1)).on_failure(local)
}

pub async fn measure(plan: Plan, findings: &mut Findings) -> Result<(), Failure> {
    let server = Server::reach(None).await?;
    race::measure(plan, &server, &WORKLOADS, &contestants(), findings).await
}

pub fn print(findings: &Findings) {
    race::print(findings, &WORKLOADS, &contestants());
}
