//! `descriptors`: as Envoy's reference service reads them, without what it silently ignores.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Limit;

use super::fields::{DESCRIPTOR, RATE_LIMIT, REPLACED};
use super::limit_name;
use super::metadata::json_map;
use super::reader::{Reader, kind_of};
use super::section::{Section, Setting};
use crate::diagnostic::quoted;
use crate::model::{DescriptorLimit, DescriptorModel, DescriptorQuota};
use crate::source::{Format, Span, Spanned};
use crate::syntax::tree::{Node, Value};

/// The descriptors of one level, and where they were read.
pub(super) type Siblings<'n> = HashMap<(&'n str, Option<&'n str>), Span>;

/// The keys and values from the top to a descriptor.
type Path<'n> = Vec<(&'n str, Option<&'n str>)>;

impl Reader<'_> {
    pub(super) fn descriptors<'n>(
        &mut self,
        setting: &Setting<'n>,
        domain: &str,
        siblings: &mut Siblings<'n>,
    ) -> Vec<DescriptorModel> {
        self.level(setting, domain, &mut Vec::new(), siblings)
    }

    /// Reads the descriptors below a path. Its depth is bounded by the syntax.
    fn level<'n>(
        &mut self,
        setting: &Setting<'n>,
        domain: &str,
        path: &mut Path<'n>,
        siblings: &mut Siblings<'n>,
    ) -> Vec<DescriptorModel> {
        let Value::List(items) = &setting.node.value else {
            let advice = match self.format(setting.node.span) {
                Format::Yaml => "write a list: each descriptor begins with `- key: …`",
                Format::Toml => "write a list: each descriptor begins with `[[descriptors]]`",
                Format::Json => "write a list: `[{ \"key\": … }]`",
            };
            self.error(setting.node.span, format!("`descriptors` is {} here", kind_of(setting.node)), advice);
            return Vec::new();
        };
        let mut models = Vec::with_capacity(items.len());
        for item in items {
            if !self.goes_on(item.span) {
                break;
            }
            models.extend(self.descriptor(item, domain, path, siblings));
        }
        models
    }

    fn descriptor<'n>(
        &mut self,
        node: &'n Node,
        domain: &str,
        path: &mut Path<'n>,
        siblings: &mut Siblings<'n>,
    ) -> Option<DescriptorModel> {
        let section = self.section(&DESCRIPTOR, "a descriptor", node)?;
        let key = self.required(&section, "key").and_then(|key| self.key(&key));
        let value = section.get("value").map(|value| self.value(&value));
        let valid_value = value != Some(None);
        let value = value.flatten().filter(|value| !value.is_empty());
        if let Some(key) = &key
            && valid_value
        {
            self.first_of(key, value, siblings);
        }
        path.push((key.as_ref().map_or("", |key| key.value), value));
        let limit = section.get("rate_limit").map(|limit| self.rate_limit(&limit, domain, path));
        let below = section.get("descriptors");
        let descriptors =
            below.map_or_else(Vec::new, |below| self.level(&below, domain, path, &mut HashMap::new()));
        path.pop();
        let flags = ["shadow_mode", "quota_mode", "detailed_metric", "value_to_metric", "share_threshold"]
            .map(|name| section.get(name).map_or(Some(false), |setting| self.flag(&setting, true)));
        let [shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold] = flags;
        if share_threshold == Some(true) && valid_value && !value.is_some_and(|value| value.contains('*')) {
            let span = section.get("share_threshold").map_or(section.span, |setting| setting.key);
            let advice = "add a `*` to `value`, or remove it: without `*`, there is one value per counter";
            self.error(span, "`share_threshold` without a `*` in `value`", advice);
        }
        let metadata = section.get("metadata").map(|metadata| self.metadata(&metadata));
        let key = key?;
        Some(DescriptorModel {
            key: Spanned { value: key.value.into(), span: key.span },
            value: value.map(Arc::from),
            limit: match limit {
                Some(limit) => Some(limit?),
                None => None,
            },
            shadow_mode: shadow_mode?,
            quota_mode: quota_mode?,
            detailed_metric: detailed_metric?,
            value_to_metric: value_to_metric?,
            share_threshold: share_threshold?,
            metadata: match metadata {
                Some(metadata) => Some(metadata?),
                None => None,
            },
            descriptors,
        })
    }

    fn key<'n>(&mut self, setting: &Setting<'n>) -> Option<Spanned<&'n str>> {
        let key = self.text(setting)?;
        if key.value.is_empty() {
            let advice = "write the key of the descriptor's entry, such as `key: remote_address`";
            self.error(key.span, "`key` is empty", advice);
            return None;
        }
        Some(key)
    }

    /// Reads a value. An empty one matches any, as in the reference service.
    fn value<'n>(&mut self, setting: &Setting<'n>) -> Option<&'n str> {
        let value = self.text(setting)?.value;
        if value.is_empty() {
            let advice = "remove it, if any value is meant";
            self.warning(setting.node.span, "`value` is empty, which matches any value", advice);
        }
        Some(value)
    }

    fn first_of<'n>(&mut self, key: &Spanned<&'n str>, value: Option<&'n str>, siblings: &mut Siblings<'n>) {
        if let Some(first) = siblings.insert((key.value, value), key.span) {
            let place = self.place(first, key.span);
            let entry = match value {
                Some(value) => format!("{} with the value {}", quoted(key.value), quoted(value)),
                None => format!("{} without a value", quoted(key.value)),
            };
            let message = format!("the descriptor {entry} exists already at this level ({place})");
            self.error(key.span, message, "merge the two, or give one of them another value");
        }
    }

    fn metadata(&mut self, setting: &Setting<'_>) -> Option<serde_json::Map<String, serde_json::Value>> {
        match &setting.node.value {
            Value::Map(entries) => Some(json_map(entries)),
            Value::Scalar(_) | Value::List(_) => {
                self.wrong_type(setting);
                None
            }
        }
    }

    fn rate_limit(
        &mut self,
        setting: &Setting<'_>,
        domain: &str,
        path: &Path<'_>,
    ) -> Option<DescriptorLimit> {
        let section = self.section(&RATE_LIMIT, "`rate_limit`", setting.node)?;
        let name = section.get("name").map(|name| self.text(&name));
        let quota = self.quota(&section, setting, domain, path);
        let name = match name {
            Some(name) => Some(name?.value).filter(|name| !name.is_empty()),
            None => None,
        };
        let replaces = section.get("replaces").map_or(Some(Vec::new()), |list| self.replaces(&list, name));
        Some(DescriptorLimit {
            name: name.map(Arc::from),
            replaces: replaces?,
            quota: quota?,
            span: section.span,
        })
    }

    fn quota(
        &mut self,
        section: &Section<'_>,
        setting: &Setting<'_>,
        domain: &str,
        path: &Path<'_>,
    ) -> Option<DescriptorQuota> {
        let [unit, count, unlimited] =
            ["unit", "requests_per_unit", "unlimited"].map(|name| section.get(name));
        let is_unlimited = unlimited.map_or(Some(false), |unlimited| self.flag(&unlimited, true));
        if let (Some(unlimited), Some(true)) = (unlimited, is_unlimited) {
            if let Some(unit) = unit {
                self.contradiction(&unit, &unlimited, "remove one of them: what is unlimited has no unit");
                return None;
            }
            if let Some(count) = count {
                let message = "`requests_per_unit` has no effect with `unlimited`";
                self.warning(count.key, message, "remove one of them");
                self.count(&count)?;
            }
            return Some(DescriptorQuota::Unlimited);
        }
        let requests = count.map(|count| self.count(&count));
        let Some(unit) = unit else {
            let advice = "add it, such as `unit: minute`; or write `unlimited: true` alone";
            self.error(setting.key, "`rate_limit` without `unit`", advice);
            return None;
        };
        let period = period(self.word(&unit)?);
        is_unlimited?;
        let span = count.map_or(section.span, |count| count.node.span);
        match requests {
            None => {
                let message = "`rate_limit` without `requests_per_unit` blocks all requests";
                self.warning(setting.key, message, "write `requests_per_unit: 0` if that is meant");
                Some(DescriptorQuota::Blocked { period })
            }
            Some(requests) => match requests? {
                0 => Some(DescriptorQuota::Blocked { period }),
                requests => self.window(requests, period, span, domain, path).map(DescriptorQuota::Limited),
            },
        }
    }

    fn window(
        &mut self,
        requests: u32,
        period: Duration,
        span: Span,
        domain: &str,
        path: &Path<'_>,
    ) -> Option<Limit> {
        if requests > Limit::MAX_COUNT {
            let message =
                format!("`requests_per_unit` is {requests}, more than {} at most", Limit::MAX_COUNT);
            self.warning(
                span,
                message,
                format!("{} is used; write `unlimited: true` for no limit", Limit::MAX_COUNT),
            );
        }
        let name = limit_name::of_descriptor(domain, path.iter().copied());
        match Limit::per(requests.min(Limit::MAX_COUNT), period).fixed_window().build(&name) {
            Ok(limit) => Some(limit),
            Err(error) => {
                self.limit_error(&error, span);
                None
            }
        }
    }

    fn replaces(&mut self, setting: &Setting<'_>, own: Option<&str>) -> Option<Vec<Arc<str>>> {
        let Value::List(items) = &setting.node.value else {
            self.wrong_type(setting);
            return None;
        };
        let mut names = Vec::with_capacity(items.len());
        let mut complete = true;
        for item in items {
            let section = self.section(&REPLACED, "an item of `replaces`", item);
            let name = section.and_then(|section| self.required(&section, "name"));
            let Some(name) = name.and_then(|name| self.text(&name)) else {
                complete = false;
                continue;
            };
            let problem = if name.value.is_empty() {
                Some((
                    "an item of `replaces` has an empty `name`",
                    "write the `name` of another limit, or remove it",
                ))
            } else if own == Some(name.value) {
                Some(("a limit replaces itself", "write the `name` of another limit, or remove it"))
            } else {
                None
            };
            if let Some((message, advice)) = problem {
                self.error(name.span, message, advice);
                complete = false;
                continue;
            }
            names.push(name.value.into());
        }
        complete.then_some(names)
    }
}

/// Returns the window of a unit. Months and years have the same length each, as in the reference service.
fn period(unit: &str) -> Duration {
    const DAY: u64 = 24 * 60 * 60;
    Duration::from_secs(match unit {
        "second" => 1,
        "minute" => 60,
        "hour" => 60 * 60,
        "day" => DAY,
        "week" => 7 * DAY,
        "month" => 30 * DAY,
        _ => 365 * DAY,
    })
}
