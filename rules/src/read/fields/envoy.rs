//! The fields of `descriptors`, as Envoy's reference service reads them.

use super::{Field, Place, Presence, Shape};

const NONE: Presence = Presence::Default("none");
const FALSE: Presence = Presence::Default("`false`");

pub(in crate::read) static DESCRIPTOR: Place = Place {
    name: "descriptor",
    doc: "An entry of a descriptor, its limit, and the entries that may follow it.",
    fields: &[
        Field {
            name: "key",
            shape: Shape::Text,
            doc: "The key of the entry.",
            presence: Presence::Required,
            example: "remote_address",
        },
        Field {
            name: "value",
            shape: Shape::Text,
            doc: "Its value. Each `*` stands for any characters.",
            presence: Presence::Default("any value, each with a counter of its own"),
            example: "203.0.113.*",
        },
        Field {
            name: "rate_limit",
            shape: Shape::Map(&RATE_LIMIT),
            doc: "The limit of requests whose descriptor ends here.",
            presence: Presence::Default("none: they pass"),
            example: "{ unit: minute, requests_per_unit: 10 }",
        },
        Field {
            name: "descriptors",
            shape: Shape::List(&Shape::Map(&DESCRIPTOR)),
            doc: "The entries that may follow.",
            presence: NONE,
            example: "[{ key: path, rate_limit: { unit: hour, requests_per_unit: 100 } }]",
        },
        Field {
            name: "shadow_mode",
            shape: Shape::Bool,
            doc: "Counts and reports, but answers OK.",
            presence: FALSE,
            example: "true",
        },
        Field {
            name: "quota_mode",
            shape: Shape::Bool,
            doc: "The request is denied only if all its quota descriptors are over their limit, or any other one is.",
            presence: FALSE,
            example: "true",
        },
        Field {
            name: "detailed_metric",
            shape: Shape::Bool,
            doc: "Writes the values of the request into the metric's name.",
            presence: FALSE,
            example: "true",
        },
        Field {
            name: "value_to_metric",
            shape: Shape::Bool,
            doc: "Writes the value of this entry into the metric's name.",
            presence: FALSE,
            example: "true",
        },
        Field {
            name: "share_threshold",
            shape: Shape::Bool,
            doc: "One counter for all values that match the `*` of `value`.",
            presence: FALSE,
            example: "true",
        },
        Field {
            name: "metadata",
            shape: Shape::Free,
            doc: "A map of your own, which answers can carry.",
            presence: NONE,
            example: "{ team: payments }",
        },
    ],
    others: None,
    skips_empty: true,
};

pub(in crate::read) static RATE_LIMIT: Place = Place {
    name: "rate_limit",
    doc: "A fixed window, aligned to the clock.",
    fields: &[
        Field {
            name: "unit",
            shape: Shape::Word {
                words: &["second", "minute", "hour", "day", "week", "month", "year"],
                any_case: true,
            },
            doc: "The length of the window. A month has 30 days, a year 365. Required, but not with `unlimited`.",
            presence: NONE,
            example: "minute",
        },
        Field {
            name: "requests_per_unit",
            shape: Shape::Integer { min: 0, max: u32::MAX as i64 },
            doc: "How many requests pass per window. 0 blocks.",
            presence: Presence::Default("0"),
            example: "100",
        },
        Field {
            name: "unlimited",
            shape: Shape::Bool,
            doc: "Lets all requests pass.",
            presence: FALSE,
            example: "true",
        },
        Field {
            name: "name",
            shape: Shape::Text,
            doc: "A name that other limits can replace.",
            presence: NONE,
            example: "per_minute",
        },
        Field {
            name: "replaces",
            shape: Shape::List(&Shape::Map(&REPLACED)),
            doc: "Limits that do not apply where this one does.",
            presence: NONE,
            example: "[{ name: per_minute }]",
        },
    ],
    others: None,
    skips_empty: true,
};

pub(in crate::read) static REPLACED: Place = Place {
    name: "replaced_limit",
    doc: "A limit that does not apply.",
    fields: &[Field {
        name: "name",
        shape: Shape::Text,
        doc: "Its `name`.",
        presence: Presence::Required,
        example: "per_minute",
    }],
    others: None,
    skips_empty: true,
};
