//! Models of rules, built by hand, and tests of matching.
//!
//! - `rules`, `descriptors`: what each field means. `allocations`: what a match allocates.
//! - `random`, `random_descriptors`: random rules and requests, compared with slow models.

mod allocations;
mod descriptors;
pub(crate) mod random;
mod random_descriptors;
mod rules;

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Limit;

use crate::identifiers::{Identifiers, NamedIdentifier};
use crate::model::{
    Condition, Cost, DescriptorLimit, DescriptorModel, DescriptorQuota, DomainModel, LimitModel, Missing,
    Pattern, PlanLimit, PlanModel, RuleLimits, RuleModel, Test,
};
use crate::rule_set::{Domain, RuleSet};
use crate::source::{Span, Spanned};

pub(crate) const NOWHERE: Span = Span { source: 0, start: 0, end: 0 };

pub(crate) fn text(value: &str) -> Spanned<Arc<str>> {
    Spanned { value: value.into(), span: NOWHERE }
}

pub(crate) fn domain(rules: Vec<RuleModel>, descriptors: Vec<DescriptorModel>) -> DomainModel {
    DomainModel { name: text("shop"), identifiers: Identifiers::default(), descriptors, rules }
}

/// Compiles the rules of one domain.
pub(crate) struct Compiled(RuleSet);

impl Compiled {
    pub(crate) fn new(model: DomainModel) -> Self {
        Self(RuleSet::compile(vec![model]))
    }

    pub(crate) fn rules(rules: Vec<RuleModel>) -> Self {
        Self::new(domain(rules, Vec::new()))
    }

    pub(crate) fn descriptors(descriptors: Vec<DescriptorModel>) -> Self {
        Self::new(domain(Vec::new(), descriptors))
    }
}

impl std::ops::Deref for Compiled {
    type Target = Domain;

    fn deref(&self) -> &Domain {
        self.0.domain("shop").expect("compiled")
    }
}

pub(crate) fn limit_model(name: &str, cost: Cost) -> LimitModel {
    let limit = Limit::per_second(100).build(name).expect("valid");
    LimitModel { limit, cost, span: NOWHERE }
}

/// A rule with one limit of the same name, without conditions and with one counter.
pub(crate) fn rule(name: &str) -> RuleModel {
    RuleModel {
        name: text(name),
        when: Vec::new(),
        per: Vec::new(),
        missing: Missing::Skip,
        limits: RuleLimits::All(vec![limit_model(name, Cost::Fixed(1))]),
        on_store_error: None,
        shadow: false,
        priority: 0,
    }
}

impl RuleModel {
    pub(crate) fn when(mut self, attribute: &str, test: Test) -> Self {
        self.when.push(Condition { attribute: text(attribute), test });
        self
    }

    pub(crate) fn when_is(self, attribute: &str, value: &str) -> Self {
        self.when(attribute, Test::OneOf(vec![Pattern::Exact(value.into())]))
    }

    pub(crate) fn per(mut self, attributes: &[&str]) -> Self {
        self.per = attributes.iter().copied().map(text).collect();
        self
    }

    pub(crate) fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    pub(crate) fn limits(mut self, limits: RuleLimits) -> Self {
        self.limits = limits;
        self
    }

    pub(crate) fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    pub(crate) fn plan(self, by: &str, default: Option<&str>, plans: &[(&str, Option<&str>)]) -> Self {
        let plan = |(name, limit): &(&str, Option<&str>)| {
            let limited = |limit| PlanLimit::Limited(limit_model(limit, Cost::Fixed(1)));
            (text(name), limit.map_or(PlanLimit::Unlimited, limited))
        };
        let plans = plans.iter().map(plan).collect();
        self.limits(RuleLimits::Plan(PlanModel { by: text(by), default: default.map(Into::into), plans }))
    }
}

pub(crate) fn named(name: &str, from: &[&str]) -> NamedIdentifier {
    NamedIdentifier { name: name.into(), from: from.iter().map(|&name| name.into()).collect(), secret: false }
}

/// A descriptor without a limit.
pub(crate) fn node(key: &str, value: Option<&str>) -> DescriptorModel {
    DescriptorModel {
        key: text(key),
        value: value.map(Into::into),
        limit: None,
        shadow_mode: false,
        quota_mode: false,
        detailed_metric: false,
        value_to_metric: false,
        share_threshold: false,
        metadata: None,
        descriptors: Vec::new(),
    }
}

impl DescriptorModel {
    pub(crate) fn quota(mut self, quota: DescriptorQuota) -> Self {
        self.limit = Some(DescriptorLimit { name: None, replaces: Vec::new(), quota, span: NOWHERE });
        self
    }

    pub(crate) fn limited(self, name: &str) -> Self {
        let limit = Limit::per_minute(10).fixed_window().build(name).expect("valid");
        self.quota(DescriptorQuota::Limited(limit))
    }

    pub(crate) fn blocked(self) -> Self {
        self.quota(DescriptorQuota::Blocked { period: Duration::from_secs(1) })
    }

    /// Names the limit, and those that it replaces.
    pub(crate) fn named(mut self, name: Option<&str>, replaces: &[&str]) -> Self {
        let limit = self.limit.as_mut().expect("limited");
        limit.name = name.map(Into::into);
        limit.replaces = replaces.iter().map(|&name| name.into()).collect();
        self
    }

    pub(crate) fn with(mut self, children: Vec<DescriptorModel>) -> Self {
        self.descriptors = children;
        self
    }
}

/// Returns names of limits with entities, of the enforced charges.
pub(crate) fn charged(matched: &crate::matching::Matched<'_>) -> Vec<(String, String)> {
    let pair = |charge: &tollgate_core::Charge<'_>| {
        let entity = String::from_utf8(charge.key().entity().to_vec()).expect("text");
        (charge.limit().name().to_owned(), entity)
    };
    matched.charges().iter().map(pair).collect()
}

/// Shorter than pairs of strings.
pub(crate) fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, entity)| ((*name).to_owned(), (*entity).to_owned())).collect()
}
