//! Tests of key forms.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use proptest::prelude::*;

use crate::identifiers::key::KeyForm;
use crate::identifiers::{Identifiers, NamedIdentifier};

const DEFAULT_NETWORK: KeyForm = KeyForm::Network { ipv4_prefix: 32, ipv6_prefix: 64 };

fn written(form: KeyForm, value: &str) -> String {
    let mut key = Vec::new();
    form.write(value, |part| key.extend_from_slice(part));
    String::from_utf8(key).unwrap()
}

fn named(name: &str, from: &[&str], secret: bool) -> NamedIdentifier {
    NamedIdentifier { name: name.into(), from: from.iter().map(|from| Arc::from(*from)).collect(), secret }
}

#[test]
fn plain_values_are_written_as_they_are() {
    assert_eq!(written(KeyForm::Plain, "al/ice\n"), "al/ice\n");
    assert_eq!(written(KeyForm::Plain, ""), "");
}

#[test]
fn secrets_are_written_as_128_bits_of_their_sha_256() {
    // printf 'tollgate/identifier/1\0secret-key' | sha256sum | cut -c1-32
    assert_eq!(written(KeyForm::Hashed, "secret-key"), "ff903eceeffbe011ca572f0bf64d7fbe");
    assert_ne!(written(KeyForm::Hashed, "secret-key"), written(KeyForm::Hashed, "secret-kez"));
}

#[test]
fn addresses_are_written_as_their_network() {
    for (value, text) in [
        ("192.0.2.7", "192.0.2.7"),
        ("192.0.2.7:4711", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("[::ffff:192.0.2.7]:80", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2::9]:443", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ] {
        assert_eq!(written(DEFAULT_NETWORK, value), text, "{value}");
    }
    let wide = KeyForm::Network { ipv4_prefix: 20, ipv6_prefix: 128 };
    assert_eq!(written(wide, "198.51.255.9"), "198.51.240.0/20");
    assert_eq!(written(wide, "2001:db8::9"), "2001:db8::9");
    let everything = KeyForm::Network { ipv4_prefix: 0, ipv6_prefix: 0 };
    assert_eq!(written(everything, "198.51.255.9"), "0.0.0.0/0");
    assert_eq!(written(everything, "2001:db8::9"), "::/0");
}

#[test]
fn what_is_no_address_is_written_as_it_is_but_never_like_a_network() {
    for (value, text) in [
        ("unknown", "unknown"),
        ("", ""),
        ("192.0.2.256", "192.0.2.256"),
        ("192.0.2.0/24", "=192.0.2.0/24"),
        ("2001:db8:1:2::/64", "=2001:db8:1:2::/64"),
        ("=192.0.2.0/24", "==192.0.2.0/24"),
    ] {
        assert_eq!(written(DEFAULT_NETWORK, value), text, "{value}");
    }
}

#[test]
fn attributes_have_the_form_of_what_they_are() {
    let identifiers = Identifiers {
        named: vec![
            named("user", &["claim.sub", "header.x-user"], false),
            named("badge", &["header.x-badge"], true),
            named("caller", &["user", "api_key"], false),
            named("client", &["caller", "ip"], false),
            named("address", &["ip"], false),
        ],
        ..Identifiers::default()
    };
    for plain in ["user", "path", "header.x-user", "query.page", "header.x-badge", "claim.sub", "cookie"] {
        assert_eq!(identifiers.key_form(plain), KeyForm::Plain, "{plain}");
        assert!(!identifiers.is_secret(plain), "{plain}");
    }
    let secrets = [
        "api_key",
        "badge",
        "caller",
        "cookie.session",
        "header.authorization",
        "header.Cookie",
        "header.Proxy-Authorization",
        "header.x-api-key",
        "header.x-auth-token",
        "query.access_token",
        "query.api_key",
    ];
    for secret in secrets {
        assert_eq!(identifiers.key_form(secret), KeyForm::Hashed, "{secret}");
        assert!(identifiers.is_secret(secret), "{secret}");
    }
    for address in ["ip", "address"] {
        assert_eq!(identifiers.key_form(address), DEFAULT_NETWORK, "{address}");
        assert!(!identifiers.is_secret(address));
    }
    let either = KeyForm::HashedNetwork { ipv4_prefix: 32, ipv6_prefix: 64 };
    assert_eq!(identifiers.key_form("client"), either);
    assert_eq!(written(either, "2001:db8::1"), written(either, "2001:db8::2"), "the same network");
    assert_eq!(written(either, "key"), written(KeyForm::Hashed, "key"));
}

#[test]
fn sources_are_followed_once_each() {
    let identifiers = Identifiers {
        named: vec![
            named("client", &["user", "app", "ip"], false),
            named("user", &["claim.sub", "app"], false),
            named("app", &["header.x-app", "client"], false),
        ],
        ..Identifiers::default()
    };
    assert_eq!(identifiers.sources("user"), [Arc::from("claim.sub"), Arc::from("app")]);
    assert!(identifiers.sources("path").is_empty());
    let order = identifiers.lookup_order("client");
    let order: Vec<&str> = order.iter().map(|name| &**name).collect();
    assert_eq!(order, ["client", "user", "claim.sub", "app", "header.x-app", "ip"]);
}

/// Masks bit by bit.
fn model_of_network(address: IpAddr, prefix: u8) -> IpAddr {
    fn keep<const LEN: usize>(mut bytes: [u8; LEN], prefix: u8) -> [u8; LEN] {
        for bit in usize::from(prefix)..LEN * 8 {
            bytes[bit / 8] &= !(0x80 >> (bit % 8));
        }
        bytes
    }
    match address {
        IpAddr::V4(address) => Ipv4Addr::from(keep(address.octets(), prefix)).into(),
        IpAddr::V6(address) => Ipv6Addr::from(keep(address.octets(), prefix)).into(),
    }
}

/// Addresses that often share their first bits.
fn addresses() -> impl Strategy<Value = IpAddr> {
    let near = |bits: u32| (0u8..3, 0..bits).prop_map(|(value, shift)| u128::from(value) << shift);
    prop_oneof![
        any::<u32>().prop_map(|bits| Ipv4Addr::from(bits).into()),
        (0u32..256).prop_map(|bits| Ipv4Addr::from(0xc633_6400 | bits).into()),
        any::<u128>().prop_map(|bits| Ipv6Addr::from(bits).into()),
        near(126).prop_map(|bits| Ipv6Addr::from(0x2001_0db8 << 96 ^ bits).into()),
        near(64).prop_map(|bits| Ipv6Addr::from(bits).into()),
    ]
}

proptest! {
    #[test]
    fn addresses_share_a_key_exactly_if_they_share_their_network(
        (one, other) in (addresses(), addresses()), ipv4_prefix in 0u8..=32, ipv6_prefix in 0u8..=128,
    ) {
        let form = KeyForm::Network { ipv4_prefix, ipv6_prefix };
        let network = |address: IpAddr| {
            let address = address.to_canonical();
            model_of_network(address, if address.is_ipv4() { ipv4_prefix } else { ipv6_prefix })
        };
        let same = network(one) == network(other);
        let (one, other) = (written(form, &one.to_string()), written(form, &other.to_string()));
        prop_assert_eq!(one == other, same, "{} and {}", one, other);
    }

    #[test]
    fn the_text_of_a_network_starts_with_its_first_address(address in addresses(), prefix in 0u8..=32) {
        let address = address.to_canonical();
        let text = written(KeyForm::Network { ipv4_prefix: prefix, ipv6_prefix: prefix }, &address.to_string());
        let first = model_of_network(address, prefix);
        let expected = if address.is_ipv4() && prefix == 32 { first.to_string() } else { format!("{first}/{prefix}") };
        prop_assert_eq!(text, expected);
    }

    #[test]
    fn no_text_of_a_client_reaches_the_key_of_an_address(
        address in addresses(),
        ipv4_prefix in 0u8..=32,
        ipv6_prefix in 0u8..=128,
        escapes in "={0,2}",
        value in ".{0,8}",
    ) {
        let form = KeyForm::Network { ipv4_prefix, ipv6_prefix };
        let text = written(form, &address.to_string());
        if text.contains('/') {
            prop_assert_ne!(written(form, &text), text.clone());
        }
        let one = format!("{escapes}{text}");
        let other = format!("={escapes}{text}");
        prop_assert_ne!(written(form, &one), written(form, &other));
        // Random texts are hardly ever addresses.
        prop_assert_ne!(written(form, &value), text);
    }
}
