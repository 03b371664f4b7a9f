//! How long keys live on the server, by its own clock: until the state equals a fresh one and the margin is over, not
//! longer and never shorter, and nothing stays for ever.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{
    Action, AlgorithmKind, Charge, IdempotencyKey, LeaseId, Limit, LimitBuilder, Request, Time, Verdict,
};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::{Redis, Reply};

/// The server's clock decides, whatever the caller thinks.
const NOW: Time = Time::EPOCH;
const MILLI: Duration = Duration::from_millis(1);
const LEASE: LeaseId = LeaseId::new(7);

/// Every algorithm, with `period` as the measure of its times.
fn limits(period: Duration) -> Vec<Limit> {
    let ten = || Limit::per(10, period);
    let all: [(&str, LimitBuilder); 19] = [
        ("token_bucket", ten()),
        ("token_bucket_uneven", Limit::per(7, period).burst(11)),
        ("interval_bucket", ten().refill_by_interval()),
        ("leaky_meter", ten().leaky_bucket()),
        ("leaky_queue", ten().queue(9)),
        ("gcra", ten().gcra()),
        ("smooth_bursty", ten().smooth()),
        ("smooth_warming_up", ten().warm_up(period)),
        ("fixed_window", ten().fixed_window()),
        ("fixed_window_anchored", ten().fixed_window().anchored()),
        ("sliding_window", ten().sliding_window()),
        ("sliding_counter", ten().sliding_counter(7)),
        ("sliding_log", ten().sliding_log()),
        ("sliding_log_denied_counted", ten().sliding_log().count_denied()),
        ("sliding_log_with_gap", ten().sliding_log().min_gap(period / 20)),
        ("concurrency", Limit::concurrent(10).lease(period)),
        ("blocking_bucket", ten().block_for(period * 2)),
        ("blocking_log", ten().sliding_log().block_for(period * 2)),
        ("blocking_concurrency", Limit::concurrent(10).lease(period).block_for(period * 2)),
    ];
    all.into_iter().map(|(name, limit)| limit.build(name).expect("valid")).collect()
}

/// What is done to a key, one after the other: it is used, overdrawn, denied and given back, now and in the past.
fn course(charge: Charge<'_>, period: Duration, started: Time) -> Vec<Charge<'_>> {
    let (early, late) = (Some(started - period / 2), Some(started + period / 2));
    let all = [
        charge,
        charge.with_cost(2).with_lease(LEASE),
        charge.with_action(Action::Refund { at: None }),
        charge.with_action(Action::Renew).with_lease(LEASE),
        charge.with_max_wait(period / 10),
        charge.with_cost(3).with_action(Action::Debit { at: None }),
        charge.with_cost(2).with_action(Action::Debit { at: early }),
        charge.with_cost(5).with_action(Action::TakeUpTo),
        charge.with_cost(0),
        charge.with_cost(8).with_action(Action::Debit { at: Some(started) }),
        charge,
        charge.with_cost(2),
        charge.with_action(Action::Refund { at: early }),
        charge.with_action(Action::Refund { at: late }),
        charge.with_cost(40).with_action(Action::Refund { at: Some(started) }),
        charge.with_action(Action::Release).with_lease(LEASE),
        charge,
        charge.with_action(Action::Reset),
        charge.with_action(Action::Refund { at: None }),
        charge.with_action(Action::Debit { at: Some(started - period * 2) }),
        charge.with_action(Action::Refund { at: Some(started - period * 2) }),
        charge.with_cost(2),
    ];
    all.into_iter().filter(|charge| charge.supported().is_ok()).collect()
}

struct Stand {
    redis: Redis,
    store: RedisStore,
}

impl Stand {
    async fn start(with: impl FnOnce(Config) -> Config) -> Self {
        let redis = Redis::start(&[]).await;
        // The machine may be busy: no call is given up.
        let config = Config::new(redis.url()).call_timeout(Duration::from_secs(30));
        let store = with(config).connect().await.expect("a server");
        Self { redis, store }
    }

    async fn with_margin(margin: Duration) -> Self {
        Self::start(|config| config.expiry_margin(margin)).await
    }

    async fn decide(&self, charge: Charge<'_>) -> Verdict {
        let charges = [charge];
        let verdict = self.store.decide(Request::new(&charges), NOW).await;
        verdict.unwrap_or_else(|error| panic!("{charge:?}: {error}"))
    }

    async fn time(&self) -> Time {
        let time: Vec<u64> = self
            .redis
            .call(&["TIME"])
            .await
            .texts()
            .iter()
            .map(|part| part.parse().expect("a number"))
            .collect();
        Time::from_secs(time[0]) + Duration::from_micros(time[1])
    }

    async fn keys(&self) -> Vec<String> {
        let (mut keys, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let Reply::List(answer) = self.redis.call(&["SCAN", &cursor, "COUNT", "1000"]).await else {
                panic!("SCAN answers a list");
            };
            keys.extend(answer[1].texts());
            cursor = answer[0].text();
            if cursor == "0" {
                keys.sort();
                keys.dedup();
                return keys;
            }
        }
    }

    async fn time_to_live(&self, key: &str) -> TimeToLive {
        let asked = self.time().await;
        let Reply::Integer(millis) = self.redis.call(&["PTTL", key]).await else {
            panic!("PTTL answers a number");
        };
        TimeToLive { asked, millis, answered: self.time().await }
    }
}

/// What the server says of a key, and between which instants of its clock it said so.
#[derive(Clone, Copy, Debug)]
struct TimeToLive {
    asked: Time,
    /// -1: for ever; -2: there is no such key.
    millis: i64,
    answered: Time,
}

impl TimeToLive {
    fn left(self) -> Option<Duration> {
        assert_ne!(self.millis, -1, "it would stay for ever");
        u64::try_from(self.millis).ok().map(Duration::from_millis)
    }

    /// `taken` is how long the calls took that decided: some time between their begin and their end a lifetime begins,
    /// which is the script's begin or the command's own time, depending on the server's version. The server counts in
    /// whole milliseconds, cut off, and a key is there until the one that it ends in is over. So a lifetime is up to two of
    /// them too long: one is rounded up, and one may have begun between the script's time and its write.
    fn check(self, fresh_at: Time, margin: Margin, taken: Duration, what: &str) {
        let ends = fresh_at + margin.least;
        let Some(left) = self.left() else {
            assert!(self.answered + MILLI + taken >= ends, "{what} is gone before {ends}: {self:?}");
            return;
        };
        self.check_end(left, fresh_at + margin.most, taken, what);
        let latest = self.answered + left + MILLI;
        assert!(latest + taken >= ends, "{what} ends at {latest}, and was to live until {ends}: {self:?}");
    }

    /// The state is fresh, so it need not be there, and no longer than for the margin.
    fn check_fresh(self, now: Time, margin: Margin, taken: Duration, what: &str) {
        if let Some(left) = self.left() {
            self.check_end(left, now + margin.most, taken, what);
        }
    }

    fn check_end(self, left: Duration, ends: Time, taken: Duration, what: &str) {
        let earliest = Time::from_nanos(self.asked.nanos() / 1_000_000 * 1_000_000) + left;
        assert!(
            earliest <= ends + MILLI * 2 + taken,
            "{what} lives until {earliest}, and was to end at {ends}: {self:?}"
        );
    }
}

/// By how much a state outlives its end.
#[derive(Clone, Copy, Debug)]
struct Margin {
    least: Duration,
    most: Duration,
}

impl Margin {
    const NONE: Self = Self { least: Duration::ZERO, most: Duration::ZERO };

    /// A bucket's time-to-live is left alone while it is good enough, and set with twice the margin for that.
    fn of(limit: &Limit, margin: Duration) -> Self {
        let kinds = [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyMeter, AlgorithmKind::Gcra];
        let plain = kinds.contains(&limit.kind()) && limit.block_time().is_none();
        Self { least: margin, most: if plain { margin * 2 } else { margin } }
    }
}

/// The key of a limit's state, of which there is at most one.
async fn key_of(stand: &Stand, limit: &Limit) -> Option<String> {
    let name = format!(":{}~", limit.name());
    stand.keys().await.into_iter().find(|key| key.contains(&name))
}

async fn lives_until_fresh(margin: Duration) {
    let stand = Stand::with_margin(margin).await;
    // Long enough that nothing ends while it is looked at.
    let period = Duration::from_secs(1_000);
    for limit in limits(period) {
        let margin = Margin::of(&limit, margin);
        let (mut key, mut taken) = (None, Duration::ZERO);
        for (step, charge) in
            course(limit.charge("alice"), period, stand.time().await).into_iter().enumerate()
        {
            let before = stand.time().await;
            let verdict = stand.decide(charge).await;
            taken = taken.max(stand.time().await.since(before));
            if key.is_none() {
                key = key_of(&stand, &limit).await;
            }
            let reset = verdict.decisions()[0].reset_after();
            let what = format!("{}, step {step}, {:?}", limit.name(), charge.action());
            match &key {
                Some(key) => {
                    let (ttl, at) = (stand.time_to_live(key).await, verdict.decided_at());
                    if reset.is_zero() {
                        ttl.check_fresh(at, margin, taken, &what);
                    } else {
                        ttl.check(at + reset, margin, taken, &what);
                    }
                }
                None => assert_eq!(reset, Duration::ZERO, "{what}: nothing was kept"),
            }
        }
        assert!(key.is_some(), "{}: nothing was ever kept", limit.name());
    }
}

#[tokio::test]
async fn a_state_lives_until_it_is_fresh() {
    lives_until_fresh(Duration::ZERO).await;
}

#[tokio::test]
async fn a_state_lives_a_margin_longer() {
    lives_until_fresh(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_state_lives_an_odd_margin_longer() {
    lives_until_fresh(Duration::from_millis(86_399_999)).await;
}

#[tokio::test]
async fn what_an_exchange_writes_lives_until_it_is_fresh() {
    let period = Duration::from_secs(1_000);
    for margin in [Duration::ZERO, Duration::from_secs(1)] {
        let stand = Stand::with_margin(margin).await;
        for limit in limits(period).iter().filter(|limit| limit.kind() != AlgorithmKind::Concurrency) {
            let mut taken = Duration::ZERO;
            // Used now and earlier, overdrawn, and given back.
            for (step, (cost, refund)) in
                [(1, false), (2, false), (12, false), (2, true)].into_iter().enumerate()
            {
                let before = stand.time().await;
                let at = (step == 1).then(|| before - period / 100);
                let action = if refund { Action::Refund { at: None } } else { Action::Debit { at } };
                let charges = [limit.charge("alice").with_cost(cost).with_action(action)];
                let request = Request::new(&charges).with_idempotency_key(IdempotencyKey::unique());
                let told = stand.store.apply_deltas(request, NOW).await.expect("a state");
                taken = taken.max(stand.time().await.since(before));
                assert!(told[0].state.is_some(), "{}, step {step}", limit.name());
                let verdict = stand.decide(limit.charge("alice").with_cost(0)).await;
                let fresh_at = verdict.decided_at() + verdict.decisions()[0].reset_after();
                let key = key_of(&stand, limit).await.expect("a state");
                let what = format!("{}, step {step}", limit.name());
                stand.time_to_live(&key).await.check(fresh_at, Margin::of(limit, margin), taken, &what);
            }
        }
        // What is remembered of the exchanges themselves ends as well.
        let keys = stand.keys().await;
        let operations: Vec<_> = keys.iter().filter(|key| key.contains(":op~")).collect();
        assert!(!operations.is_empty(), "{keys:?}");
        for key in operations {
            assert!(stand.time_to_live(key).await.left().is_some(), "{key}");
        }
    }
}

#[tokio::test]
async fn an_operation_lives_as_long_as_it_is_remembered() {
    let memory = Duration::from_secs(77);
    let stand = Stand::start(|config| config.operation_memory(memory)).await;
    let limit = Limit::per_hour(10).build("api").expect("valid");
    let charges = [limit.charge("alice")];
    let (request, before) =
        (Request::new(&charges).with_idempotency_key(IdempotencyKey::new(1)), stand.time().await);
    let verdict = stand.store.decide(request, NOW).await.expect("a verdict");
    let taken = stand.time().await.since(before);
    let key = stand.keys().await.into_iter().find(|key| key.contains(":op~")).expect("what is remembered");
    stand.time_to_live(&key).await.check(verdict.decided_at() + memory, Margin::NONE, taken, &key);
}

#[tokio::test]
async fn nothing_stays_for_ever() {
    let stand = Stand::start(|config| config).await;
    let period = Duration::from_secs(1_000);
    let limits = limits(period);
    let mut operation = 0;
    for limit in &limits {
        for whom in ["alice", "bob", "carol"] {
            for charge in course(limit.charge(whom), period, stand.time().await) {
                operation += 1;
                let charges = [charge, limits[operation % limits.len()].charge(whom)];
                let request = Request::new(&charges[..=operation % 2]);
                let named = request.with_idempotency_key(IdempotencyKey::new(operation as u128));
                let request = if operation.is_multiple_of(3) { named } else { request };
                let _ = stand.store.decide(request, NOW).await.expect("a verdict");
            }
        }
    }
    let keys = stand.keys().await;
    assert!(keys.len() > limits.len(), "{keys:?}");
    assert!(keys.iter().any(|key| key.contains(":op~")), "{keys:?}");
    for key in keys {
        // Panics if it has no end.
        let _ = stand.time_to_live(&key).await.left();
    }
}

#[tokio::test]
async fn what_is_forgotten_is_gone_at_once() {
    let margin = Duration::from_secs(1);
    let stand = Stand::with_margin(margin).await;
    for limit in limits(Duration::from_secs(1_000)) {
        let _ = stand.decide(limit.charge("alice").with_cost(10)).await;
        // The second is denied, and blocks where that is so.
        let _ = stand.decide(limit.charge("alice").with_cost(10)).await;
        let key = key_of(&stand, &limit).await.expect("a state");
        let _ = stand.decide(limit.charge("alice").with_action(Action::Reset)).await;
        let left = stand.time_to_live(&key).await.left();
        if remembers_its_window(&limit) {
            assert!(left.is_none_or(|left| left <= margin), "{key} lives for {left:?}");
        } else {
            assert_eq!(left, None, "{key}");
        }
    }
}

/// Which part of a period was the newest is remembered for the margin, for a clock that is set back.
fn remembers_its_window(limit: &Limit) -> bool {
    matches!(limit.kind(), AlgorithmKind::SlidingCounter)
}

#[tokio::test]
async fn what_is_given_back_is_gone_with_the_margin() {
    let margin = Duration::from_secs(1);
    let stand = Stand::with_margin(margin).await;
    for limit in limits(Duration::from_secs(1_000)) {
        let take = limit.charge("alice").with_cost(3).with_lease(LEASE);
        let taken = stand.decide(take).await;
        let key = key_of(&stand, &limit).await.expect("a state");
        let Some(back) = take.compensation(&taken.decisions()[0], taken.decided_at()) else {
            panic!("{}: it cannot be given back", limit.name());
        };
        let given = stand.decide(back).await;
        if given.decisions()[0].reset_after().is_zero() {
            let left = stand.time_to_live(&key).await.left();
            assert!(left.is_none_or(|left| left <= margin), "{key} lives for {left:?}");
        }
        if matches!(limit.kind(), AlgorithmKind::SlidingLog | AlgorithmKind::Concurrency)
            && limit.name() != "sliding_log_with_gap"
        {
            assert_eq!(stand.time_to_live(&key).await.left(), None, "{key}");
        }
    }
}

#[tokio::test]
async fn keys_go_by_themselves() {
    let memory = Duration::from_millis(20);
    let stand = Stand::start(|config| config.expiry_margin(Duration::ZERO).operation_memory(memory)).await;
    for limit in limits(Duration::from_millis(30)) {
        for (number, whom) in ["alice", "bob", "carol"].into_iter().enumerate() {
            let charges = [limit.charge(whom).with_cost(3)];
            let request = Request::new(&charges).with_idempotency_key(IdempotencyKey::new(number as u128));
            let _ = stand.store.decide(request, NOW).await.expect("a verdict");
        }
    }
    for _ in 0..1_500 {
        if stand.redis.call(&["DBSIZE"]).await == Reply::Integer(0) {
            return;
        }
        pause().await;
    }
    panic!("these stay: {:?}", stand.keys().await);
}

/// The server looks for what has ended some ten times a second, in its own time.
#[expect(
    clippy::disallowed_methods,
    reason = "a real server lives in real time, and nothing says when it is done"
)]
async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

#[tokio::test]
async fn without_a_margin_a_state_that_is_fresh_at_once_is_no_error() {
    let stand = Stand::with_margin(Duration::ZERO).await;
    let old = Some(stand.time().await - Duration::from_secs(100));
    for limit in limits(Duration::from_secs(10)) {
        for action in [
            Action::Refund { at: None },
            Action::Refund { at: old },
            Action::Debit { at: old },
            Action::Reset,
            Action::Release,
        ] {
            let charge = limit.charge("alice").with_action(action);
            if charge.supported().is_ok() {
                let _ = stand.decide(charge).await;
            }
        }
    }
}
