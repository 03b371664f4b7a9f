//! Rules of the form `rules`, compiled: what a request needs of them.

use std::sync::Arc;

use tollgate_core::Limit;

use super::pattern::Patterns;
use super::values::{AttributeId, AttributeNames, Values};
use crate::attributes::Attributes;
use crate::identifiers::KeyForm;
use crate::model::{
    Condition, Cost, LimitModel, Missing, OnStoreError, PlanLimit, RuleLimits, RuleModel, Test,
};

/// A rule that is ready to be matched.
#[derive(Debug)]
pub(super) struct Rule {
    /// What remains to be checked once the index has found the rule.
    pub(super) conditions: Box<[CompiledCondition]>,
    pub(super) per: Box<[(AttributeId, KeyForm)]>,
    pub(super) missing: Missing,
    pub(super) limits: Limits,
    pub(super) priority: i32,
    pub(super) shadow: bool,
    pub(super) on_store_error: Option<OnStoreError>,
    pub(super) name: Arc<str>,
    /// Its place in the file.
    pub(super) number: u32,
}

#[derive(Debug)]
pub(super) enum Limits {
    Unlimited,
    All(Box<[CostedLimit]>),
    Plan {
        by: AttributeId,
        default: Option<usize>,
        /// Sorted by name. `None` is unlimited.
        plans: Box<[(Arc<str>, Option<CostedLimit>)]>,
    },
}

#[derive(Debug)]
pub(super) struct CostedLimit {
    pub(super) limit: Limit,
    pub(super) cost: CompiledCost,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum CompiledCost {
    Fixed(u32),
    Attribute { id: AttributeId, default: u32 },
}

#[derive(Debug)]
pub(super) struct CompiledCondition {
    attribute: AttributeId,
    test: CompiledTest,
}

#[derive(Debug)]
enum CompiledTest {
    OneOf(Patterns),
    NoneOf(Patterns),
    Present,
    Absent,
}

/// How a rule applies to a request.
pub(super) enum Application<'r> {
    /// It does not: an attribute of `per`, or the plan, is missing.
    Skipped,
    Denied,
    Counted {
        limits: AppliedLimits<'r>,
        /// The name of the shared counter, if an attribute of `per` is missing.
        shared: Option<&'r str>,
    },
}

/// The limits of a rule for one request.
#[derive(Clone, Copy)]
pub(super) enum AppliedLimits<'r> {
    Unlimited,
    All(&'r [CostedLimit]),
}

impl Rule {
    /// `indexed` is the condition that the index checks.
    pub(super) fn new(
        model: &RuleModel,
        number: u32,
        indexed: Option<usize>,
        names: &mut AttributeNames<'_>,
    ) -> Self {
        let left = model.when.iter().enumerate().filter(|(at, _)| Some(*at) != indexed);
        Self {
            conditions: left.map(|(_, condition)| CompiledCondition::new(condition, names)).collect(),
            per: model.per.iter().map(|name| names.keyed(&name.value)).collect(),
            missing: model.missing.clone(),
            limits: Limits::new(&model.limits, names),
            priority: model.priority,
            shadow: model.shadow,
            on_store_error: model.on_store_error,
            name: Arc::clone(&model.name.value),
            number,
        }
    }

    /// Returns whether the conditions hold that the index has not checked.
    pub(super) fn holds<A: Attributes + ?Sized>(&self, values: &mut Values<'_, A>) -> bool {
        self.conditions.iter().all(|condition| condition.holds(values))
    }

    pub(super) fn apply<A: Attributes + ?Sized>(&self, values: &mut Values<'_, A>) -> Application<'_> {
        let missing = || match &self.missing {
            Missing::Skip => Err(Application::Skipped),
            Missing::Deny => Err(Application::Denied),
            Missing::Shared(name) => Ok(&**name),
        };
        let shared = if self.per.iter().all(|(id, _)| values.get(*id).is_some()) {
            None
        } else {
            match missing() {
                Ok(name) => Some(name),
                Err(application) => return application,
            }
        };
        let limits = match &self.limits {
            Limits::Unlimited => AppliedLimits::Unlimited,
            Limits::All(limits) => AppliedLimits::All(limits),
            Limits::Plan { by, default, plans } => {
                let named = values
                    .get(*by)
                    .and_then(|plan| plans.binary_search_by(|(name, _)| (**name).cmp(plan)).ok());
                match named.or(*default).map(|plan| &plans[plan].1) {
                    Some(None) => AppliedLimits::Unlimited,
                    Some(Some(limit)) => AppliedLimits::All(std::slice::from_ref(limit)),
                    // Without a plan there is no limit that requests could share.
                    None => return missing().err().unwrap_or(Application::Denied),
                }
            }
        };
        Application::Counted { limits, shared }
    }
}

impl Limits {
    fn new(model: &RuleLimits, names: &mut AttributeNames<'_>) -> Self {
        match model {
            RuleLimits::Unlimited => Self::Unlimited,
            RuleLimits::All(limits) => {
                Self::All(limits.iter().map(|limit| CostedLimit::new(limit, names)).collect())
            }
            RuleLimits::Plan(plan) => {
                let compile = |limit: &PlanLimit, names: &mut AttributeNames<'_>| match limit {
                    PlanLimit::Unlimited => None,
                    PlanLimit::Limited(limit) => Some(CostedLimit::new(limit, names)),
                };
                let mut plans: Box<[_]> = plan
                    .plans
                    .iter()
                    .map(|(name, limit)| (Arc::clone(&name.value), compile(limit, names)))
                    .collect();
                plans.sort_by(|(left, _), (right, _)| left.cmp(right));
                let default = plan.default.as_ref();
                let default =
                    default.and_then(|default| plans.binary_search_by(|(name, _)| name.cmp(default)).ok());
                Self::Plan { by: names.id(&plan.by.value), default, plans }
            }
        }
    }
}

impl CostedLimit {
    fn new(model: &LimitModel, names: &mut AttributeNames<'_>) -> Self {
        let cost = match &model.cost {
            Cost::Fixed(cost) => CompiledCost::Fixed(*cost),
            Cost::Attribute { name, default } => {
                CompiledCost::Attribute { id: names.id(name), default: *default }
            }
        };
        Self { limit: model.limit.clone(), cost }
    }
}

impl CompiledCost {
    /// Returns the cost of a request. A number that is larger than any cost is the largest cost; of a fraction, the
    /// next whole number counts.
    pub(super) fn of<A: Attributes + ?Sized>(self, values: &mut Values<'_, A>) -> u32 {
        match self {
            Self::Fixed(cost) => cost,
            Self::Attribute { id, default } => values.get(id).and_then(parse_cost).unwrap_or(default),
        }
    }
}

pub(crate) fn parse_cost(text: &str) -> Option<u32> {
    if let Ok(cost) = text.parse::<u32>() {
        return Some(cost.min(Limit::MAX_COUNT));
    }
    let cost = text.parse::<f64>().ok().filter(|cost| *cost >= 0.0 && text.as_bytes()[0].is_ascii_digit())?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within the bounds of a cost"
    )]
    Some(cost.ceil().min(f64::from(Limit::MAX_COUNT)) as u32)
}

impl CompiledCondition {
    fn new(model: &Condition, names: &mut AttributeNames<'_>) -> Self {
        let test = match &model.test {
            Test::OneOf(patterns) => CompiledTest::OneOf(Patterns::new(patterns)),
            Test::NoneOf(patterns) => CompiledTest::NoneOf(Patterns::new(patterns)),
            Test::Present => CompiledTest::Present,
            Test::Absent => CompiledTest::Absent,
        };
        Self { attribute: names.id(&model.attribute.value), test }
    }

    fn holds<A: Attributes + ?Sized>(&self, values: &mut Values<'_, A>) -> bool {
        let value = values.get(self.attribute);
        match &self.test {
            CompiledTest::OneOf(patterns) => value.is_some_and(|value| patterns.matches(value)),
            CompiledTest::NoneOf(patterns) => !value.is_some_and(|value| patterns.matches(value)),
            CompiledTest::Present => value.is_some(),
            CompiledTest::Absent => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_numbers() {
        let max = Limit::MAX_COUNT;
        for (text, cost) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("1.5", Some(2)),
            ("4000000000", Some(max)),
            ("99999999999999999999", Some(max)),
            ("1e30", Some(max)),
            ("-1", None),
            ("-0", None),
            ("", None),
            ("many", None),
            ("inf", None),
            ("NaN", None),
        ] {
            assert_eq!(parse_cost(text), cost, "{text}");
        }
    }
}
