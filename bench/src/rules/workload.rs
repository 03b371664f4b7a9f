//! Rules of mixed kinds as the text of a rule file, and requests that match some of them.

use std::borrow::Cow;
use std::fmt::Write as _;

use tollgate::rules::Attributes;

/// The domain of the rule file.
pub const DOMAIN: &str = "bench";

/// Requests of one workload, which are matched in turn.
const REQUESTS: usize = 1_024;

/// Kinds of rules, in turn: exact paths, path patterns, prefixes of headers, networks, paths with a method, exact
/// headers, and paths with a wildcard beside a header that must be there.
const KINDS: usize = 7;

/// Writes a rule file of `count` rules.
pub fn file(count: usize) -> String {
    let mut file = format!("domain: {DOMAIN}\nrules:\n");
    for index in 0..count {
        let when = match index % KINDS {
            0 => format!("path: /v1/items/{index}"),
            1 => format!("path: /v2/team-{index}/**"),
            2 => format!("header.x-tenant: tenant-{index}-*"),
            3 => format!("ip: {}/{}", network(index), if index % 2 == 0 { 24 } else { 28 }),
            4 => format!("path: /v3/orders/{index}, method: POST"),
            5 => format!("header.x-app: app-{index}"),
            _ => format!("path: /v4/*/jobs-{index}, header.x-debug: {{ present: true }}"),
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            file,
            "  - name: rule-{index}\n    when: {{ {when} }}\n    per: [user]\n    limit: 50/s burst 100"
        );
    }
    file
}

fn network(index: usize) -> String {
    format!("10.{}.{}.0", index / 256 % 256, index % 256)
}

/// A request with eight attributes. With at least as many rules as kinds, it matches four of them.
pub struct Request {
    path: String,
    user: String,
    ip: String,
    tenant: String,
    app: String,
}

impl Request {
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl Attributes for Request {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let value = match name {
            "path" => &self.path,
            "user" => &self.user,
            "ip" => &self.ip,
            "header.x-tenant" => &self.tenant,
            "header.x-app" => &self.app,
            "header.x-debug" => "1",
            "method" => "POST",
            "host" => "shop.example.org",
            _ => return None,
        };
        Some(Cow::Borrowed(value))
    }
}

/// Builds requests for a file of `count` rules.
pub fn requests(count: usize) -> Vec<Request> {
    // The factor is a prime: requests are in no order that a processor could foresee.
    (0..REQUESTS).map(|number| request(number, number * 7_919 % count, count)).collect()
}

fn request(number: usize, near: usize, count: usize) -> Request {
    // The rule of each kind that is near.
    let of = |kind: usize| {
        let index = near - near % KINDS + kind;
        if index < count { index } else { kind }
    };
    let path = match number % 4 {
        0 => format!("/v1/items/{}", of(0)),
        1 => format!("/v2/team-{}/members/7", of(1)),
        2 => format!("/v3/orders/{}", of(4)),
        _ => format!("/v4/eu/jobs-{}", of(6)),
    };
    let network = network(of(3));
    let host = network.trim_end_matches('0');
    Request {
        path,
        user: format!("user-{number}"),
        ip: format!("{host}5"),
        tenant: format!("tenant-{}-eu", of(2)),
        app: format!("app-{}", of(5)),
    }
}
