//! A rule of the form `rules`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Limit;

use super::fields::{MISSING, RULE};
use super::limit::{Belonging, is_unlimited};
use super::reader::{Reader, kind_of};
use super::section::{Section, Setting};
use crate::diagnostic::quoted;
use crate::model::{Cost, LimitModel, Missing, OnStoreError, RuleLimits, RuleModel};
use crate::source::{Format, Span, Spanned};
use crate::syntax::tree::{Node, Value};
use crate::units;

/// The last part of the names of concurrency limits.
const SUFFIX: &str = "concurrent";

/// The names of rules in a domain, and where they were read.
pub(super) type RuleNames = HashMap<Arc<str>, Span>;

impl Reader<'_> {
    pub(super) fn rules(
        &mut self,
        setting: &Setting<'_>,
        domain: &str,
        names: &mut RuleNames,
    ) -> Vec<RuleModel> {
        let Value::List(items) = &setting.node.value else {
            let advice = match self.format(setting.node.span) {
                Format::Yaml => "write a list: each rule begins with `- name: …`",
                Format::Toml => "write a list: each rule begins with `[[rules]]`",
                Format::Json => "write a list: `[{ \"name\": … }]`",
            };
            self.error(setting.node.span, format!("`rules` is {} here", kind_of(setting.node)), advice);
            return Vec::new();
        };
        let mut rules = Vec::with_capacity(items.len());
        for item in items {
            if !self.goes_on(item.span) {
                break;
            }
            rules.extend(self.rule(item, domain, names));
        }
        rules
    }

    fn rule(&mut self, node: &Node, domain: &str, names: &mut RuleNames) -> Option<RuleModel> {
        let section = self.section(&RULE, "a rule", node)?;
        // All of them before any `?`, so that all errors are reported.
        let name = self.required(&section, "name").and_then(|name| self.name(&name));
        let name = name.filter(|name| self.is_new(name, names));
        let when = section.get("when").map_or(Some(Vec::new()), |setting| self.conditions(&setting));
        let per = section
            .get("per")
            .map_or(Some(Vec::new()), |setting| self.attributes("`per`", setting.node, "per: [user]"));
        let cost = section.get("cost").map(|setting| (setting, self.cost(&setting)));
        let rule_name = name.as_ref().map_or("rule", |name| &*name.value);
        let limits = self.limits(&section, domain, rule_name, cost);
        let missing =
            section.get("missing").map_or(Some(Missing::Skip), |setting| self.missing(&section, &setting));
        let on_store_error = section.get("on_store_error").map(|setting| self.on_store_error(&setting));
        let shadow = section.get("shadow").map_or(Some(false), |setting| self.flag(&setting, false));
        let priority = section.get("priority").map_or(Some(0), |setting| self.number(&setting));
        let on_store_error = match on_store_error {
            Some(policy) => Some(policy?),
            None => None,
        };
        Some(RuleModel {
            name: name?,
            when: when?,
            per: per?,
            missing: missing?,
            limits: limits?,
            on_store_error,
            shadow: shadow?,
            priority: i32::try_from(priority?).ok()?,
        })
    }

    /// Notes the name of a rule, or reports that another one has it.
    fn is_new(&mut self, name: &Spanned<Arc<str>>, names: &mut RuleNames) -> bool {
        if let Some(first) = names.get(&name.value) {
            let place = self.place(*first, name.span);
            let message = format!("the rule {} exists already ({place})", quoted(&name.value));
            self.error(name.span, message, "give each rule of a domain a name of its own");
            return false;
        }
        names.insert(Arc::clone(&name.value), name.span);
        true
    }

    fn limits(
        &mut self,
        section: &Section<'_>,
        domain: &str,
        rule: &str,
        cost: Option<(Setting<'_>, Option<Cost>)>,
    ) -> Option<RuleLimits> {
        let [limit, concurrent, lease, plan] =
            ["limit", "concurrent", "lease", "plan"].map(|name| section.get(name));
        if let (Some(lease), None) = (&lease, &concurrent)
            && !section.has("concurrent")
        {
            let message = "`lease` without `concurrent`";
            self.error(lease.key, message, "add `concurrent: 3`, or remove it: rates have no lease");
        }
        let lease = lease.map(|lease| (lease, self.duration(&lease)));
        let (fixed, cost_is_read) = match &cost {
            None => (Cost::Fixed(1), true),
            Some((_, Some(cost))) => (cost.clone(), true),
            // A cost of 1, so that the limits are checked nonetheless.
            Some((_, None)) => (Cost::Fixed(1), false),
        };
        let belonging = Belonging { domain, rule, suffix: None, cost: &fixed };
        if let Some(plan) = &plan {
            let others = [&limit, &concurrent];
            for other in others.into_iter().flatten() {
                self.contradiction(
                    plan,
                    other,
                    "write either `plan`, or `limit` and `concurrent`, or two rules",
                );
            }
            let model = self.plan(plan, &belonging)?;
            let alone = limit.is_none() && concurrent.is_none() && cost_is_read;
            return alone.then_some(RuleLimits::Plan(model));
        }
        if let Some(limit) = limit
            && is_unlimited(limit.node)
        {
            for other in [&concurrent, &cost.map(|(setting, _)| setting)].into_iter().flatten() {
                self.contradiction(&limit, other, "remove one of them: what is unlimited is not counted");
            }
            for name in ["per", "missing", "on_store_error", "shadow"] {
                let Some(other) = section.get(name) else { continue };
                let message = format!("`{name}` has no effect with `limit: unlimited`");
                self.warning(other.key, message, "remove it: what is unlimited is not counted");
            }
            return (concurrent.is_none() && cost_is_read).then_some(RuleLimits::Unlimited);
        }
        if limit.is_none() && concurrent.is_none() {
            let limits = ["limit", "concurrent", "plan"];
            if !limits.iter().any(|name| section.has(name) || section.has_misspelt(name)) {
                let span = Span { end: section.span.start, ..section.span };
                let advice =
                    "add one, such as `limit: 50/s`; `limit: unlimited` lets requests pass uncounted";
                self.error(span, "a rule without `limit`, `concurrent` or `plan`", advice);
            }
            return None;
        }
        let models = limit.map_or(Some(Vec::new()), |limit| self.limit_list(&limit, &belonging));
        let slots = concurrent.map(|concurrent| self.slots(&concurrent, lease, &belonging));
        let mut models = models?;
        if let Some(slots) = slots {
            models.push(slots?);
        }
        (self.names_differ(&models) && cost_is_read).then_some(RuleLimits::All(models))
    }

    fn limit_list(&mut self, setting: &Setting<'_>, belonging: &Belonging<'_>) -> Option<Vec<LimitModel>> {
        let Value::List(items) = &setting.node.value else {
            return self.limit("`limit`", setting.node, belonging).map(|limit| vec![limit]);
        };
        if items.is_empty() {
            let advice = "write a limit, such as `50/s`, or `unlimited`";
            self.error(setting.node.span, "`limit` is an empty list", advice);
            return None;
        }
        let models: Vec<_> = items
            .iter()
            .map(|item| {
                if is_unlimited(item) {
                    let advice = "remove it, or write `limit: unlimited` alone";
                    self.error(item.span, "`unlimited` is one of several limits", advice);
                    return None;
                }
                self.limit("a limit", item, belonging)
            })
            .collect();
        models.into_iter().collect()
    }

    fn slots(
        &mut self,
        concurrent: &Setting<'_>,
        lease: Option<(Setting<'_>, Option<Duration>)>,
        belonging: &Belonging<'_>,
    ) -> Option<LimitModel> {
        let count = self.count(concurrent);
        let mut builder = Limit::concurrent(count?);
        if let Some((_, duration)) = lease {
            builder = builder.lease(duration?);
        }
        // Not the cost of the rule: a request holds one slot, whatever it costs otherwise.
        let belonging = Belonging { cost: &Cost::Fixed(1), ..*belonging };
        let span = concurrent.node.span;
        let place = |field: &str| match (field, lease) {
            ("lease", Some((lease, _))) => lease.node.span,
            _ => span,
        };
        let limit = self.build(builder, SUFFIX, &belonging, place)?;
        Some(LimitModel { limit, cost: Cost::Fixed(1), span })
    }

    fn names_differ(&mut self, models: &[LimitModel]) -> bool {
        if models.len() < 2 {
            return true;
        }
        let mut differ = true;
        let mut known: HashMap<&str, Span> = HashMap::with_capacity(models.len());
        for model in models {
            let Some(first) = known.insert(model.limit.name(), model.span) else { continue };
            let suffix = model.limit.name().rsplit('/').next().unwrap_or_default();
            let place = self.place(first, model.span);
            let message =
                format!("two limits of the rule are called {} (the other on {place})", quoted(suffix));
            let advice = "give one of them a name: `{ rate: 5/min, name: second }`";
            self.error(model.span, message, advice);
            differ = false;
        }
        differ
    }

    fn missing(&mut self, section: &Section<'_>, setting: &Setting<'_>) -> Option<Missing> {
        if !section.has("per") && !section.has("plan") {
            let message = "`missing` without `per`";
            let advice = "remove it, or add `per: [user]`: without `per` no attribute can be missing";
            self.error(setting.key, message, advice);
        }
        match &setting.node.value {
            Value::Scalar(_) => Some(match self.word(setting)? {
                "deny" => Missing::Deny,
                _ => Missing::Skip,
            }),
            Value::Map(_) => {
                self.needs_default_plan(section, setting);
                let section = self.section(&MISSING, "`missing`", setting.node)?;
                let shared = self.required(&section, "shared")?;
                self.printable(&shared).map(|name| Missing::Shared(name.value.into()))
            }
            Value::List(_) => {
                self.wrong_type(setting);
                None
            }
        }
    }

    /// Reports a shared counter of a rule whose plans have no default: requests without a plan have no limit to share.
    fn needs_default_plan(&mut self, section: &Section<'_>, missing: &Setting<'_>) {
        let Some(plan) = section.get("plan") else { return };
        let Value::Map(entries) = &plan.node.value else { return };
        if entries.iter().any(|entry| *entry.key.value == *"default") {
            return;
        }
        let first =
            entries.iter().map(|entry| &*entry.key.value).find(|name| *name != "by").unwrap_or("free");
        let advice = format!(
            "add {} to `plan`, or write `missing: skip` or `missing: deny`",
            quoted(&format!("default: {first}"))
        );
        let message = "`missing` has a shared counter, but `plan` no default whose limit counts there";
        self.error(missing.key, message, advice);
    }

    fn on_store_error(&mut self, setting: &Setting<'_>) -> Option<OnStoreError> {
        let Some(scalar) = setting.scalar() else {
            self.wrong_type(setting);
            return None;
        };
        match units::failure_policy(&scalar.text) {
            Ok(policy) => Some(policy),
            Err(problem) => {
                self.error(
                    setting.node.span,
                    format!("`on_store_error`: {}", problem.message),
                    problem.advice,
                );
                None
            }
        }
    }
}
