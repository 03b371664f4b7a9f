//! HTTP requests: a client chooses neither its counter nor its rule.

use std::net::IpAddr;

use axum::http::Request;
use axum::http::request::Parts;
use tollgate::rules::{ClientIp, HttpRequest, Identifiers, RuleSet, Source};

use crate::Bench;

const RULES: &str = "
domain: shop
identifiers:
  ip: { trusted_proxies: [10.0.0.0/8] }
  api_key: header.x-api-key
rules:
  - { name: login, when: { path: /login }, per: ip, limit: 5/min }
  - { name: api, when: { path: /api/** }, per: api_key, missing: deny, limit: 7/min }
";

fn bench() -> Bench {
    Bench::new("shop.yaml", RULES)
}

fn parts(uri: &str, headers: &[(&str, &str)]) -> Parts {
    let builder =
        headers.iter().fold(Request::post(uri), |builder, (name, value)| builder.header(*name, *value));
    builder.body(()).expect("valid").into_parts().0
}

impl Bench {
    /// Returns how many requests from this peer are admitted, each with other headers.
    async fn count_http(
        &self,
        uri: &str,
        peer: &str,
        headers: impl Iterator<Item = (&str, String)>,
    ) -> usize {
        let peer: IpAddr = peer.parse().expect("an address");
        let mut admitted = 0;
        for (name, value) in headers {
            let parts = parts(uri, &[(name, &value)]);
            let request = HttpRequest::new(&parts).with_peer(peer, self.domain().identifiers().ip());
            admitted += self.count(1, &request).await;
        }
        admitted
    }
}

#[tokio::test]
async fn a_client_does_not_choose_its_address() {
    let bench = bench();
    let spoofed = || (0..50).map(|number| ("x-forwarded-for", format!("203.0.113.{number}")));
    assert_eq!(bench.count_http("/login", "192.0.2.1", spoofed()).await, 5, "without a proxy");
    let proxied = |client: &'static str| spoofed().map(move |(name, hop)| (name, format!("{hop}, {client}")));
    assert_eq!(bench.count_http("/login", "10.0.0.1", proxied("192.0.2.2")).await, 5, "behind a proxy");
    assert_eq!(bench.count_http("/login", "10.0.0.9", proxied("192.0.2.2, 10.0.0.1")).await, 0, "or two");
    assert_eq!(
        bench.count_http("/login", "10.0.0.9", proxied("::ffff:192.0.2.2")).await,
        0,
        "mapped to IPv6"
    );
    assert_eq!(bench.count_http("/login", "10.0.0.1", proxied("192.0.2.3")).await, 5, "another client");
    let forwarded = (0..50).map(|number| ("forwarded", format!("for=203.0.113.{number}")));
    assert_eq!(bench.count_http("/login", "192.0.2.1", forwarded).await, 0, "the header that is not read");
}

#[tokio::test]
async fn the_addresses_of_one_ipv6_network_count_together() {
    let bench = bench();
    let hosts = |network: &'static str| {
        (1..50).map(move |host| ("x-forwarded-for", format!("[2001:db8:0:{network}:{host:x}::1]:4{host:03}")))
    };
    assert_eq!(bench.count_http("/login", "10.0.0.1", hosts("1")).await, 5);
    assert_eq!(bench.count_http("/login", "10.0.0.1", hosts("2")).await, 5, "another network");
}

#[tokio::test]
async fn another_spelling_of_a_path_evades_no_rule() {
    for uri in [
        "/login",
        "//login",
        "/./login",
        "/x/../login",
        "/%6cogin",
        "/%6C%6f%67in",
        "/x/%2e%2e/login",
        "/x/.%2E//login",
        "/login?next=/",
        "/../login",
        "http://shop.example/login",
    ] {
        let bench = bench();
        let plain = (0..3).map(|_| ("x-a", String::new()));
        assert_eq!(bench.count_http("/login", "192.0.2.1", plain).await, 3);
        let spelt = (0..20).map(|_| ("x-a", String::new()));
        assert_eq!(bench.count_http(uri, "192.0.2.1", spelt).await, 2, "{uri}");
    }
}

#[tokio::test]
async fn an_api_key_is_counted_and_not_written_down() {
    const SECRET: &str = "sk-live-4242424242";
    let bench = bench();
    let with_key = |key: &'static str| (0..20).map(move |_| ("X-Api-Key", key.to_owned()));
    assert_eq!(bench.count_http("/api/items", "192.0.2.1", with_key(SECRET)).await, 7);
    assert_eq!(bench.count_http("/api/items", "192.0.2.2", with_key(SECRET)).await, 0, "elsewhere, too");
    assert_eq!(bench.count_http("/api/items", "192.0.2.1", with_key("sk-live-1111")).await, 7);
    let without = (0..20).map(|_| ("x-other", String::new()));
    assert_eq!(bench.count_http("/api/items", "192.0.2.1", without).await, 0, "missing: deny");

    let parts = parts("/api/items", &[("x-api-key", SECRET)]);
    let request = HttpRequest::new(&parts);
    let matched = bench.domain().match_attributes(&request);
    let charges = matched.charges();
    let [charge] = &charges[..] else { panic!("{} charges", charges.len()) };
    let key = String::from_utf8_lossy(charge.key().entity()).into_owned();
    assert!(!key.is_empty());
    let admission = matched.admit(&bench.limiter).await;
    let explained = bench.domain().explain(&request);
    for shown in
        [key, format!("{matched:?}"), format!("{request:?}"), format!("{admission:?}"), explained.to_string()]
    {
        assert!(!shown.contains("4242"), "{shown}");
    }
}

#[test]
fn identifiers_in_code_add_what_the_file_does_not_say() -> Result<(), Box<dyn std::error::Error>> {
    let file = "
domain: shop
identifiers:
  ip: { trusted_proxies: [192.0.2.1] }
  user: header.x-user
  badge: header.x-badge
rules: [{ name: api, per: [user, tenant, badge], limit: 9/s }]
";
    let code = Identifiers::new()
        .with_ip(ClientIp::new().with_trusted_proxies(["10.0.0.0/8"])?)
        .with_named("user", ["claim.sub"])?
        .with_named("tenant", ["header.x-tenant"])?
        .with_secret("badge")?;
    let rules = RuleSet::from_sources([Source::new("shop.yaml", file)])?.with_identifiers(&code);
    let shop = rules.domain("shop").ok_or("no such domain")?;
    assert_eq!(shop.identifiers().ip().trusted_proxies().len(), 1);
    assert_eq!(
        shop.identifiers().ip().trusted_proxies()[0].to_string(),
        "192.0.2.1/32",
        "the file comes first"
    );
    let request = [
        ("claim.sub", "eve"),
        ("header.x-user", "ann"),
        ("header.x-tenant", "acme"),
        ("header.x-badge", "s3cret"),
    ];
    let matched = shop.match_attributes(&request);
    let keys: Vec<_> = matched.charges().iter().map(|charge| charge.key().entity().to_vec()).collect();
    let key = String::from_utf8(keys.concat())?;
    assert!(key.starts_with("ann|acme|") && !key.contains("s3cret"), "{key}");

    let plain = Source::new("shop.yaml", "{ domain: shop, rules: [{ name: api, limit: 9/s }] }");
    let rules = RuleSet::from_sources([plain])?.with_identifiers(&code);
    let shop = rules.domain("shop").ok_or("no such domain")?;
    assert_eq!(shop.identifiers().ip(), code.ip(), "the file says nothing");
    Ok(())
}
