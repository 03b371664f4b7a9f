//! Credentials and permissions.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{
    Action, Effect, ErrorKind, IdempotencyKey, LeaseId, Limit, Limiter, Request, StoreError, Time,
};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

use crate::assertions::{KEY, PASSWORD, assert_error, daily, every_algorithm, in_time, take, until};

const REFUSED: (ErrorKind, Effect) = (ErrorKind::Refused, Effect::None);

fn url(redis: &Redis, login: &str) -> String {
    format!("redis://{login}@{}", redis.address())
}

#[tokio::test]
async fn the_right_password_is_accepted_and_others_are_refused() {
    let redis = Redis::start(&["--requirepass", PASSWORD]).await;
    let limit = daily(3);
    for (login, advice) in [
        (String::new(), "requires a password"),
        (":wrong".to_owned(), "user and password in the URL"),
        (format!("nobody:{PASSWORD}"), "user and password in the URL"),
    ] {
        let url = if login.is_empty() { redis.url() } else { url(&redis, &login) };
        assert_error(in_time(Config::new(&url).require_reachable().connect()).await, REFUSED, &[advice]);
        // Without `require_reachable`, every call returns the error.
        let limiter = Limiter::new(RedisStore::connect(&url).await.expect("a store"));
        assert_error(in_time(limiter.check(&limit, KEY)).await, REFUSED, &[advice]);
        assert_error(in_time(limiter.debit(&limit, KEY, 1)).await, REFUSED, &[advice]);
    }
    for login in [format!(":{PASSWORD}"), format!("default:{PASSWORD}")] {
        let store = Config::new(url(&redis, &login)).require_reachable().connect();
        let limiter = Limiter::new(in_time(store).await.expect("the right password"));
        assert!(in_time(limiter.check(&limit, KEY)).await.expect("a decision").is_allowed());
    }
}

#[tokio::test]
async fn a_password_may_have_any_characters() {
    // URL separators and non-ASCII characters.
    let redis = Redis::start(&["--requirepass", "p@:/?#[]%25 ü{}"]).await;
    let encoded = "p%40%3A%2F%3F%23%5B%5D%2525%20%C3%BC%7B%7D";
    let store = Config::new(url(&redis, &format!(":{encoded}"))).require_reachable().connect();
    let limiter = Limiter::new(in_time(store).await.expect("the right password"));
    assert!(in_time(limiter.check(&daily(1), KEY)).await.expect("a decision").is_allowed());
}

#[tokio::test]
async fn a_changed_password_is_an_error_until_it_is_valid_again() {
    let redis = Redis::start(&["--requirepass", PASSWORD]).await;
    let as_admin = async |command: &[&str]| {
        let reply = redis.try_calls(&[&["AUTH", PASSWORD], command]).await.expect("a reply");
        assert!(!matches!(reply, tollgate_testkit::Reply::Error(_)), "{reply:?}");
    };
    as_admin(&["ACL", "SETUSER", "limiter", "on", ">first", "~tollgate:*", "+@all"]).await;
    let config = Config::new(url(&redis, "limiter:first")).reconnect_backoff(Duration::ZERO, Duration::ZERO);
    let limiter = Limiter::new(config.connect().await.expect("a store"));
    let limit = daily(10);
    assert!(in_time(limiter.check(&limit, KEY)).await.is_ok());
    // Changes the password, and closes the user's connections.
    as_admin(&["ACL", "SETUSER", "limiter", "resetpass", ">second"]).await;
    as_admin(&["CLIENT", "KILL", "USER", "limiter"]).await;
    until("the new password is required", async || {
        let result = in_time(limiter.check(&limit, KEY)).await;
        matches!(result, Err(error) if error.kind() == ErrorKind::Refused)
    })
    .await;
    as_admin(&["ACL", "SETUSER", "limiter", ">first"]).await;
    until("the old password is valid again", async || in_time(limiter.check(&limit, KEY)).await.is_ok())
        .await;
}

#[tokio::test]
async fn a_missing_database_is_refused() {
    let redis = Redis::start(&["--databases", "16"]).await;
    let store = Config::new(format!("{}/99", redis.url())).require_reachable().connect();
    assert_error(in_time(store).await, REFUSED, &["no such database"]);
    let limiter = Limiter::new(RedisStore::connect(&format!("{}/99", redis.url())).await.expect("a store"));
    assert_error(in_time(limiter.check(&daily(1), KEY)).await, REFUSED, &["no such database"]);
    // An existing one is used.
    let limiter = Limiter::new(RedisStore::connect(&format!("{}/15", redis.url())).await.expect("a store"));
    assert!(in_time(limiter.check(&daily(1), KEY)).await.expect("a decision").is_allowed());
    assert!(redis.call(&["INFO", "keyspace"]).await.field("db15").is_some());
}

/// Returns the commands that a document lists for a single server, in the first code block after the heading.
fn listed_commands(document: &'static str) -> Vec<&'static str> {
    let from = document.find("# Server requirements").expect("the section");
    let list = document[from..].split("```").nth(1).expect("the list");
    list.split_whitespace().filter(|word| word.starts_with('+')).collect()
}

fn documented_commands() -> Vec<&'static str> {
    listed_commands(include_str!("../../src/lib.rs"))
}

#[test]
fn the_readme_lists_the_same_permissions() {
    assert_eq!(listed_commands(include_str!("../../README.md")), documented_commands());
}

/// Returns a limiter whose user has only these permissions.
async fn limiter_with(redis: &Redis, commands: &[&str]) -> Limiter<RedisStore> {
    let user = ["ACL", "SETUSER", "limiter", "reset", "on", ">open-sesame", "~tollgate:*"];
    redis.call(&[&user[..], commands].concat()).await;
    let store = Config::new(url(redis, &format!("limiter:{PASSWORD}"))).require_reachable().connect();
    Limiter::new(in_time(store).await.expect("connecting needs no permission"))
}

/// Makes calls of all kinds.
async fn call_everything(limiter: &Limiter<RedisStore>, limit: &Limit) -> Result<(), StoreError> {
    let (store, now, lease) = (limiter.store(), Time::EPOCH, LeaseId::unique());
    for round in 0..40 {
        // More than the limit allows, with idempotency keys and without.
        let charges = [limit.charge(KEY).with_lease(LeaseId::unique())];
        let request = Request::new(&charges);
        let idempotent = request.with_idempotency_key(IdempotencyKey::unique());
        let _ = in_time(store.decide(if round % 2 == 0 { idempotent } else { request }, now)).await?;
    }
    let holder = limit.charge(KEY).with_lease(LeaseId::unique()).with_action(Action::Release);
    if holder.supported().is_ok() {
        // Releases the lease with the latest expiry, so that the script looks for the next one.
        let _ = in_time(limiter.charge(holder.with_action(Action::Take { max_wait: None }))).await?;
        let _ = in_time(limiter.charge(holder)).await?;
    }
    in_time(limiter.reset(limit, KEY)).await?;
    let slot = limit.charge(KEY).with_lease(lease);
    let _ = in_time(limiter.charge(slot)).await?;
    let _ = in_time(limiter.peek(limit, KEY)).await?;
    for action in [
        Action::Renew,
        Action::TakeUpTo,
        Action::Debit { at: None },
        Action::Refund { at: None },
        Action::Release,
        Action::Take { max_wait: Some(Duration::from_secs(86_400)) },
    ] {
        if limit.refusal(action).is_none() {
            let _ = in_time(limiter.charge(slot.with_action(action))).await?;
        }
    }
    in_time(store.export(limit, KEY.into(), now)).await?;
    let delta = [limit.charge(KEY).with_action(Action::Debit { at: None })];
    if delta[0].supported().is_ok() {
        let request = Request::new(&delta).with_idempotency_key(IdempotencyKey::unique());
        in_time(store.apply_deltas(request, now)).await?;
        in_time(store.apply_deltas(request, now)).await?;
    }
    Ok(())
}

/// Returns limits of every algorithm, some with large states.
fn limits() -> Vec<Limit> {
    let mut limits = every_algorithm();
    limits.push(Limit::per_hour(60).sliding_log().build("long_log").expect("valid"));
    limits.push(Limit::concurrent(60).lease(Duration::from_secs(60)).build("many_leases").expect("valid"));
    limits
}

#[tokio::test]
async fn the_documented_permissions_are_enough() {
    let redis = Redis::start(&[]).await;
    let limiter = limiter_with(&redis, &documented_commands()).await;
    for limit in limits() {
        let result = call_everything(&limiter, &limit).await;
        assert!(result.is_ok(), "{}: {result:?}", limit.name());
    }
    let denied = redis.call(&["INFO", "stats"]).await.field("acl_access_denied_cmd");
    // If the server counts denials: only commands that the connection can do without were denied, INFO and two CLIENT
    // SETINFO.
    assert!(denied.is_none_or(|count| count == "1" || count == "3"), "something was denied without an error");
}

#[tokio::test]
async fn every_documented_permission_is_necessary() {
    let redis = Redis::start(&[]).await;
    let commands = documented_commands();
    for missing in &commands {
        redis.call(&["FLUSHALL"]).await;
        redis.call(&["SCRIPT", "FLUSH"]).await;
        let rest: Vec<_> = commands.iter().filter(|command| *command != missing).copied().collect();
        let limiter = limiter_with(&redis, &rest).await;
        let mut is_needed = false;
        for limit in limits() {
            if let Err(error) = call_everything(&limiter, &limit).await {
                is_needed = true;
                assert_error::<()>(Err(error), REFUSED, &["documentation lists them"]);
            }
        }
        assert!(is_needed, "{missing} is not needed");
    }
}

#[tokio::test]
async fn keys_without_permission_are_refused() {
    let redis = Redis::start(&[]).await;
    drop(limiter_with(&redis, &documented_commands()).await);
    let config = Config::new(url(&redis, &format!("limiter:{PASSWORD}"))).prefix("elsewhere");
    let limiter = Limiter::new(config.connect().await.expect("a store"));
    for limit in every_algorithm() {
        let refused = in_time(limiter.charge(take(&limit, KEY))).await;
        assert_error(refused, REFUSED, &["documentation lists them"]);
    }
}
