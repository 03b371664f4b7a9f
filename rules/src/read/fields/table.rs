//! The fields of the whole file, of `rules` and of `identifiers`.

use super::{DESCRIPTOR, Field, Others, Place, Presence, Shape};

/// The attributes of an HTTP request that have no name of their own behind a dot.
pub(in crate::read) const ATTRIBUTES: [&str; 9] =
    ["user", "api_key", "ip", "app", "path", "route", "method", "host", "plan"];

/// The largest count, burst, queue and cost; core's `Limit::MAX_COUNT`.
const MAX_COUNT: i64 = 1_000_000_000;
const COUNT: Shape = Shape::Integer { min: 1, max: MAX_COUNT };
const NONE: Presence = Presence::Default("none");
const UNLIMITED: Shape = Shape::Word { words: &["unlimited"], any_case: false };
const COST_SHAPE: Shape = Shape::Any(&[COUNT, Shape::Attribute, Shape::Map(&COST)]);
const PATTERN_SHAPE: Shape = Shape::Any(&[Shape::Text, Shape::Map(&PATTERN)]);

pub(in crate::read) static FILE: Place = Place {
    name: "file",
    doc: "A rule file: the rules of one domain.",
    fields: &[
        Field {
            name: "domain",
            shape: Shape::Text,
            doc: "The name under which requests find these rules.",
            presence: Presence::Required,
            example: "shop",
        },
        Field {
            name: "rules",
            shape: Shape::List(&Shape::Map(&RULE)),
            doc: "Rules on the attributes of a request. All that match a request apply.",
            presence: NONE,
            example: "[{ name: api, per: user, limit: 50/s }]",
        },
        Field {
            name: "descriptors",
            shape: Shape::List(&Shape::Map(&DESCRIPTOR)),
            doc: "Limits on Envoy's descriptors, as Envoy's reference service reads them.",
            presence: NONE,
            example: "[{ key: user, rate_limit: { unit: second, requests_per_unit: 50 } }]",
        },
        Field {
            name: "identifiers",
            shape: Shape::Map(&IDENTIFIERS),
            doc: "How the client's address and other attributes of an HTTP request are found.",
            presence: Presence::Default("the address of the connection; no others"),
            example: "{ user: claim.sub }",
        },
    ],
    others: None,
    skips_empty: true,
};

pub(in crate::read) static RULE: Place = Place {
    name: "rule",
    doc: "Which requests a rule applies to, whom it counts, and its limits.",
    fields: &[
        Field {
            name: "name",
            shape: Shape::Text,
            doc: "The name, unique in the domain. It is part of the names of the limits, so a rule that is renamed \
                  starts with fresh counters. At most 64 bytes, without `/`.",
            presence: Presence::Required,
            example: "api",
        },
        Field {
            name: "when",
            shape: Shape::Map(&WHEN),
            doc: "Conditions on attributes. All must hold.",
            presence: Presence::Default("every request"),
            example: "{ path: /api/**, method: [GET, POST] }",
        },
        Field {
            name: "per",
            shape: Shape::Any(&[Shape::Attribute, Shape::List(&Shape::Attribute)]),
            doc: "Whom it counts: the attributes whose values together have a counter of their own.",
            presence: Presence::Default("one counter for all requests"),
            example: "[user]",
        },
        Field {
            name: "missing",
            shape: Shape::Any(&[
                Shape::Word { words: &["skip", "deny"], any_case: false },
                Shape::Map(&MISSING),
            ]),
            doc: "What happens to a request without an attribute of `per`: the rule does not apply, the request is \
                  denied, or it is counted under a shared name.",
            presence: Presence::Default("`skip`"),
            example: "deny",
        },
        Field {
            name: "limit",
            shape: Shape::Any(&[
                Shape::Short,
                Shape::Map(&LIMIT),
                UNLIMITED,
                Shape::List(&Shape::Any(&[Shape::Short, Shape::Map(&LIMIT)])),
            ]),
            doc: "One limit or several. All of several are debited, or none is.",
            presence: NONE,
            example: "50/s burst 100",
        },
        Field {
            name: "concurrent",
            shape: Shape::Integer { min: 1, max: 100_000 },
            doc: "How many requests may be in flight at the same time. Each costs one slot.",
            presence: NONE,
            example: "3",
        },
        Field {
            name: "lease",
            shape: Shape::Duration,
            doc: "How long a request holds its slot of `concurrent` if nobody releases or renews it.",
            presence: Presence::Default("60 s"),
            example: "60s",
        },
        Field {
            name: "plan",
            shape: Shape::Map(&PLAN),
            doc: "A limit per subscription plan, in place of `limit` and `concurrent`.",
            presence: NONE,
            example: "{ by: plan, default: free, free: 50/s, pro: 1000/s }",
        },
        Field {
            name: "cost",
            shape: COST_SHAPE,
            doc: "What a request costs in all limits of the rule that have no `cost` of their own: a number, or the \
                  attribute that has it.",
            presence: Presence::Default("1"),
            example: "tokens",
        },
        Field {
            name: "on_store_error",
            shape: Shape::StoreError,
            doc: "What decides while the store fails: all requests are allowed, all are denied, this process decides \
                  with a share of the limit, or requests are allowed for a time and denied then.",
            presence: Presence::Default("what the store's wrapper is configured to do"),
            example: "deny",
        },
        Field {
            name: "shadow",
            shape: Shape::Bool,
            doc: "Counts and reports, but never denies.",
            presence: Presence::Default("`false`"),
            example: "true",
        },
        Field {
            name: "priority",
            shape: Shape::Integer { min: i32::MIN as i64, max: i32::MAX as i64 },
            doc: "Of the rules that match a request, only those with the highest priority apply.",
            presence: Presence::Default("0"),
            example: "10",
        },
    ],
    others: None,
    skips_empty: false,
};

pub(in crate::read) static WHEN: Place = Place {
    name: "when",
    doc: "Conditions on attributes. All must hold.",
    fields: &[],
    others: Some(Others {
        doc: "An attribute, and what its value must be: a text (with `*`, a pattern), one of a list, or a map.",
        shape: Shape::Any(&[Shape::Text, Shape::List(&PATTERN_SHAPE), Shape::Map(&CONDITION)]),
        example: "path: /api/**",
        suggested: &ATTRIBUTES,
    }),
    skips_empty: false,
};

const PREFIX: Field = Field {
    name: "prefix",
    shape: Shape::Text,
    doc: "The value starts with this text.",
    presence: NONE,
    example: "/internal/",
};

const EXACT: Field = Field {
    name: "exact",
    shape: Shape::Text,
    doc: "The value is this text; a `*` in it is an ordinary character.",
    presence: NONE,
    example: "\"a*b\"",
};

pub(in crate::read) static CONDITION: Place = Place {
    name: "condition",
    doc: "A condition on one attribute: exactly one of these fields.",
    fields: &[
        PREFIX,
        EXACT,
        Field {
            name: "not",
            shape: Shape::Any(&[Shape::Text, Shape::List(&PATTERN_SHAPE), Shape::Map(&PATTERN)]),
            doc: "The value is none of these, or the request does not have the attribute.",
            presence: NONE,
            example: "[GET, HEAD]",
        },
        Field {
            name: "present",
            shape: Shape::Bool,
            doc: "Whether the request has the attribute.",
            presence: NONE,
            example: "false",
        },
    ],
    others: None,
    skips_empty: false,
};

pub(in crate::read) static PATTERN: Place = Place {
    name: "pattern",
    doc: "What a value is compared with: exactly one of these fields.",
    fields: &[PREFIX, EXACT],
    others: None,
    skips_empty: false,
};

pub(in crate::read) static MISSING: Place = Place {
    name: "shared_counter",
    doc: "The counter of requests that lack an attribute of `per`.",
    fields: &[Field {
        name: "shared",
        shape: Shape::Text,
        doc: "The name under which all such requests are counted together.",
        presence: Presence::Required,
        example: "anonymous",
    }],
    others: None,
    skips_empty: false,
};

pub(in crate::read) static COST: Place = Place {
    name: "cost",
    doc: "A cost that an attribute has.",
    fields: &[
        Field {
            name: "attribute",
            shape: Shape::Attribute,
            doc: "The attribute that has the cost.",
            presence: Presence::Required,
            example: "tokens",
        },
        Field {
            name: "default",
            shape: COUNT,
            doc: "The cost of a request that does not have the attribute, or whose attribute is not a number.",
            presence: Presence::Default("1"),
            example: "1000",
        },
    ],
    others: None,
    skips_empty: false,
};

/// The algorithms, by the words for them.
pub(in crate::read) const ALGORITHMS: &[&str] = &[
    "token_bucket",
    "gcra",
    "leaky_bucket",
    "queue",
    "fixed_window",
    "sliding_window",
    "sliding_counter",
    "sliding_log",
    "smooth",
    "warm_up",
    "interval_bucket",
];

pub(in crate::read) static LIMIT: Place = Place {
    name: "limit",
    doc: "A limit with every option of its algorithm.",
    fields: &[
        Field {
            name: "rate",
            shape: Shape::Rate,
            doc: "How much passes, and per which period. Either this or `count` and `period` is required.",
            presence: NONE,
            example: "5/min",
        },
        Field {
            name: "count",
            shape: Shape::Amount,
            doc: "How much passes per `period`.",
            presence: NONE,
            example: "5",
        },
        Field {
            name: "period",
            shape: Shape::Duration,
            doc: "The period of `count`.",
            presence: NONE,
            example: "90s",
        },
        Field {
            name: "algorithm",
            shape: Shape::Word { words: ALGORITHMS, any_case: false },
            doc: "The algorithm.",
            presence: Presence::Default("`token_bucket`"),
            example: "sliding_window",
        },
        Field {
            name: "burst",
            shape: Shape::Amount,
            doc: "The most that can pass at once. For `token_bucket`, `gcra`, `leaky_bucket`, `smooth` and \
                  `interval_bucket`.",
            presence: Presence::Default("the count"),
            example: "100",
        },
        Field {
            name: "waiting",
            shape: Shape::Integer { min: 1, max: MAX_COUNT - 1 },
            doc: "How many callers wait at most. Required for `queue`, and for it only.",
            presence: NONE,
            example: "20",
        },
        Field {
            name: "anchored",
            shape: Shape::Bool,
            doc: "Starts a window at its first hit instead of aligning windows to the Unix epoch. For `fixed_window`.",
            presence: Presence::Default("`false`"),
            example: "true",
        },
        Field {
            name: "count_denied",
            shape: Shape::Bool,
            doc: "Counts denied requests too: a client that keeps retrying remains denied until it pauses. For \
                  `sliding_log`.",
            presence: Presence::Default("`false`"),
            example: "true",
        },
        Field {
            name: "min_gap",
            shape: Shape::Duration,
            doc: "The minimum time between two requests. For `sliding_log`.",
            presence: NONE,
            example: "200ms",
        },
        Field {
            name: "sub_buckets",
            shape: Shape::Integer { min: 1, max: 256 },
            doc: "The number of counters that the period is divided into. Required for `sliding_counter`, and for it \
                  only.",
            presence: NONE,
            example: "10",
        },
        Field {
            name: "warm_up",
            shape: Shape::Duration,
            doc: "How long a cold limiter takes to reach its rate. Required for `warm_up`, and for it only.",
            presence: NONE,
            example: "30s",
        },
        Field {
            name: "cold_factor",
            shape: Shape::Integer { min: 1, max: 100 },
            doc: "How many times slower a cold limiter is than a warm one. For `warm_up`.",
            presence: Presence::Default("3"),
            example: "5",
        },
        Field {
            name: "block_for",
            shape: Shape::Duration,
            doc: "How long a key remains denied after a denial. For every algorithm.",
            presence: NONE,
            example: "15m",
        },
        Field {
            name: "cost",
            shape: COST_SHAPE,
            doc: "What a request costs in this limit.",
            presence: Presence::Default("the `cost` of the rule"),
            example: "tokens",
        },
        Field {
            name: "name",
            shape: Shape::Text,
            doc: "The last part of the limit's name, where the rule has two limits of the same period. At most 64 \
                  bytes, without `/`.",
            presence: Presence::Default("its period, such as `1m`; `plan` in a plan"),
            example: "sustained",
        },
    ],
    others: None,
    skips_empty: false,
};

pub(in crate::read) static PLAN: Place = Place {
    name: "plan",
    doc: "A limit per plan. All plans share one counter per key, so a user who changes plan keeps what was used.",
    fields: &[
        Field {
            name: "by",
            shape: Shape::Attribute,
            doc: "The attribute that has the name of the plan.",
            presence: Presence::Required,
            example: "plan",
        },
        Field {
            name: "default",
            shape: Shape::Text,
            doc: "The plan of requests that name no plan, or one that is not listed. Required if `missing` has a shared \
                  counter.",
            presence: Presence::Default("they are handled as `missing` says"),
            example: "free",
        },
    ],
    others: Some(Others {
        doc: "A plan, and its limit: in short form, as a map, or `unlimited`.",
        shape: Shape::Any(&[Shape::Short, Shape::Map(&LIMIT), UNLIMITED]),
        example: "pro: 1000/s",
        suggested: &["free", "standard", "pro"],
    }),
    skips_empty: false,
};

pub(in crate::read) static IDENTIFIERS: Place = Place {
    name: "identifiers",
    doc: "How the attributes of an HTTP request are found.",
    fields: &[Field {
        name: "ip",
        shape: Shape::Map(&CLIENT_IP),
        doc: "How the client's address is found, and which part of it counts.",
        presence: Presence::Default("the address of the connection"),
        example: "{ trusted_proxies: [10.0.0.0/8] }",
    }],
    others: Some(Others {
        doc: "An attribute, and those that it is taken from: the first that the request has. At most 100 in a domain.",
        shape: Shape::Any(&[Shape::Attribute, Shape::List(&Shape::Attribute), Shape::Map(&IDENTIFIER)]),
        example: "user: [claim.sub, header.x-user]",
        suggested: &["user", "api_key", "app", "plan"],
    }),
    skips_empty: false,
};

pub(in crate::read) static CLIENT_IP: Place = Place {
    name: "client_ip",
    doc: "How the client's address is found behind proxies.",
    fields: &[
        Field {
            name: "trusted_proxies",
            shape: Shape::List(&Shape::Network),
            doc: "Addresses of proxies whose header is believed. The client is the last hop that is none of them.",
            presence: Presence::Default("none: the header is ignored"),
            example: "[10.0.0.0/8, \"fd00::/8\"]",
        },
        Field {
            name: "header",
            shape: Shape::Word { words: &["x-forwarded-for", "forwarded"], any_case: true },
            doc: "The header that the proxies write.",
            presence: Presence::Default("`x-forwarded-for`"),
            example: "forwarded",
        },
        Field {
            name: "ipv4_prefix",
            shape: Shape::Integer { min: 1, max: 32 },
            doc: "Addresses of one IPv4 network of this many bits count together.",
            presence: Presence::Default("32"),
            example: "24",
        },
        Field {
            name: "ipv6_prefix",
            shape: Shape::Integer { min: 1, max: 128 },
            doc: "Addresses of one IPv6 network of this many bits count together.",
            presence: Presence::Default("64"),
            example: "56",
        },
    ],
    others: None,
    skips_empty: false,
};

pub(in crate::read) static IDENTIFIER: Place = Place {
    name: "identifier",
    doc: "An attribute that is taken from others.",
    fields: &[
        Field {
            name: "from",
            shape: Shape::Any(&[Shape::Attribute, Shape::List(&Shape::Attribute)]),
            doc: "The attributes that it is taken from: the first that the request has.",
            presence: Presence::Required,
            example: "header.x-api-key",
        },
        Field {
            name: "secret",
            shape: Shape::Bool,
            doc: "Whether the value is hashed before it becomes part of a key. API keys, cookies and credentials in \
                  headers always are.",
            presence: Presence::Default("`false`"),
            example: "true",
        },
    ],
    others: None,
    skips_empty: false,
};
