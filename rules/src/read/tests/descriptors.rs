//! Files as the Envoy reference service reads them.

use std::time::Duration;

use tollgate_core::{AlgorithmKind, Limit};

use super::*;
use crate::model::{DescriptorModel, DescriptorQuota};

pub(super) const EDGE: &str = "\
domain: edge_proxy
descriptors:
  # Everybody, by address; known scanners not at all.
  - key: remote_address
    rate_limit:
      unit: second
      requests_per_unit: 20
  - key: remote_address
    value: 203.0.113.66
    rate_limit:
      unit: Year
      requests_per_unit: 0
  - key: method
    value: POST
    descriptors:
      - key: path
        value: /login
        rate_limit: { unit: MINUTE, requests_per_unit: 5, name: login }
        shadow_mode: yes
      - key: path
        value: /files/*/raw*
        share_threshold: true
        detailed_metric: true
        rate_limit:
          unit: week
          requests_per_unit: 4294967295
          replaces:
            - name: login
      - key: path
  - key: status
    value: 404
    quota_mode: true
    value_to_metric: on
    rate_limit: { unit: month, requests_per_unit: 1_000 }
    metadata:
      owner: { team: edge, pager: 42, ratio: 0.5 }
      tags: [a, true, null]
  - key: internal
    value: true
    rate_limit:
      unlimited: true
  - key: empty
    value:
    descriptors:
";

fn limit(model: &DescriptorModel) -> &Limit {
    match model.limit.as_ref().map(|limit| &limit.quota) {
        Some(DescriptorQuota::Limited(limit)) => limit,
        other => panic!("no limit: {other:?}"),
    }
}

#[test]
fn a_file_of_the_reference_service_loads_unchanged() {
    let (domains, warnings) =
        read_files(&[("edge.yaml", EDGE)], ReadOptions::default()).expect("a right file");
    let [warning] = &warnings[..] else { panic!("{} warnings", warnings.len()) };
    assert_eq!(warning.message(), "`requests_per_unit` is 4294967295, more than 1000000000 at most");
    assert_eq!((warning.line(), warning.column()), (26, 30));
    assert!(warning.advice().contains("`unlimited: true`"));

    let [any, scanner, post, status, internal, empty] = &domains[0].descriptors[..] else {
        panic!("descriptors")
    };
    assert_eq!((&*any.key.value, any.value.as_deref()), ("remote_address", None));
    assert_eq!((limit(any).name(), limit(any).count()), ("edge_proxy/remote_address", 20));
    assert_eq!(limit(any).kind(), AlgorithmKind::FixedWindow);
    assert!(!limit(any).parameters().anchored, "aligned to the clock");

    let blocked = &scanner.limit.as_ref().expect("a limit").quota;
    let DescriptorQuota::Blocked { period } = blocked else { panic!("not blocked: {blocked:?}") };
    assert_eq!(period.as_secs(), 365 * 86_400);

    assert!(post.limit.is_none());
    let [login, files, bare] = &post.descriptors[..] else { panic!("three paths") };
    assert_eq!(limit(login).name(), "edge_proxy/method=POST/path=%2Flogin");
    assert!(login.shadow_mode && !login.quota_mode);
    assert_eq!(login.limit.as_ref().and_then(|limit| limit.name.as_deref()), Some("login"));
    assert!(files.share_threshold && files.detailed_metric && !files.value_to_metric);
    assert_eq!(
        (limit(files).count(), limit(files).period()),
        (1_000_000_000, Duration::from_secs(7 * 86_400))
    );
    assert_eq!(files.limit.as_ref().expect("a limit").replaces, ["login".into()]);
    assert!(bare.limit.is_none() && bare.value.is_none());

    assert_eq!(status.value.as_deref(), Some("404"));
    assert!(status.quota_mode && status.value_to_metric);
    assert_eq!((limit(status).count(), limit(status).period()), (1_000, Duration::from_secs(30 * 86_400)));
    let expected = serde_json::json!({
        "owner": { "team": "edge", "pager": 42, "ratio": 0.5 },
        "tags": ["a", true, null],
    });
    assert_eq!(status.metadata.clone().map(serde_json::Value::Object), Some(expected));

    assert_eq!(internal.value.as_deref(), Some("true"));
    assert!(matches!(internal.limit.as_ref().expect("a limit").quota, DescriptorQuota::Unlimited));
    assert!(empty.value.is_none() && empty.descriptors.is_empty());
}

#[test]
fn both_forms_stand_in_one_file() {
    let both = domain(
        "\
domain: shop
descriptors: [{ key: a, rate_limit: { unit: hour, requests_per_unit: 9 } }]
rules: [{ name: a, limit: 5/s }]
",
    );
    assert_eq!((both.descriptors.len(), both.rules.len()), (1, 1));
}

#[test]
fn toml_and_json_mean_the_same() {
    let yaml = "\
domain: shop
descriptors:
  - key: user
    descriptors:
      - { key: path, value: 404, rate_limit: { unit: day, requests_per_unit: 7 } }
";
    let toml = "\
domain = 'shop'
[[descriptors]]
key = 'user'
[[descriptors.descriptors]]
key = 'path'
value = 404
rate_limit = { unit = 'day', requests_per_unit = 7 }
";
    let json = r#"{"domain": "shop", "descriptors": [{"key": "user", "descriptors": [
        {"key": "path", "value": 404, "rate_limit": {"unit": "day", "requests_per_unit": 7}}]}]}"#;
    let model = |name: &str, text: &str| {
        let (domains, _) = read_files(&[(name, text)], ReadOptions::default()).expect("a right file");
        without_places(&domains)
    };
    let expected = model("a.yaml", yaml);
    assert_eq!(expected, model("a.toml", toml));
    assert_eq!(expected, model("a.json", json));
}

#[test]
fn names_of_keys_and_values_do_not_collide() {
    let shop = domain(
        "\
domain: shop
descriptors:
  - { key: a, value: b_c, rate_limit: { unit: hour, requests_per_unit: 9 } }
  - { key: a_b, value: c, rate_limit: { unit: hour, requests_per_unit: 9 } }
",
    );
    assert_ne!(limit(&shop.descriptors[0]).id(), limit(&shop.descriptors[1]).id());
}
