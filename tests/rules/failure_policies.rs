//! `on_store_error`: what decides while the store fails.

use std::sync::Arc;
use std::time::Duration;

use tollgate::memory::MemoryStore;
use tollgate::resilience::{FallbackStore, Guarded, OnFailure, Share};
use tollgate::rules::{RuleSet, Source as File};
use tollgate::{Limiter, ManualClock, Source};

use crate::failing::Failing;

const RULES: &str = "
domain: shop
rules:
  - { name: login, when: { path: /login }, per: user, limit: 5/min, on_store_error: deny }
  - { name: images, when: { path: /images }, per: user, limit: 5/min, on_store_error: allow }
  - { name: api, when: { path: /api }, per: user, limit: 5/min, on_store_error: 'allow for 30s, then deny' }
  - { name: search, when: { path: /search }, per: user, limit: 20/min, on_store_error: share 1/10 }
  - name: mails
    when: { path: /mails }
    per: user
    plan: { by: plan, default: free, free: 5/min, staff: unlimited }
    on_store_error: deny
  - { name: other, when: { path: /other }, per: user, limit: 5/min }
";

const CHANGED: &str = "
domain: shop
rules:
  - { name: login, when: { path: /login }, per: user, limit: 5/min, on_store_error: allow }
  - { name: images, when: { path: /images }, per: user, limit: 5/min, on_store_error: deny }
  - { name: api, when: { path: /api }, per: user, limit: 5/min }
  - { name: search, when: { path: /search }, per: user, limit: 20/min, on_store_error: share 1/5 }
";

struct Bench {
    store: Failing,
    limiter: Arc<Limiter<Guarded<Failing>, ManualClock>>,
    clock: ManualClock,
    fallback: FallbackStore,
}

impl Bench {
    fn new() -> Self {
        let (store, clock) = (Failing::default(), ManualClock::default());
        let guarded = Guarded::builder(store.clone()).on_failure(OnFailure::Allow).failure_threshold(64, 64);
        let guarded = guarded.build().expect("valid");
        let limiter = Arc::new(Limiter::with_clock(guarded, clock.clone()));
        let fallback = FallbackStore::new(MemoryStore::new(), Share::one_of(1));
        Self { store, limiter, clock, fallback }
    }

    fn load(&self, text: &str) -> RuleSet {
        let rules = RuleSet::from_sources([File::new("shop.yaml", text)]).expect("valid");
        let policies = self.limiter.store().failure_policies();
        tollgate::apply_failure_policies(&rules, policies, &self.fallback).expect("valid");
        rules
    }

    /// Returns how many of this many requests are admitted, and by what the last one was decided.
    async fn count(&self, requests: usize, rules: &RuleSet, path: &str) -> (usize, Source) {
        let shop = rules.domain("shop").expect("the domain");
        let (mut admitted, mut source) = (0, Source::Store);
        for _ in 0..requests {
            let matched = shop.match_attributes(&[("path", path), ("user", "alice")]);
            let admission = matched.admit(&self.limiter).await.expect("a policy decides");
            admitted += usize::from(admission.is_allowed());
            source = admission.verdict().decisions()[0].source();
        }
        (admitted, source)
    }
}

#[tokio::test]
async fn each_rule_decides_as_it_says_while_the_store_fails() {
    let bench = Bench::new();
    let rules = bench.load(RULES);
    for path in ["/login", "/images", "/api", "/mails", "/other"] {
        assert_eq!(bench.count(1, &rules, path).await, (1, Source::Store), "{path}");
    }
    bench.store.fail(true);
    for (path, admitted, source) in [
        ("/login", 0, Source::Policy),
        ("/images", 10, Source::Policy),
        ("/api", 10, Source::Policy),
        ("/mails", 0, Source::Policy),
        ("/other", 10, Source::Policy),
    ] {
        assert_eq!(bench.count(10, &rules, path).await, (admitted, source), "{path}");
    }
    let (admitted, source) = bench.count(10, &rules, "/search").await;
    assert_eq!(admitted, 2, "a tenth of 20");
    assert_ne!(source, Source::Policy);

    bench.clock.advance(Duration::from_millis(29_999));
    assert_eq!(bench.count(10, &rules, "/api").await, (10, Source::Policy));
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(bench.count(10, &rules, "/api").await, (0, Source::Policy));
    assert_eq!(bench.count(10, &rules, "/images").await, (10, Source::Policy));
}

#[tokio::test]
async fn a_request_is_denied_if_the_policy_of_one_of_its_rules_denies() {
    let bench = Bench::new();
    let rules = bench.load(
        "
domain: shop
rules:
  - { name: all, per: user, limit: 100/min, on_store_error: allow }
  - { name: login, when: { path: /login }, per: user, limit: 5/min, on_store_error: deny }
",
    );
    bench.store.fail(true);
    assert_eq!(bench.count(10, &rules, "/login").await.0, 0);
    assert_eq!(bench.count(10, &rules, "/").await.0, 10);
}

#[tokio::test]
async fn reloaded_rules_have_their_policies_at_once() {
    let bench = Bench::new();
    let rules = bench.load(RULES);
    bench.store.fail(true);
    assert_eq!(bench.count(10, &rules, "/login").await.0, 0);
    assert_eq!(bench.count(10, &rules, "/search").await.0, 2);
    bench.clock.advance(Duration::from_secs(60));
    assert_eq!(bench.count(10, &rules, "/api").await.0, 0);

    let rules = bench.load(CHANGED);
    for (path, admitted) in [("/login", 10), ("/images", 0), ("/api", 10), ("/search", 4)] {
        assert_eq!(bench.count(10, &rules, path).await.0, admitted, "{path}");
    }
}
