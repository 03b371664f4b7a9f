//! The example of the design, in all formats, and what each part of the language means.

use std::time::Duration;

use tollgate_core::AlgorithmKind;

use super::*;
use crate::model::{Cost, LimitModel, Missing, OnStoreError, Pattern, PlanLimit, RuleLimits, Test};

pub(super) const YAML: &str = "\
domain: shop
rules:
  - name: api
    when: { path: /api/**, method: [GET, POST] }    # all must match; a list means one of; absent means any
    per: [user]                                     # whom it counts; absent: one counter for everybody
    limit: [50/s burst 100, 10000/day]              # several limits, one round trip, all or nothing
  - name: login
    when: { path: /login, method: POST }
    per: [ip]
    limit: { rate: 5/min, algorithm: sliding_window, block_for: 15m }
    on_store_error: deny
  - name: tiers
    per: [user]
    plan: { by: plan, default: free, free: 50/s, standard: 500/s, pro: 1000/s }
  - name: exports
    when: { path: /export/** }
    per: [user]
    concurrent: 3
    lease: 60s
  - name: llm
    when: { path: /v1/chat/** }
    per: [api_key, model]
    limit: { rate: 100000/min, cost: tokens }       # the cost is an attribute, estimated first and settled afterwards
";

const TOML: &str = r#"
domain = "shop"

[[rules]]
name = "api"
when = { path = "/api/**", method = ["GET", "POST"] }
per = ["user"]
limit = ["50/s burst 100", "10000/day"]

[[rules]]
name = "login"
when = { path = "/login", method = "POST" }
per = ["ip"]
limit = { rate = "5/min", algorithm = "sliding_window", block_for = "15m" }
on_store_error = "deny"

[[rules]]
name = "tiers"
per = ["user"]
plan = { by = "plan", default = "free", free = "50/s", standard = "500/s", pro = "1000/s" }

[[rules]]
name = "exports"
when = { path = "/export/**" }
per = ["user"]
concurrent = 3
lease = "60s"

[[rules]]
name = "llm"
when = { path = "/v1/chat/**" }
per = ["api_key", "model"]
limit = { rate = "100000/min", cost = "tokens" }
"#;

pub(super) const JSON: &str = r#"{
  "domain": "shop",
  "rules": [
    {"name": "api", "when": {"path": "/api/**", "method": ["GET", "POST"]}, "per": ["user"],
     "limit": ["50/s burst 100", "10000/day"]},
    {"name": "login", "when": {"path": "/login", "method": "POST"}, "per": ["ip"],
     "limit": {"rate": "5/min", "algorithm": "sliding_window", "block_for": "15m"}, "on_store_error": "deny"},
    {"name": "tiers", "per": ["user"],
     "plan": {"by": "plan", "default": "free", "free": "50/s", "standard": "500/s", "pro": "1000/s"}},
    {"name": "exports", "when": {"path": "/export/**"}, "per": ["user"], "concurrent": 3, "lease": "60s"},
    {"name": "llm", "when": {"path": "/v1/chat/**"}, "per": ["api_key", "model"],
     "limit": {"rate": "100000/min", "cost": "tokens"}}
  ]
}"#;

fn all(limits: &RuleLimits) -> &[LimitModel] {
    let RuleLimits::All(limits) = limits else { panic!("not a list of limits: {limits:?}") };
    limits
}

#[test]
fn the_example_of_the_design_means_what_it_says() {
    let shop = domain(YAML);
    assert_eq!(&*shop.name.value, "shop");
    let [api, login, tiers, exports, llm] = &shop.rules[..] else { panic!("{} rules", shop.rules.len()) };

    assert_eq!(&*api.when[0].attribute.value, "path");
    assert_eq!(api.when[0].test, Test::OneOf(vec![Pattern::Path("/api/**".into())]));
    let methods = ["GET", "POST"].map(|method| Pattern::Exact(method.into()));
    assert_eq!(api.when[1].test, Test::OneOf(methods.to_vec()));
    assert_eq!(&*api.per[0].value, "user");
    let [second, day] = all(&api.limits) else { panic!("two limits") };
    assert_eq!(
        (second.limit.name(), second.limit.count(), second.limit.capacity()),
        ("shop/api/1s", 50, 100)
    );
    assert_eq!(
        (day.limit.name(), day.limit.count(), day.limit.period().as_secs()),
        ("shop/api/1d", 10_000, 86_400)
    );
    assert_eq!(second.limit.kind(), AlgorithmKind::TokenBucket);
    assert_eq!(
        (api.missing.clone(), api.on_store_error, api.shadow, api.priority),
        (Missing::Skip, None, false, 0)
    );

    let [limit] = all(&login.limits) else { panic!("one limit") };
    assert_eq!((limit.limit.kind(), limit.limit.name()), (AlgorithmKind::SlidingWindow, "shop/login/1m"));
    assert_eq!(limit.limit.block_time(), Some(Duration::from_secs(900)));
    assert_eq!(login.on_store_error, Some(OnStoreError::Deny));
    assert_eq!(login.when[0].test, Test::OneOf(vec![Pattern::Exact("/login".into())]));

    let RuleLimits::Plan(plan) = &tiers.limits else { panic!("a plan") };
    assert_eq!((&*plan.by.value, plan.default.as_deref()), ("plan", Some("free")));
    let counts = plan.plans.iter().map(|(name, limit)| match limit {
        PlanLimit::Limited(limit) => (&*name.value, limit.limit.count(), limit.limit.name()),
        PlanLimit::Unlimited => panic!("no plan is unlimited"),
    });
    let name = "shop/tiers/plan";
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [("free", 50, name), ("standard", 500, name), ("pro", 1000, name)]
    );

    let [slots] = all(&exports.limits) else { panic!("one limit") };
    assert_eq!(
        (slots.limit.name(), slots.limit.kind()),
        ("shop/exports/concurrent", AlgorithmKind::Concurrency)
    );
    assert_eq!((slots.limit.count(), slots.limit.period()), (3, Duration::from_secs(60)));

    let [limit] = all(&llm.limits) else { panic!("one limit") };
    assert_eq!(limit.cost, Cost::Attribute { name: "tokens".into(), default: 1 });
    assert_eq!(llm.per.iter().map(|name| &*name.value).collect::<Vec<_>>(), ["api_key", "model"]);
}

#[test]
fn all_formats_mean_the_same() {
    let model = |name: &str, text: &str| {
        let (domains, warnings) = read_files(&[(name, text)], ReadOptions::default()).expect("a right file");
        assert!(warnings.is_empty());
        without_places(&domains)
    };
    let yaml = model("shop.yaml", YAML);
    assert_eq!(yaml, model("shop.toml", TOML));
    assert_eq!(yaml, model("shop.json", JSON));
    assert!(!yaml.contains("Span {"), "places are left out");
}

#[test]
fn conditions() {
    let test =
        |condition: &str| domain(&rule(&format!("limit: 5/s\nwhen: {{ {condition} }}"))).rules.remove(0).when;
    let one = |pattern| Test::OneOf(vec![pattern]);
    let address = |text: &str| Pattern::Address(text.parse().expect("an address"));
    for (condition, expected) in [
        ("path: /a", one(Pattern::Exact("/a".into()))),
        ("path: /a/*", one(Pattern::Path("/a/*".into()))),
        ("route: '/users/{id}'", one(Pattern::Exact("/users/{id}".into()))),
        ("path: { prefix: /a }", one(Pattern::Prefix("/a".into()))),
        ("path: { exact: '/a*' }", one(Pattern::Exact("/a*".into()))),
        ("method: get", one(Pattern::Exact("GET".into()))),
        (
            "method: { not: [get, Head] }",
            Test::NoneOf(vec![Pattern::Exact("GET".into()), Pattern::Exact("HEAD".into())]),
        ),
        ("host: API.Example.com", one(Pattern::Exact("api.example.com".into()))),
        ("host: '*.Example.com'", one(Pattern::Glob("*.example.com".into()))),
        ("header.X-Tenant: Acme*", one(Pattern::Prefix("Acme".into()))),
        ("query.page: a*b*", one(Pattern::Glob("a*b*".into()))),
        ("app: '*'", one(Pattern::Prefix("".into()))),
        ("query.page: 404", one(Pattern::Exact("404".into()))),
        ("claim.admin: true", one(Pattern::Exact("true".into()))),
        ("user: { present: true }", Test::Present),
        ("user: { present: false }", Test::Absent),
        ("user: { not: { prefix: bot- } }", Test::NoneOf(vec![Pattern::Prefix("bot-".into())])),
        (
            "user: [ann, { prefix: bob }]",
            Test::OneOf(vec![Pattern::Exact("ann".into()), Pattern::Prefix("bob".into())]),
        ),
        ("ip: 10.0.0.0/8", one(Pattern::Network("10.0.0.0/8".parse().expect("a network")))),
        ("ip: '2001:db8::1'", one(address("2001:db8::1"))),
        ("ip: '::ffff:10.1.2.3'", one(address("10.1.2.3"))),
        ("peer_address: 192.0.2.1", one(address("192.0.2.1"))),
    ] {
        let conditions = test(condition);
        assert_eq!(conditions.len(), 1, "{condition}");
        assert_eq!(conditions[0].test, expected, "{condition}");
    }
    assert_eq!(&*test("header.X-Tenant: a")[0].attribute.value, "header.x-tenant");
    assert_eq!(&*test("claim.orgId: a")[0].attribute.value, "claim.orgId");
}

#[test]
fn every_algorithm_and_option() {
    let limit = |map: &str| {
        let mut shop = domain(&rule(&format!("limit: {{ rate: 60/min, {map} }}")));
        let RuleLimits::All(mut limits) = shop.rules.remove(0).limits else { panic!("limits") };
        limits.remove(0).limit.to_builder()
    };
    let start = || tollgate_core::Limit::per(60, Duration::from_secs(60));
    let seconds = Duration::from_secs;
    for (map, expected) in [
        ("burst: 100", start().burst(100)),
        ("algorithm: token_bucket", start()),
        ("algorithm: gcra, burst: 5", start().gcra().burst(5)),
        ("algorithm: leaky_bucket", start().leaky_bucket()),
        ("algorithm: queue, waiting: 20", start().queue(20)),
        ("algorithm: fixed_window, anchored: true", start().fixed_window().anchored()),
        ("algorithm: sliding_window", start().sliding_window()),
        ("algorithm: sliding_counter, sub_buckets: 12", start().sliding_counter(12)),
        (
            "algorithm: sliding_log, count_denied: true, min_gap: 1s",
            start().sliding_log().count_denied().min_gap(seconds(1)),
        ),
        ("algorithm: smooth, burst: 3", start().smooth().burst(3)),
        ("algorithm: warm_up, warm_up: 30s, cold_factor: 5", start().warm_up(seconds(30)).cold_factor(5)),
        ("algorithm: interval_bucket, block_for: 15m", start().refill_by_interval().block_for(seconds(900))),
        ("anchored: false", start()),
    ] {
        // Values of YAML's flow style, as they are.
        assert_eq!(limit(map), expected, "{map}");
    }
    let counted = domain(&rule("limit: { count: 7, period: 90s, name: odd }"));
    let [limit] = all(&counted.rules[0].limits) else { panic!("one limit") };
    assert_eq!(
        (limit.limit.count(), limit.limit.period(), limit.limit.name()),
        (7, seconds(90), "shop/api/odd")
    );
}

#[test]
fn costs() {
    let cost = |lines: &str| {
        let shop = domain(&rule(lines));
        all(&shop.rules[0].limits).iter().map(|limit| limit.cost.clone()).collect::<Vec<_>>()
    };
    let tokens = |default| Cost::Attribute { name: "tokens".into(), default };
    assert_eq!(cost("limit: 5/s"), [Cost::Fixed(1)]);
    assert_eq!(cost("limit: [5/s, 9/min]\ncost: 3"), [Cost::Fixed(3), Cost::Fixed(3)]);
    let own = "limit: [5/s, { rate: 9000/min, cost: { attribute: tokens, default: 1000 } }]";
    assert_eq!(cost(own), [Cost::Fixed(1), tokens(1000)]);
    // A request holds one slot, whatever it costs otherwise.
    assert_eq!(cost("limit: 5/s\ncost: tokens\nconcurrent: 2"), [tokens(1), Cost::Fixed(1)]);
}

#[test]
fn ipv4_addresses_in_ipv6_are_ipv4_addresses() {
    let text =
        "domain: a\nidentifiers: { ip: { trusted_proxies: ['::ffff:10.0.0.1', '::ffff:10.1.0.0/112'] } }\n";
    let a = domain(&format!("{text}rules: [{{ name: a, limit: 5/s }}]\n"));
    assert_eq!(
        a.identifiers.ip().trusted_proxies(),
        ["10.0.0.1/32", "10.1.0.0/16"].map(|one| one.parse().unwrap())
    );
    let shop = domain(&rule("when: { ip: ['::ffff:10.0.0.1', '::ffff:10.1.0.0/112'] }\nlimit: 5/s"));
    let Test::OneOf(patterns) = &shop.rules[0].when[0].test else { panic!("{:?}", shop.rules[0].when) };
    for (address, matches) in [("10.0.0.1", true), ("10.1.2.3", true), ("10.0.0.2", false)] {
        assert_eq!(patterns.iter().any(|pattern| pattern.matches(address)), matches, "{address}");
    }
}

#[test]
fn what_else_a_rule_says() {
    let read = |lines: &str| domain(&rule(&format!("limit: 5/s\nper: user\n{lines}"))).rules.remove(0);
    assert_eq!(read("missing: deny").missing, Missing::Deny);
    assert_eq!(read("missing: skip").missing, Missing::Skip);
    assert_eq!(read("missing: { shared: anonymous }").missing, Missing::Shared("anonymous".into()));
    assert_eq!(read("on_store_error: share 1/10").on_store_error, Some(OnStoreError::Share { of: 10 }));
    let policy = read("on_store_error: allow for 30s, then deny").on_store_error;
    assert_eq!(policy, Some(OnStoreError::AllowFor(Duration::from_secs(30))));
    assert!(read("shadow: true").shadow);
    assert_eq!(read("priority: -10").priority, -10);
    let exempt = domain(&rule("when: { ip: 10.0.0.0/8 }\nlimit: unlimited\npriority: 10"));
    assert!(matches!(exempt.rules[0].limits, RuleLimits::Unlimited));
    let plans = domain(&rule("per: user\nplan: { by: plan, free: 5/s, staff: unlimited }"));
    let RuleLimits::Plan(plan) = &plans.rules[0].limits else { panic!("a plan") };
    assert!(matches!(plan.plans[1].1, PlanLimit::Unlimited) && plan.default.is_none());
}

#[test]
fn identifiers() {
    let shop = domain(
        "\
domain: shop
identifiers:
  ip: { trusted_proxies: [10.0.0.0/8, '::1'], header: Forwarded, ipv4_prefix: 24, ipv6_prefix: 56 }
  user: [claim.sub, header.X-User]
  api_key: header.x-api-key
  session: { from: cookie.sid, secret: true }
rules: [{ name: api, limit: 5/s }]
",
    );
    let crate::identifiers::Identifiers { ip, named, .. } = &shop.identifiers;
    assert_eq!(
        ip.trusted_proxies.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["10.0.0.0/8", "::1/128"]
    );
    assert_eq!(ip.header, crate::identifiers::ForwardedHeader::Forwarded);
    assert_eq!((ip.ipv4_prefix, ip.ipv6_prefix), (24, 56));
    let named: Vec<_> = named
        .iter()
        .map(|named| (&*named.name, named.from.iter().map(|from| &**from).collect::<Vec<_>>(), named.secret))
        .collect();
    assert_eq!(
        named,
        [
            ("user", vec!["claim.sub", "header.x-user"], false),
            ("api_key", vec!["header.x-api-key"], false),
            ("session", vec!["cookie.sid"], true),
        ]
    );
}
