//! Tests of the attributes of HTTP requests.

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::request::{Builder, Parts};
use http::{HeaderValue, Request};
use serde_json::json;

use crate::Attributes;
use crate::identifiers::{ClientIp, HttpRequest};

fn parts(request: Builder) -> Parts {
    request.body(()).unwrap().into_parts().0
}

fn of(request: Builder, name: &str) -> Option<String> {
    HttpRequest::new(&parts(request)).get(name).map(Cow::into_owned)
}

fn get(uri: &str) -> Builder {
    Request::get(uri)
}

#[track_caller]
fn check(request: Builder, name: &str, value: &str) {
    assert_eq!(of(request, name).as_deref(), Some(value), "{name}");
}

#[test]
fn the_request_line() {
    check(Request::post("/a"), "method", "POST");
    check(get("/a/%2e%2e/b?c#d"), "path", "/b");
    check(get("http://example.com"), "path", "/");
    check(Request::options("*"), "path", "*");
    assert_eq!(of(Request::connect("example.com:443"), "path"), None);
    assert_eq!(of(get("/"), "route"), None);
    let parts = parts(get("/users/17"));
    let request = HttpRequest::new(&parts).with_route("/users/{id}");
    assert_eq!(request.get("route").as_deref(), Some("/users/{id}"));
}

#[test]
fn hosts_are_in_lower_case_and_without_port() {
    for (host, expected) in [
        ("example.com", "example.com"),
        ("Example.COM.:8080", "example.com"),
        ("[2001:DB8::1]:80", "[2001:db8::1]"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        ("user@example.com:80", "example.com"),
        ("[broken", "[broken"),
    ] {
        check(get("/").header("host", host), "host", expected);
    }
    check(get("https://API.example.com:443/x").header("host", "other"), "host", "api.example.com");
    check(Request::connect("example.com:443"), "host", "example.com");
    for host in ["", ":80", "."] {
        assert_eq!(of(get("/").header("host", host), "host"), None);
    }
    assert_eq!(of(get("/"), "host"), None);
}

#[test]
fn headers_have_no_case_and_are_joined() {
    let request = || get("/").header("X-Tenant", "acme").header("accept", "a").header("Accept", "b, c");
    check(request(), "header.x-tenant", "acme");
    check(request(), "header.X-TENANT", "acme");
    check(request(), "header.accept", "a, b, c");
    assert_eq!(of(request(), "header.x-other"), None);
    assert_eq!(of(request(), "header."), None);
    assert_eq!(of(request(), "header.x tenant"), None);
    check(get("/").header("x", HeaderValue::from_bytes(b"a\xffb").unwrap()), "header.x", "a\u{fffd}b");
    check(get("/").header("cookie", "a=1").header("cookie", "b=2"), "header.cookie", "a=1; b=2");
}

#[test]
fn cookies_are_found_in_all_headers() {
    let request =
        || get("/").header("cookie", "a=1; session=\"x=y\" ;b").header("cookie", "session=2;last=3");
    check(request(), "cookie.a", "1");
    check(request(), "cookie.session", "x=y");
    check(request(), "cookie.last", "3");
    for missing in ["cookie.b", "cookie.", "cookie.A", "cookie.sess", "cookie.session "] {
        assert_eq!(of(request(), missing), None, "{missing}");
    }
    check(get("/").header("cookie", "a=\""), "cookie.a", "\"");
    check(get("/").header("cookie", "a="), "cookie.a", "");
}

#[test]
fn query_parameters_are_decoded() {
    let uri = "/?a=1&a=2&b=x+y%2B%26%c3%a9&&flag&%63=d&e=%ff%zz&f=g=h&=i";
    for (name, value) in [
        ("query.a", "1"),
        ("query.b", "x y+&é"),
        ("query.flag", ""),
        ("query.c", "d"),
        ("query.e", "\u{fffd}%zz"),
        ("query.f", "g=h"),
        ("query.", "i"),
    ] {
        check(get(uri), name, value);
    }
    assert_eq!(of(get(uri), "query.z"), None);
    assert_eq!(of(get("/"), "query.a"), None);
}

#[test]
fn claims_are_those_of_a_verified_token() {
    let json = json!({
        "sub": "alice", "admin": true, "guest": false, "level": 3, "org": { "id": "acme", "unit": { "name": "x" } },
        "https://example.com/team": "blue", "groups": ["a"], "nothing": null, "a.b": "first", "a": { "b": "second" },
    });
    let parts = parts(get("/"));
    let request = HttpRequest::new(&parts).with_claims(&json);
    for (name, value) in [
        ("claim.sub", "alice"),
        ("claim.admin", "true"),
        ("claim.guest", "false"),
        ("claim.level", "3"),
        ("claim.org.id", "acme"),
        ("claim.org.unit.name", "x"),
        ("claim.https://example.com/team", "blue"),
        ("claim.a.b", "first"),
    ] {
        assert_eq!(request.get(name).as_deref(), Some(value), "{name}");
    }
    for missing in
        ["claim.groups", "claim.org", "claim.nothing", "claim.sub.x", "claim.org.x", "claim.", "claim"]
    {
        assert_eq!(request.get(missing), None, "{missing}");
    }
    assert_eq!(HttpRequest::new(&parts).get("claim.sub"), None);
    let map = BTreeMap::from([("sub".to_owned(), "bob")]);
    assert_eq!(HttpRequest::new(&parts).with_claims(&map).get("claim.sub").as_deref(), Some("bob"));
    assert_eq!(Attributes::get(&json!("sub"), "sub"), None);
}

#[test]
fn addresses_are_those_behind_trusted_proxies() {
    let parts = parts(get("/").header("x-forwarded-for", "6.6.6.6, 192.0.2.7"));
    let client_ip = ClientIp::new().with_trusted_proxies(["10.0.0.0/8"]).unwrap();
    let with_peer = |peer: &str| HttpRequest::new(&parts).with_peer(peer.parse().unwrap(), &client_ip);
    assert_eq!(with_peer("10.0.0.1").get("ip").as_deref(), Some("192.0.2.7"));
    assert_eq!(with_peer("203.0.113.5").get("ip").as_deref(), Some("203.0.113.5"));
    assert_eq!(HttpRequest::new(&parts).get("ip"), None, "the header alone says nothing");
}

#[test]
fn what_the_application_sets_comes_first() {
    let parts = parts(get("/a"));
    let request = HttpRequest::new(&parts)
        .with_attribute("user", "alice")
        .with_attribute("path", "/b".to_owned())
        .with_attribute("user", "bob")
        .with_attribute("header.x", "y");
    assert_eq!(request.get("user").as_deref(), Some("bob"));
    assert_eq!(request.get("path").as_deref(), Some("/b"));
    assert_eq!(request.get("header.x").as_deref(), Some("y"));
    for unknown in ["app", "plan", "api_key", "other.x", ""] {
        assert_eq!(request.get(unknown), None, "{unknown}");
    }
}

#[test]
fn plain_values_are_borrowed() {
    let json = json!({ "sub": "alice" });
    let parts = parts(get("/a/b?q=1").header("host", "example.com").header("x", "y").header("cookie", "c=d"));
    let client_ip = ClientIp::new();
    let request = HttpRequest::new(&parts)
        .with_peer("192.0.2.7".parse().unwrap(), &client_ip)
        .with_route("/a/{x}")
        .with_claims(&json)
        .with_attribute("user", "alice");
    let names =
        ["method", "path", "host", "route", "header.x", "cookie.c", "query.q", "claim.sub", "ip", "user"];
    for name in names {
        assert!(matches!(request.get(name), Some(Cow::Borrowed(_))), "{name}");
    }
}

#[test]
fn debug_shows_no_secrets() {
    let parts =
        parts(get("/a?access_token=SECRET").header("authorization", "SECRET").header("cookie", "a=SECRET"));
    let claims = json!({ "sub": "SECRET" });
    let request = HttpRequest::new(&parts).with_claims(&claims).with_attribute("api_key", "SECRET");
    let debug = format!("{request:?}");
    assert!(debug.contains("/a") && debug.contains("GET"), "{debug}");
    assert!(!debug.contains("SECRET"), "{debug}");
}
