//! Tests of identifiers that are configured in code.

use ipnet::IpNet;

use crate::identifiers::builder::parse_network;
use crate::identifiers::{ClientIp, ForwardedHeader, IdentifierError, Identifiers, KeyForm};

#[test]
fn everything_can_be_configured() {
    let network: IpNet = "192.0.2.0/24".parse().unwrap();
    let ip = ClientIp::new()
        .with_trusted_proxies([network])
        .unwrap()
        .with_header(ForwardedHeader::Forwarded)
        .with_ipv4_prefix(24)
        .unwrap()
        .with_ipv6_prefix(56)
        .unwrap();
    assert_eq!(ip.trusted_proxies(), [network]);
    assert_eq!((ip.header(), ip.ipv4_prefix(), ip.ipv6_prefix()), (ForwardedHeader::Forwarded, 24, 56));
    let identifiers = Identifiers::new()
        .with_ip(ip.clone())
        .with_named("user", ["claim.sub", "header.x-user"])
        .unwrap()
        .with_secret("badge")
        .unwrap()
        .with_named("badge", ["header.x-badge"])
        .unwrap()
        .with_named("app", ["query.app".to_owned()])
        .unwrap()
        .with_secret("app")
        .unwrap()
        .with_secret("header.X-Token")
        .unwrap();
    assert_eq!(*identifiers.ip(), ip);
    assert_eq!(identifiers.key_form("ip"), KeyForm::Network { ipv4_prefix: 24, ipv6_prefix: 56 });
    assert_eq!(identifiers.sources("user"), ["claim.sub".into(), "header.x-user".into()]);
    assert_eq!(identifiers.sources("badge"), ["header.x-badge".into()]);
    for secret in ["badge", "app", "header.x-token"] {
        assert!(identifiers.is_secret(secret), "{secret}");
    }
    assert!(!identifiers.is_secret("user"));
}

#[test]
fn the_default_trusts_nobody_and_counts_ipv6_by_64_bits() {
    let ip = ClientIp::new();
    assert!(ip.trusted_proxies().is_empty());
    assert_eq!((ip.header(), ip.ipv4_prefix(), ip.ipv6_prefix()), (ForwardedHeader::XForwardedFor, 32, 64));
    assert_eq!(Identifiers::new(), Identifiers::default());
}

#[test]
fn networks_are_read() {
    for (text, network) in [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("192.0.2.1", "192.0.2.1/32"),
        ("2001:db8::/32", "2001:db8::/32"),
        ("::1", "::1/128"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("::/0", "::/0"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("::ffff:0:0/96", "0.0.0.0/0"),
        ("::ffff:192.0.2.1", "192.0.2.1/32"),
    ] {
        assert_eq!(parse_network(text), Ok(network.parse().unwrap()), "{text}");
    }
}

fn refused<T: std::fmt::Debug>(result: Result<T, IdentifierError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn errors_say_what_would_be_right() {
    let proxies = |text: &str| refused(ClientIp::new().with_trusted_proxies(["10.0.0.0/8", text]));
    assert_eq!(
        proxies("10.0.0.0/33"),
        "`10.0.0.0/33` is not a network: write one such as `203.0.113.7`, `10.0.0.0/8` or \
         `\"2001:db8::/32\"`"
    );
    assert_eq!(
        proxies("10.0.0.7/8"),
        "`10.0.0.7/8` is not a network: the network is `10.0.0.0/8`, the address is `10.0.0.7`"
    );
    assert!(proxies("example.com").contains("write one such as `203.0.113.7`"));
    for prefix in [0, 33] {
        let error = refused(ClientIp::new().with_ipv4_prefix(prefix));
        let expected = format!("a prefix of {prefix} bits is not possible: IPv4 prefixes have 1 to 32 bits");
        assert_eq!(error, expected);
    }
    for prefix in [0, 129] {
        let error = refused(ClientIp::new().with_ipv6_prefix(prefix));
        assert!(error.ends_with("IPv6 prefixes have 1 to 128 bits"), "{error}");
    }
    assert_eq!(ClientIp::new().with_ipv6_prefix(128).unwrap().ipv6_prefix(), 128);
    assert_eq!(ClientIp::new().with_ipv4_prefix(1).unwrap().ipv4_prefix(), 1);
}

#[test]
fn names_are_checked() {
    let named = |name: &str, from: &[&str]| refused(Identifiers::new().with_named(name, from));
    assert!(named("ip", &["header.x-ip"]).contains("configure that by `with_ip`"));
    assert!(named("header.x", &["claim.sub"]).contains("use another name, such as `user`"));
    assert!(named("", &["claim.sub"]).contains("write a name"));
    assert!(named("user", &["claim."]).contains("write a name"));
    assert!(named("user", &["claim. sub"]).contains("without blanks"));
    assert!(named("us\u{7f}er", &["claim.sub"]).contains("without blanks and control characters"));
    assert_eq!(
        named("user", &[]),
        "`user` is taken from nothing: list at least one source, such as `header.x-user`"
    );
    assert!(refused(Identifiers::new().with_secret("a b")).contains("without blanks"));
    let user = || Identifiers::new().with_named("user", ["account"]).unwrap();
    assert_eq!(
        refused(user().with_named("user", ["claim.sub"])),
        "`user` is named twice: list all its sources at once, in the order of preference"
    );
    assert_eq!(
        refused(user().with_named("account", ["client"]).unwrap().with_named("client", ["ip", "user"])),
        "`client` is taken from itself: its sources must not lead back to `client`"
    );
    assert!(refused(Identifiers::new().with_named("user", ["user"])).contains("taken from itself"));
}
