//! `plan`: one of several limits, by an attribute.

use std::sync::Arc;

use super::fields::PLAN;
use super::limit::{Belonging, is_unlimited};
use super::reader::Reader;
use super::section::Setting;
use crate::diagnostic::quoted;
use crate::model::{LimitModel, PlanLimit, PlanModel};
use crate::nearest::nearest;
use crate::source::Spanned;

impl Reader<'_> {
    pub(super) fn plan(&mut self, setting: &Setting<'_>, belonging: &Belonging<'_>) -> Option<PlanModel> {
        let section = self.section(&PLAN, "`plan`", setting.node)?;
        let by = self.required(&section, "by").map(|by| self.attribute_of(&by));
        let default = section.get("default").map(|default| self.text(&default));
        let belonging = Belonging { suffix: Some("plan"), ..*belonging };
        let mut plans: Vec<(Spanned<Arc<str>>, PlanLimit)> = Vec::with_capacity(section.len());
        let mut complete = true;
        for (key, node) in section.others() {
            let name = &*key.value;
            if name.trim().is_empty() || name.chars().any(char::is_control) {
                let message = format!("the plan {} has no name that can be read", quoted(name));
                self.error(key.span, message, "use a name of printable characters, such as `free`");
                complete = false;
                continue;
            }
            let limit = if is_unlimited(node) {
                Some(PlanLimit::Unlimited)
            } else {
                self.limit(&format!("the plan {}", quoted(name)), node, &belonging).map(PlanLimit::Limited)
            };
            match limit {
                Some(limit) => plans.push((Spanned { value: name.into(), span: key.span }, limit)),
                None => complete = false,
            }
        }
        if complete && !section.has_others() {
            let advice = "add one per line, such as `free: 50/s`";
            self.error(setting.key, "`plan` without a plan", advice);
            return None;
        }
        let default = match default {
            Some(default) => {
                let default = default?;
                if complete && !plans.iter().any(|(name, _)| *name.value == *default.value) {
                    let names = || plans.iter().map(|(name, _)| &*name.value);
                    let message = format!("the default plan {} is not listed", quoted(default.value));
                    let advice = match nearest(default.value, names()) {
                        Some(right) => format!("did you mean `{right}`?"),
                        None => format!("add a limit for it, or use {}", quoted(plans[0].0.value.as_ref())),
                    };
                    self.error(default.span, message, advice);
                    complete = false;
                }
                Some(default.value.into())
            }
            None => None,
        };
        complete &= self.same_state(&plans);
        let by = by??;
        complete.then_some(PlanModel { by, default, plans })
    }

    /// Checks that all plans share one state, so that a user who changes plan keeps what was used.
    fn same_state(&mut self, plans: &[(Spanned<Arc<str>>, PlanLimit)]) -> bool {
        let mut limits = plans.iter().filter_map(|(name, limit)| match limit {
            PlanLimit::Unlimited => None,
            PlanLimit::Limited(limit) => Some((name, limit)),
        });
        let Some((first_name, first)) = limits.next() else { return true };
        let mut same = true;
        for (name, limit) in limits {
            let Some(difference) = difference(first, limit) else { continue };
            let place = self.place(first_name.span, name.span);
            let message = format!(
                "the plans {} and {} ({place}) have {difference}",
                quoted(&name.value),
                quoted(&first_name.value)
            );
            let advice = "write the same for all plans: a user who changes plan keeps the counter";
            self.error(limit.span, message, advice);
            same = false;
        }
        same
    }
}

fn difference(one: &LimitModel, other: &LimitModel) -> Option<&'static str> {
    if one.limit.name() != other.limit.name() {
        Some("different names")
    } else if one.limit.kind() != other.limit.kind() {
        Some("different algorithms")
    } else if one.limit.block_time().is_some() != other.limit.block_time().is_some() {
        Some("a block time only in one of them")
    } else {
        None
    }
}
