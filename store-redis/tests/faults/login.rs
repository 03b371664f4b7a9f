//! Credentials and permissions.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{
    Action, Effect, ErrorKind, IdempotencyKey, LeaseId, Limit, Limiter, Request, StoreError, Time,
};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

use crate::expect::{KEY, PASSWORD, assert_error, daily, every_algorithm, in_time};

const REFUSED: (ErrorKind, Effect) = (ErrorKind::Refused, Effect::None);

fn url(redis: &Redis, login: &str) -> String {
    format!("redis://{login}@{}", redis.address())
}

#[tokio::test]
async fn the_right_password_opens_and_others_are_refused() {
    let redis = Redis::start(&["--requirepass", PASSWORD]).await;
    let limit = daily(3);
    for (login, advice) in [
        (String::new(), "wants a password"),
        (":wrong".to_owned(), "user and password in the URL"),
        (format!("nobody:{PASSWORD}"), "user and password in the URL"),
    ] {
        let url = if login.is_empty() { redis.url() } else { url(&redis, &login) };
        assert_error(in_time(Config::new(&url).must_be_there().connect()).await, REFUSED, &[advice]);
        // Without insisting, every call says so.
        let limiter = Limiter::new(RedisStore::connect(&url).await.expect("a store"));
        assert_error(in_time(limiter.check(&limit, KEY)).await, REFUSED, &[advice]);
        assert_error(in_time(limiter.debit(&limit, KEY, 1)).await, REFUSED, &[advice]);
    }
    for login in [format!(":{PASSWORD}"), format!("default:{PASSWORD}")] {
        let store = Config::new(url(&redis, &login)).must_be_there().connect();
        let limiter = Limiter::new(in_time(store).await.expect("the right password"));
        assert!(in_time(limiter.check(&limit, KEY)).await.expect("a decision").is_allowed());
    }
}

#[tokio::test]
async fn a_password_of_any_characters_can_be_written_in_a_url() {
    // What separates the parts of a URL, and what is not ASCII.
    let redis = Redis::start(&["--requirepass", "p@:/?#[]%25 ü{}"]).await;
    let encoded = "p%40%3A%2F%3F%23%5B%5D%2525%20%C3%BC%7B%7D";
    let store = Config::new(url(&redis, &format!(":{encoded}"))).must_be_there().connect();
    let limiter = Limiter::new(in_time(store).await.expect("the right password"));
    assert!(in_time(limiter.check(&daily(1), KEY)).await.expect("a decision").is_allowed());
}

#[tokio::test]
async fn a_password_that_changes_is_an_error_until_it_is_right_again() {
    let redis = Redis::start(&["--requirepass", PASSWORD]).await;
    let as_admin = async |command: &[&str]| {
        let told = redis.try_calls(&[&["AUTH", PASSWORD], command]).await.expect("an answer");
        assert!(!matches!(told, tollgate_testkit::Reply::Error(_)), "{told:?}");
    };
    as_admin(&["ACL", "SETUSER", "limiter", "on", ">first", "~tollgate:*", "+@all"]).await;
    let config = Config::new(url(&redis, "limiter:first")).reconnect_backoff(Duration::ZERO, Duration::ZERO);
    let limiter = Limiter::new(config.connect().await.expect("a store"));
    let limit = daily(10);
    assert!(in_time(limiter.check(&limit, KEY)).await.is_ok());
    // Changing it ends the connections of that user.
    as_admin(&["ACL", "SETUSER", "limiter", "resetpass", ">second"]).await;
    as_admin(&["CLIENT", "KILL", "USER", "limiter"]).await;
    crate::expect::until("the new password is asked for", async || {
        let told = in_time(limiter.check(&limit, KEY)).await;
        matches!(told, Err(error) if error.kind() == ErrorKind::Refused)
    })
    .await;
    as_admin(&["ACL", "SETUSER", "limiter", ">first"]).await;
    crate::expect::until("the old password is good again", async || {
        in_time(limiter.check(&limit, KEY)).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_database_that_is_not_there_is_refused() {
    let redis = Redis::start(&["--databases", "16"]).await;
    let store = Config::new(format!("{}/99", redis.url())).must_be_there().connect();
    assert_error(in_time(store).await, REFUSED, &["no such database"]);
    let limiter = Limiter::new(RedisStore::connect(&format!("{}/99", redis.url())).await.expect("a store"));
    assert_error(in_time(limiter.check(&daily(1), KEY)).await, REFUSED, &["no such database"]);
    // And one that is there is the one that is used.
    let limiter = Limiter::new(RedisStore::connect(&format!("{}/15", redis.url())).await.expect("a store"));
    assert!(in_time(limiter.check(&daily(1), KEY)).await.expect("a decision").is_allowed());
    assert!(redis.call(&["INFO", "keyspace"]).await.field("db15").is_some());
}

/// The commands that the documentation of the crate lists for one server.
fn documented_commands() -> Vec<&'static str> {
    let documentation = include_str!("../../src/lib.rs");
    let from = documentation.find("# What the server needs").expect("the section");
    let list = documentation[from..].split("```").nth(1).expect("the list");
    list.split_whitespace().filter(|word| word.starts_with('+')).collect()
}

/// A store of a user who may do nothing but this.
async fn limiter_with(redis: &Redis, commands: &[&str]) -> Limiter<RedisStore> {
    let user = ["ACL", "SETUSER", "limiter", "reset", "on", ">open-sesame", "~tollgate:*"];
    redis.call(&[&user[..], commands].concat()).await;
    let store = Config::new(url(redis, &format!("limiter:{PASSWORD}"))).must_be_there().connect();
    Limiter::new(in_time(store).await.expect("no command is needed to connect"))
}

/// Everything that a store can be asked for.
async fn do_everything(limiter: &Limiter<RedisStore>, limit: &Limit) -> Result<(), StoreError> {
    let (store, now, lease) = (limiter.store(), Time::EPOCH, LeaseId::unique());
    for round in 0..40 {
        // More than there are, with ids and without.
        let charges = [limit.charge(KEY).with_lease(LeaseId::unique())];
        let request = Request::new(&charges);
        let named = request.with_idempotency_key(IdempotencyKey::unique());
        let _ = in_time(store.decide(if round % 2 == 0 { named } else { request }, now)).await?;
    }
    let holder = limit.charge(KEY).with_lease(LeaseId::unique()).with_action(Action::Release);
    if holder.supported().is_ok() {
        // Whoever comes last leaves first, and somebody else is last then.
        let _ = in_time(limiter.charge(holder.with_action(Action::Take { max_wait: None }))).await?;
        let _ = in_time(limiter.charge(holder)).await?;
    }
    in_time(limiter.reset(limit, KEY)).await?;
    let place = limit.charge(KEY).with_lease(lease);
    let _ = in_time(limiter.charge(place)).await?;
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
            let _ = in_time(limiter.charge(place.with_action(action))).await?;
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

/// Those that make a state large, too.
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
        let done = do_everything(&limiter, &limit).await;
        assert!(done.is_ok(), "{}: {done:?}", limit.name());
    }
    let denied = redis.call(&["INFO", "stats"]).await.field("acl_access_denied_cmd");
    // Where the server counts them, the connection's own name and version are all it was denied.
    assert!(denied.is_none_or(|count| count == "0" || count == "2"), "something was denied without an error");
}

#[tokio::test]
async fn no_documented_permission_is_too_much() {
    let redis = Redis::start(&[]).await;
    let commands = documented_commands();
    for missing in &commands {
        redis.call(&["FLUSHALL"]).await;
        redis.call(&["SCRIPT", "FLUSH"]).await;
        let rest: Vec<_> = commands.iter().filter(|command| *command != missing).copied().collect();
        let limiter = limiter_with(&redis, &rest).await;
        let mut missed = false;
        for limit in limits() {
            if let Err(error) = do_everything(&limiter, &limit).await {
                missed = true;
                assert_error::<()>(Err(error), REFUSED, &["documentation lists them"]);
            }
        }
        assert!(missed, "{missing} is not needed");
    }
}

#[tokio::test]
async fn keys_outside_of_the_permitted_ones_are_refused() {
    let redis = Redis::start(&[]).await;
    drop(limiter_with(&redis, &documented_commands()).await);
    let config = Config::new(url(&redis, &format!("limiter:{PASSWORD}"))).prefix("elsewhere");
    let limiter = Limiter::new(config.connect().await.expect("a store"));
    for limit in every_algorithm() {
        assert_error(in_time(limiter.check(&limit, KEY)).await, REFUSED, &["documentation lists them"]);
    }
}
