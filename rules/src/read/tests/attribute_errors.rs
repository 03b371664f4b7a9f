//! Errors of attributes, conditions and identifiers: each names its place and what would be right.

use super::*;

#[track_caller]
fn in_rule(marked: &str, message: &str, advice: &str) {
    assert_error(&rule(marked), message, advice);
}

#[test]
fn unquoted_stars_are_reported_once() {
    in_rule(
        "when: { host: §*.example.com }\nlimit: 5/s",
        "unknown alias `*.example.com`",
        "or quote the text",
    );
}

#[test]
fn names_of_attributes() {
    let attribute = |name: &str, advice: &str| {
        let message = format!("`{name}` is not the name of an attribute");
        in_rule(&format!("limit: 5/s\nper: §{name}"), &message, advice);
    };
    attribute("headers.x-tenant", "did you mean `header.x-tenant`?");
    attribute("Header.x-tenant", "did you mean `header.x-tenant`?");
    attribute("jwt.sub", "did you mean `claim.sub`?");
    attribute("params.page", "did you mean `query.page`?");
    attribute("User", "use lower-case letters, digits, `_`, `-` and `.` only: `user`");
    attribute("tenant id", "only: `tenant_id`");
    attribute("header.", "write the name of the header after the dot, such as `header.x-tenant`");
    attribute("header.ä", "letters, digits and `-` only");
    attribute("cookie.a b", "the name of a cookie has no blanks");
    attribute("query.*", "name each query: there are no patterns here");
    let empty = "`` is not the name of an attribute";
    in_rule("limit: 5/s\nper: §\"\"", empty, "write one of `user`, `api_key`, `ip`");
    assert_warning(
        &rule("limit: 5/s\nper: §remote_address"),
        "the attribute `remote_address` is none that Tollgate finds itself",
        "did you mean `ip`?",
    );
}

#[test]
fn of_conditions() {
    let condition = |condition: &str, message: &str, advice: &str| {
        in_rule(&format!("limit: 5/s\nwhen: {{ {condition} }}"), message, advice);
    };
    condition("method: §[]", "the list of `method` is empty", "name a value");
    condition("method: [§[GET]]", "a value of `method` is a list here", "in one list");
    condition("method: [§~]", "a value of `method` is `~`", "`{ present: false }`");
    condition("§user: ~", "`user` has no value", "write a value after `user`");
    condition(
        "path: §{ prefix: /a, not: /a/b }",
        "the condition on `path` has 2 fields",
        "exactly one of `prefix`",
    );
    condition("path: §{}", "the condition on `path` has 0 fields", "exactly one of");
    condition("path: §/api/**.png", "`**` is only a part of the segment `**.png`", "write `/api/*.png`");
    condition("path: { prefix: §/api/* }", "the prefix `/api/*` has a `*`", "write the pattern as text");
    condition(
        "path: { not: { §not: /a } }",
        "unknown field `not` in a pattern",
        "it is a field of a condition",
    );
    condition(
        "ip: §10.0.0.1/8",
        "`10.0.0.1/8` has bits set behind its first 8",
        "the network is `10.0.0.0/8`",
    );
    condition("ip: §10.0.*", "`10.0.*` is neither an address nor a network", "`10.1.0.0/16` for `10.1.*`");
    condition("ip: §localhost", "`localhost` is neither an address nor a network", "`203.0.113.7`");
    condition("ip: { prefix: §10.0 }", "an address has no prefix of characters", "write a network");
    condition(
        "path: { §regex: a }",
        "unknown field `regex` in a condition",
        "there are no regular expressions",
    );
    condition("method: { §in: [GET] }", "unknown field `in` in a condition", "write a list");
    condition("ip: [{ §cidr: '::1' }]", "unknown field `cidr` in a pattern", "write the network");
    condition("§header: { x-a: b }", "`header` is a map here", "between quotes: `\"header.x-a\"`");
    let twice = "header.X-A: a, §header.x-a: b";
    condition(twice, "`when` already has `header.x-a` (line 5)", "in one condition");
    assert_warning(
        &rule("limit: 5/s\nwhen: { path: §api/** }"),
        "the path `api/**` does not begin with `/`",
        "write `/api/**`",
    );
}

#[test]
fn conditions_that_nothing_meets_are_warned_of() {
    for (condition, message, advice) in [
        (
            "path: §^/api/.*$",
            "`^/api/.*$` is compared as text: there are no regular expressions",
            "`/api/**`",
        ),
        (
            "path: [/b, §'/a?page=1']",
            "a path has no query, and `/a?page=1` has one",
            "`/a`, and a condition on `query.page`",
        ),
        (
            "path: §/users/:id/x",
            "the path `/users/:id/x` is compared as text, not as a template",
            "`/users/*/x`",
        ),
        (
            "path: §'/users/{id}'",
            "the path `/users/{id}` is compared as text, not as a template",
            "`/users/*`",
        ),
        ("route: §users", "the route `users` does not begin with `/`", "write `/users`"),
        ("method: §'GET, POST'", "`GET, POST` is not one method", "write a list: `[GET, POST]`"),
        ("method: { not: §get|head }", "`get|head` is not one method", "`[get, head]`"),
        ("host: §'https://a.com/x'", "`https://a.com/x` is more than a host", "write `a.com`"),
        ("host: §'a.com:8080'", "`a.com:8080` is more than a host", "write `a.com`"),
        ("host: §'[::1]:80'", "`[::1]:80` is more than a host", "write `[::1]`"),
    ] {
        assert_warning(&rule(&format!("limit: 5/s\nwhen: {{ {condition} }}")), message, advice);
    }
    for condition in
        ["route: '/users/{id}'", "host: '[::1]'", "header.host: 'a.com:80'", "path: /a.b*", "host: ''"]
    {
        domain(&rule(&format!("limit: 5/s\nwhen: {{ {condition} }}")));
    }
}

#[test]
fn of_identifiers() {
    let identifiers = |lines: &str, message: &str, advice: &str| {
        let text = format!("domain: a\nidentifiers: {{ {lines} }}\nrules: [{{ name: a, limit: 5/s }}]\n");
        assert_error(&text, message, advice);
    };
    identifiers("ip: §header.x-real-ip", "`ip` is text here", "`{ trusted_proxies: [10.0.0.0/8");
    identifiers(
        "ip: { §trusted_proxy: [] }",
        "unknown field `trusted_proxy` in a client ip",
        "`trusted_proxies`",
    );
    identifiers("ip: { trusted_proxies: §all }", "`trusted_proxies` is text here", "write a list");
    identifiers(
        "ip: { trusted_proxies: [§[]] }",
        "an item of `trusted_proxies` is a list here",
        "[10.0.0.0/8]",
    );
    identifiers(
        "ip: { trusted_proxies: [§10.1.0.0/8] }",
        "`10.1.0.0/8` has bits set behind its first 8",
        "`10.0.0.0/8`",
    );
    let header = "trusted_proxies: ['::1'], header: §x-real-ip";
    identifiers(
        &format!("ip: {{ {header} }}"),
        "`header` is `x-real-ip`",
        "write `x-forwarded-for` or `forwarded`",
    );
    identifiers("ip: { ipv6_prefix: §129 }", "`ipv6_prefix` is `129`", "from 1 to 128");
    identifiers("ip: { ipv4_prefix: §0 }", "`ipv4_prefix` is `0`", "from 1 to 32");
    identifiers(
        "user: { secret: true, §form: a }",
        "unknown field `form` in an identifier",
        "did you mean `from`?",
    );
    identifiers("user: §{ secret: true }", "an identifier without `from`", "`from: header.x-api-key`");
    identifiers("user: §user", "`user` is taken from itself", "such as `claim.sub`");
    identifiers("user: §jwt.sub", "`jwt.sub` is not the name of an attribute", "`claim.sub`");
    identifiers("§User: claim.sub", "`User` is not the name of an attribute", "`user`");
    assert_warning(
        "domain: a\nidentifiers: { ip: { §header: forwarded } }\nrules: [{ name: a, limit: 5/s }]\n",
        "`header` has no effect without `trusted_proxies`",
        "add `trusted_proxies",
    );
}

#[test]
fn of_identifiers_that_lead_back_to_themselves() {
    let file = |identifiers: &str| {
        format!("domain: a\nidentifiers:\n{identifiers}rules: [{{ name: a, per: d, limit: 5/s }}]\n")
    };
    assert_error(
        &file("  §a: b\n  b: [header.x, c]\n  c: [claim.sub, a]\n  d: a\n"),
        "`a` is taken from itself: from `b`, `c`, `a`",
        "remove one of these",
    );
    let two = file("  user: api_key\n  api_key: [claim.sub, user]\n  e: f\n  f: e\n");
    let found: Vec<_> = errors(&two).iter().map(|error| (error.line(), error.message().to_owned())).collect();
    assert_eq!(
        found,
        [
            (3, "`user` is taken from itself: from `api_key`, `user`".to_owned()),
            (5, "`e` is taken from itself: from `f`, `e`".to_owned()),
        ]
    );
    domain(&file("  a: [b, c]\n  b: c\n  d: [a, b, c]\n"));
}

#[test]
fn identifiers_are_bounded() {
    let chain = |count: usize| {
        let lines: Vec<_> = (0..count).map(|number| format!("  a{number}: a{}\n", number + 1)).collect();
        format!("domain: a\nidentifiers:\n{}rules: [{{ name: a, per: a0, limit: 5/s }}]\n", lines.concat())
    };
    domain(&chain(100));
    let found = errors(&chain(150_000));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].message(), found[0].line()), ("more than 100 identifiers", 103));
}

#[test]
fn of_identifiers_that_are_parts_of_the_request() {
    for name in ["header.x-user", "cookie.a", "query.a", "claim.sub"] {
        assert_error(
            &format!(
                "domain: a\nidentifiers: {{ §{name}: query.user }}\nrules: [{{ name: a, limit: 5/s }}]\n"
            ),
            &format!("`{name}` already is a part of the request"),
            "use another name, such as `user`",
        );
    }
}

#[test]
fn of_proxies_that_trust_everybody() {
    for all in ["0.0.0.0/0", "::/0", "::ffff:0:0/96"] {
        let text =
            format!("domain: a\nidentifiers: {{ ip: {{ trusted_proxies: [10.0.0.0/8, §'{all}'] }} }}\n");
        assert_warning(
            &format!("{text}rules: [{{ name: a, limit: 5/s }}]\n"),
            &format!("`{all}` trusts every client, which can then choose its address"),
            "name the networks of your proxies",
        );
    }
}
