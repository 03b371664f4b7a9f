//! What rule files say, once every field was read: the input of the compiler, of `check` and of `explain`.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tollgate_core::Limit;

use crate::identifiers::Identifiers;
use crate::source::{Span, Spanned};

/// The rules of one domain, of one or several files.
#[derive(Clone, Debug)]
pub(crate) struct DomainModel {
    pub(crate) name: Spanned<Arc<str>>,
    /// How the attributes of an HTTP request are found.
    pub(crate) identifiers: Identifiers,
    pub(crate) descriptors: Vec<DescriptorModel>,
    pub(crate) rules: Vec<RuleModel>,
}

/// A rule of the form `rules`.
#[derive(Clone, Debug)]
pub(crate) struct RuleModel {
    pub(crate) name: Spanned<Arc<str>>,
    /// All of them must hold.
    pub(crate) when: Vec<Condition>,
    /// The attributes whose values together make the key. Empty: one counter for all requests.
    pub(crate) per: Vec<Spanned<Arc<str>>>,
    /// What happens to a request that lacks an attribute of `per`.
    pub(crate) missing: Missing,
    pub(crate) limits: RuleLimits,
    pub(crate) on_store_error: Option<OnStoreError>,
    /// Counted, but never denied.
    pub(crate) shadow: bool,
    /// Of the rules that match a request, only those with the highest priority apply. Default: 0.
    pub(crate) priority: i32,
}

#[derive(Clone, Debug)]
pub(crate) enum RuleLimits {
    /// `limit: unlimited`: the request passes without being counted. With a priority, an exemption.
    Unlimited,
    /// `limit`, `concurrent` or both: all of them apply.
    All(Vec<LimitModel>),
    /// `plan`: one of several, by an attribute.
    Plan(PlanModel),
}

/// A limit and what a request costs. Its name is `domain/rule/suffix`, where the suffix is the limit's own `name`, or
/// else its period (`1s`, `1m`, `1h`, `1d`, `90s`), `concurrent` for a concurrency limit, or `plan` for a plan.
#[derive(Clone, Debug)]
pub(crate) struct LimitModel {
    pub(crate) limit: Limit,
    pub(crate) cost: Cost,
    pub(crate) span: Span,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    Fixed(u32),
    /// The number in this attribute, or the default if the request does not have it or it is not a number.
    Attribute {
        name: Arc<str>,
        default: u32,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct PlanModel {
    /// The attribute that has the name of the plan.
    pub(crate) by: Spanned<Arc<str>>,
    /// The plan of requests without that attribute, or with the name of an unknown plan. Without it they are handled as
    /// `missing` says.
    pub(crate) default: Option<Arc<str>>,
    pub(crate) plans: Vec<(Spanned<Arc<str>>, PlanLimit)>,
}

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all plans have a limit")]
pub(crate) enum PlanLimit {
    Unlimited,
    /// All plans have the same limit name, algorithm and presence of a block time, so that a user who changes plan keeps
    /// the state.
    Limited(LimitModel),
}

/// What happens to a request that lacks an attribute that a rule counts by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// The rule does not apply to it.
    #[default]
    Skip,
    /// It is denied.
    Deny,
    /// All such requests share one counter, under this name.
    Shared(Arc<str>),
}

/// What decides the charges of a rule while the store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "whoever applies it must know every policy")]
pub enum OnStoreError {
    /// They are allowed.
    Allow,
    /// They are denied.
    Deny,
    /// This process decides, with one of `of` parts of the limit: `share 1/10`.
    Share {
        /// How many processes share the limit.
        of: u32,
    },
    /// They are allowed until the store has failed for this long, and denied then: `allow for 30s, then deny`.
    AllowFor(Duration),
}

/// A condition on one attribute.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) attribute: Spanned<Arc<str>>,
    pub(crate) test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    /// The attribute is there and matches one of these.
    OneOf(Vec<Pattern>),
    /// The attribute matches none of these, or is not there.
    NoneOf(Vec<Pattern>),
    Present,
    Absent,
}

/// What a value is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Exact(Box<str>),
    /// Starts with this text: `foo*`, or `{ prefix: foo }`.
    Prefix(Box<str>),
    /// For `path` and `route`: segments, where `*` stands for any characters but `/` and `**` for any number of whole
    /// segments, also none: `/api/**` matches `/api`, `/api/` and `/api/x/y`.
    Path(Box<str>),
    /// For all other attributes: `*` stands for any characters.
    Glob(Box<str>),
    /// For addresses: the network contains it.
    Network(IpNet),
    /// For addresses: it is this one, however it is written.
    Address(IpAddr),
}

/// A node of the form `descriptors`, as the Envoy reference service reads it.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the switches of the reference service")]
pub(crate) struct DescriptorModel {
    pub(crate) key: Spanned<Arc<str>>,
    /// `None` matches any value. May hold any number of `*`.
    pub(crate) value: Option<Arc<str>>,
    pub(crate) limit: Option<DescriptorLimit>,
    pub(crate) shadow_mode: bool,
    pub(crate) quota_mode: bool,
    pub(crate) detailed_metric: bool,
    pub(crate) value_to_metric: bool,
    /// One counter for all values that match the `*` of `value`.
    pub(crate) share_threshold: bool,
    /// A free map, as JSON.
    pub(crate) metadata: Option<serde_json::Map<String, serde_json::Value>>,
    pub(crate) descriptors: Vec<DescriptorModel>,
}

/// The `rate_limit` of a descriptor.
#[derive(Clone, Debug)]
pub(crate) struct DescriptorLimit {
    /// The `name` that others can replace.
    pub(crate) name: Option<Arc<str>>,
    /// Names of limits that do not apply where this one does.
    pub(crate) replaces: Vec<Arc<str>>,
    pub(crate) quota: DescriptorQuota,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum DescriptorQuota {
    Unlimited,
    /// `requests_per_unit: 0`. `period` is that of the unit.
    Blocked {
        period: Duration,
    },
    /// A fixed window, aligned as the reference service aligns it. Its name is the domain and the keys and values of the
    /// path: `domain/key=value/key`, with a digest at the end where that is longer than a limit's name may be.
    Limited(Limit),
}
