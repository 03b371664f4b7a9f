//! Subjects of Tollgate.

use std::time::Duration;

use tollgate::store::{Run, Store};
use tollgate::{
    AlgorithmKind, AnyStore, Charge, Decision, LeaseId, Limit, LimitBuilder, Limiter, Request, Source,
    SystemClock,
};
use tollgate_store_redis::{Config, RedisStore};

use super::subject::{Contestant, Failure, Place, QUOTA, Remote, runner};
use super::workload::{ALONE, CHECKS_50, CHECKS_500};
use crate::keys::Walk;

/// A check with one charge on the bare store: the subject of every claim.
pub const BARE: &str = "tollgate";
/// The same check through `tollgate::connect`.
pub const CONNECT: &str = "tollgate connect()";
/// A verdict on one charge, by the call that takes any number of charges.
const VERDICT: &str = "tollgate 1 charge";
/// One verdict on five charges.
pub const FIVE: &str = "tollgate 5 charges";
/// 64 independent checks in one call.
pub const BATCH: &str = "tollgate batch of 64";
/// A check with an idempotency key.
pub const EXACTLY_ONCE: &str = "tollgate exactly once";

pub fn all() -> Vec<Contestant> {
    let ours = |name, build, workloads| Contestant { name, build, peer: false, workloads };
    let mut all = vec![
        bare(BARE, &[CHECKS_50, CHECKS_500, ALONE]),
        ours(CONNECT, |place| runner(Check::by_url(place, bucket())), &[CHECKS_50]),
        ours(VERDICT, |place| runner(Charges::<1>::build(place, bucket)), &[CHECKS_50, ALONE]),
        ours(FIVE, |place| runner(Charges::<5>::build(place, bucket)), &[CHECKS_50, ALONE]),
        ours(BATCH, |place| runner(Batch::build(place)), &[ALONE]),
        ours(
            EXACTLY_ONCE,
            |place| runner(async { Check::through(place, |redis| redis).await.map(Check::exactly_once) }),
            &[CHECKS_50, ALONE],
        ),
    ];
    // The cost of each algorithm on the server, with one charge and with five charges of one entity.
    macro_rules! algorithms {
        ($($name:literal: $limit:expr;)*) => {$(
            all.push(ours(concat!($name, ", 1"), |place| runner(Charges::<1>::build(place, $limit)), &[ALONE]));
            all.push(ours(concat!($name, ", 5"), |place| runner(Charges::<5>::build(place, $limit)), &[ALONE]));
        )*};
    }
    algorithms! {
        "token bucket": bucket;
        "token bucket, uneven": || Limit::per(700_001, QUOTA.period);
        "token bucket by interval": || bucket().refill_by_interval();
        "leaky bucket": || bucket().leaky_bucket();
        "leaky bucket as a queue": || bucket().queue(1_000_000);
        "GCRA": || bucket().gcra();
        "smooth bursty": || Limit::per(100_000_000, Duration::from_secs(1)).burst(1_000_000).smooth();
        "smooth warming up": || Limit::per(100_000_000, Duration::from_secs(1)).warm_up(Duration::from_secs(1));
        "fixed window": || bucket().fixed_window();
        "sliding window": || bucket().sliding_window();
        "sliding counter": || bucket().sliding_counter(10);
        "sliding log": || Limit::per(100, Duration::from_millis(1)).sliding_log();
        "concurrency": || Limit::concurrent(100_000).lease(Duration::from_millis(1));
        "blocking bucket": || bucket().block_for(Duration::from_secs(60));
    }
    all
}

/// Returns checks on the bare store as a row of the table.
pub fn bare(name: &'static str, workloads: &'static [&'static str]) -> Contestant {
    Contestant { name, build: |place| runner(Check::through(place, |redis| redis)), peer: false, workloads }
}

/// Returns the limit of all subjects but those of other algorithms.
pub fn bucket() -> LimitBuilder {
    Limit::per(QUOTA.count, QUOTA.period)
}

pub async fn connect(place: &Place) -> Result<RedisStore, Failure> {
    let config = Config::new(&place.url).prefix(&place.namespace).require_reachable();
    Ok(config.connect().await?)
}

async fn reachable(url: &str) -> Result<RedisStore, Failure> {
    Ok(Config::new(url).require_reachable().connect().await?)
}

/// A check with one charge. The name of the limit contains the namespace, because `tollgate::connect` has no prefix of
/// its own; so the names of keys are equally long on all stores.
pub struct Check<S> {
    limiter: Limiter<S>,
    limit: Limit,
}

impl<S: Store> Check<S> {
    pub fn new(limiter: Limiter<S>, limit: Limit) -> Self {
        Self { limiter, limit }
    }

    /// Checks through the wrapper that `wrapped` puts around the store, if any.
    pub async fn through(place: Place, wrapped: fn(RedisStore) -> S) -> Result<Self, Failure> {
        let limiter = Limiter::new(wrapped(reachable(&place.url).await?));
        Ok(Self { limiter, limit: bucket().build(&place.namespace)? })
    }

    fn exactly_once(self) -> Self {
        Self { limiter: self.limiter.exactly_once(), ..self }
    }
}

impl Check<RedisStore> {
    /// Checks a limit on the bare store.
    pub async fn on_store(place: Place, limit: LimitBuilder) -> Result<Self, Failure> {
        let limiter = Limiter::new(reachable(&place.url).await?);
        Ok(Self { limiter, limit: limit.build(&place.namespace)? })
    }
}

impl Check<AnyStore> {
    pub async fn by_url(place: Place, limit: LimitBuilder) -> Result<Self, Failure> {
        let limiter = tollgate::connect(&place.url).await?;
        Ok(Self { limiter, limit: limit.build(&place.namespace)? })
    }
}

/// Returns a charge that takes one unit, or a slot under a lease of its own.
fn take<'a>(limit: &'a Limit, key: &'a str) -> Charge<'a> {
    let charge = limit.charge(key);
    if limit.kind() == AlgorithmKind::Concurrency { charge.with_lease(LeaseId::unique()) } else { charge }
}

impl<S: Store + 'static> Remote for Check<S> {
    async fn call(&self, keys: &mut Walk<'_>) -> Result<bool, Failure> {
        Ok(is_admitted(&self.limiter.charge(take(&self.limit, keys.step())).await?))
    }
}

/// Returns whether the store allowed a check. Computes all fields, as the peers compute theirs.
pub fn is_admitted(decision: &Decision) -> bool {
    let fields = (decision.remaining(), decision.retry_after(), decision.reset_after());
    std::hint::black_box(fields);
    // A wrapper's decision without a call to the store does not count as a check of this store.
    decision.is_allowed() && decision.source() == Source::Store
}

/// One verdict on `N` limits of one entity.
struct Charges<const N: usize> {
    limiter: Limiter<RedisStore>,
    limits: [Limit; N],
}

impl<const N: usize> Charges<N> {
    async fn build(place: Place, limit: fn() -> LimitBuilder) -> Result<Self, Failure> {
        let limiter = Limiter::new(connect(&place).await?);
        let limits =
            (0..N).map(|index| limit().build(&format!("limit-{index}"))).collect::<Result<Vec<_>, _>>()?;
        let limits = limits.try_into().map_err(|_| "the number of limits differs from that of charges")?;
        Ok(Self { limiter, limits })
    }
}

impl<const N: usize> Remote for Charges<N> {
    async fn call(&self, keys: &mut Walk<'_>) -> Result<bool, Failure> {
        let key = keys.step();
        let charges: [Charge<'_>; N] = self.limits.each_ref().map(|limit| take(limit, key));
        let verdict = self.limiter.check_all(charges).await?;
        Ok(verdict.is_allowed())
    }
}

/// Independent checks in one call.
struct Batch {
    store: RedisStore,
    limit: Limit,
}

impl Batch {
    async fn build(place: Place) -> Result<Self, Failure> {
        Ok(Self { store: connect(&place).await?, limit: bucket().build("api")? })
    }
}

impl Remote for Batch {
    const CHECKS: u32 = 64;

    async fn call(&self, keys: &mut Walk<'_>) -> Result<bool, Failure> {
        let charges: Vec<_> = (0..Self::CHECKS).map(|_| [self.limit.charge(keys.step())]).collect();
        let runs: Vec<_> = charges.iter().map(|charge| Run::new(Request::new(charge), 1)).collect();
        let now = tollgate::Clock::now(&SystemClock::new());
        for verdict in self.store.decide_batch(&runs, now).await {
            if verdict?.passed() == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
