//! Many concurrent callers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::store::{Run, Store};
use tollgate_core::{AlgorithmKind, Limit, Limiter, Request, Time};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

use crate::assertions::{KEY, daily, every_algorithm, in_time, limiter, take, until, used};

/// Returns the number of connections to the server, without the one that queries it.
async fn clients(redis: &Redis) -> usize {
    redis
        .call(&["CLIENT", "LIST"])
        .await
        .text()
        .lines()
        .filter(|line| !line.contains("cmd=client|list"))
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushing_scripts_under_load_fails_no_call() {
    let redis = Redis::start(&[]).await;
    let store = limiter(&redis).await.store().clone();
    let limits = Arc::new(every_algorithm());
    // The number of admissions of each limit.
    let admitted: Arc<Vec<_>> = Arc::new(limits.iter().map(|_| AtomicU32::new(0)).collect());
    let done = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for caller in 0..8 {
        let limiter = Limiter::new(store.clone());
        let limiter = if caller % 2 == 0 { limiter } else { limiter.exactly_once() };
        let (limits, admitted) = (Arc::clone(&limits), Arc::clone(&admitted));
        callers.spawn(async move {
            for round in 0..25 {
                for (limit, admitted) in limits.iter().zip(admitted.iter()) {
                    let decision = in_time(limiter.charge(take(limit, KEY))).await.expect("no error");
                    admitted.fetch_add(decision.granted(), Ordering::SeqCst);
                }
                let charges = limits.iter().map(|limit| [limit.charge(KEY)]).collect::<Vec<_>>();
                let batch: Vec<_> = charges.iter().map(|charge| Run::new(Request::new(charge), 1)).collect();
                let results = in_time(limiter.store().decide_batch(&batch, Time::EPOCH)).await;
                for (result, admitted) in results.into_iter().zip(admitted.iter()) {
                    let run = result.unwrap_or_else(|error| panic!("round {round}: {error}"));
                    admitted.fetch_add(run.verdicts()[0].decisions()[0].granted(), Ordering::SeqCst);
                }
            }
        });
    }
    let flushing = async {
        while !done.load(Ordering::SeqCst) {
            redis.call(&["SCRIPT", "FLUSH"]).await;
            tokio::task::yield_now().await;
        }
    };
    let calling = async {
        while let Some(joined) = callers.join_next().await {
            joined.expect("no error and no panic");
        }
        done.store(true, Ordering::SeqCst);
    };
    tokio::join!(flushing, calling);
    for (limit, admitted) in limits.iter().zip(admitted.iter()) {
        let expected = match limit.kind() {
            // The next caller pays, so one more passes.
            AlgorithmKind::SmoothBursty => limit.capacity() + 1,
            // Its warm-up time stores less than one permit.
            AlgorithmKind::SmoothWarmingUp => 1,
            _ => limit.capacity(),
        };
        assert_eq!(admitted.load(Ordering::SeqCst), expected, "{}", limit.name());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_callers_share_the_configured_connections() {
    for connections in [1, 3] {
        let redis = Redis::start(&[]).await;
        let config = Config::new(redis.url()).connections(connections).call_timeout(Duration::from_secs(60));
        let store = config.require_reachable().connect().await.expect("a server");
        // The pause delays scripts, so that all calls are in flight at once.
        redis.call(&["CLIENT", "PAUSE", "600000", "WRITE"]).await;
        let mut callers = JoinSet::new();
        for _ in 0..1_000 {
            let limiter = Limiter::new(store.clone());
            callers.spawn(async move { in_time(limiter.check(&daily(600), KEY)).await });
        }
        until("the calls are sent", async || {
            let list = redis.call(&["CLIENT", "LIST"]).await.text();
            list.lines().filter(|line| line.contains("cmd=evalsha")).count() == connections
        })
        .await;
        assert_eq!(clients(&redis).await, connections);
        redis.call(&["CLIENT", "UNPAUSE"]).await;
        let mut admitted = 0;
        while let Some(joined) = callers.join_next().await {
            admitted += joined.expect("no panic").expect("a decision").granted();
        }
        assert_eq!(admitted, 600);
        assert_eq!(clients(&redis).await, connections);
    }
}

/// Drops calls before they end, again and again.
async fn drop_calls(store: RedisStore, done: Arc<AtomicBool>) -> u32 {
    let mut started = 0;
    while !done.load(Ordering::SeqCst) {
        let limiter = Limiter::new(store.clone());
        let call = tokio::spawn(async move {
            let limit = Limit::per_day(1_000_000).build("dropped").expect("valid");
            limiter.check(&limit, KEY).await.map(drop)
        });
        // After a varying number of polls.
        for _ in 0..started % 7 {
            tokio::task::yield_now().await;
        }
        call.abort();
        let ended = call.await;
        assert!(
            ended.is_err_and(|end| end.is_cancelled()) || started % 7 > 0,
            "a call ended without being polled"
        );
        started += 1;
    }
    started
}

#[tokio::test]
async fn dropped_calls_do_not_affect_other_callers() {
    let redis = Redis::start(&[]).await;
    let limiter = limiter(&redis).await;
    let done = Arc::new(AtomicBool::new(false));
    let mut droppers = JoinSet::new();
    for _ in 0..4 {
        droppers.spawn(drop_calls(limiter.store().clone(), Arc::clone(&done)));
    }
    for number in 1..=500_u32 {
        // With a limit and a cost of its own, so that the reply to another caller would be noticed.
        let limit = daily(10_000 + number);
        let key = format!("caller {number}");
        let decision =
            in_time(limiter.charge(limit.charge(key.as_str()).with_cost(number))).await.expect("a decision");
        assert_eq!(
            (decision.granted(), decision.remaining()),
            (number, 10_000),
            "the reply to another caller"
        );
    }
    done.store(true, Ordering::SeqCst);
    let mut started = 0;
    while let Some(joined) = droppers.join_next().await {
        started += joined.expect("no panic");
    }
    let limit = Limit::per_day(1_000_000).build("dropped").expect("valid");
    let counted = used(&limiter, &limit).await;
    assert!(
        started > 500 && (1..=started).contains(&counted),
        "{counted} of {started}: some are counted twice"
    );
    assert_eq!(clients(&redis).await, 1, "a connection was replaced");
}
