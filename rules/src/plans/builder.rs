//! How plans are configured.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::documents::{DocumentStore, MAX_DOCUMENT_NAME};
use tollgate_core::{ConfigError, Observer, SystemClock, Timer};

use super::Plans;
use super::cache::Cache;
use super::error::PlanError;

/// The longest name of a plan, in bytes.
const MAX_PLAN_NAME: usize = 128;

/// Builds [`Plans`]; [`build`](Self::build) validates the settings.
#[must_use = "a builder does nothing until `build` is called"]
pub struct PlansBuilder<C = SystemClock> {
    store: Arc<dyn DocumentStore>,
    names: Vec<String>,
    default: Option<String>,
    directory: String,
    author: String,
    settings: Settings,
    max_users: u64,
    observer: Option<Arc<dyn Observer>>,
    clock: C,
}

/// How long what is valid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) cache_for: Duration,
    pub(super) keep_for: Duration,
    pub(super) retry_after: Duration,
    pub(super) deadline: Duration,
}

impl PlansBuilder {
    pub(super) fn new(store: Arc<dyn DocumentStore>) -> Self {
        Self {
            store,
            names: Vec::new(),
            default: None,
            directory: "plans".to_owned(),
            author: "tollgate".to_owned(),
            settings: Settings {
                cache_for: Duration::from_secs(5),
                keep_for: Duration::from_secs(3600),
                retry_after: Duration::from_secs(1),
                deadline: Duration::from_millis(100),
            },
            max_users: 100_000,
            observer: None,
            clock: SystemClock::new(),
        }
    }
}

impl<C: Timer> PlansBuilder<C> {
    /// Adds the names of plans.
    pub fn plans(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.names.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets the plan of users that are not registered, and of those whose plan cannot be found because the store does
    /// not answer. Default: none, and such users are an error.
    pub fn default_plan(mut self, name: impl Into<String>) -> Self {
        self.default = Some(name.into());
        self
    }

    /// Sets under which name assignments are stored: that of user `alice` is the document `{directory}/alice`. Default:
    /// `plans`.
    pub fn directory(mut self, directory: impl Into<String>) -> Self {
        self.directory = directory.into();
        self
    }

    /// Sets who is the author of changes. Default: `tollgate`.
    pub fn author(mut self, author: impl Into<String>) -> Self {
        self.author = author.into();
        self
    }

    /// Sets how long an answer of the store is used, also that a user is not registered: a change that another process
    /// makes takes effect that much later at most. Default: 5 s.
    pub fn cache_for(mut self, span: Duration) -> Self {
        self.settings.cache_for = span;
        self
    }

    /// Sets how long the last known plan of a user is used while the store does not answer. After that, the default plan
    /// is. Default: 1 h.
    pub fn keep_for(mut self, span: Duration) -> Self {
        self.settings.keep_for = span;
        self
    }

    /// Sets how long the store is not asked about a user after it has not answered. Default: 1 s.
    pub fn retry_after(mut self, span: Duration) -> Self {
        self.settings.retry_after = span;
        self
    }

    /// Sets how long a look-up waits for the store. Default: 100 ms.
    pub fn deadline(mut self, span: Duration) -> Self {
        self.settings.deadline = span;
        self
    }

    /// Sets of how many users the plan is kept in memory. Default: 100,000.
    pub fn max_users(mut self, users: u64) -> Self {
        self.max_users = users;
        self
    }

    /// Sets what receives events. Default: nothing.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Sets the clock. Default: the system clock.
    pub fn clock<D: Timer>(self, clock: D) -> PlansBuilder<D> {
        let Self { store, names, default, directory, author, settings, max_users, observer, clock: _ } = self;
        PlansBuilder { store, names, default, directory, author, settings, max_users, observer, clock }
    }

    /// Validates the settings and builds the plans.
    pub fn build(self) -> Result<Plans<C>, PlanError> {
        self.check().map_err(PlanError::Config)?;
        let names: Vec<Arc<str>> = self.names.iter().map(|name| name.as_str().into()).collect();
        let Self { store, default, directory, author, settings, max_users, observer, clock, .. } = self;
        let mut plans = Plans {
            store,
            names,
            default: None,
            directory,
            author,
            settings,
            cache: Cache::new(max_users),
            observer,
            clock,
        };
        plans.default = default.map(|name| plans.find(&name)).transpose()?;
        Ok(plans)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let invalid = |setting, problem: &str, advice: &str| {
            Err(ConfigError::new("Plans", setting, problem.to_owned(), advice.to_owned()))
        };
        if self.names.is_empty() {
            return invalid("plans", "has no names", "add one or several");
        }
        let mut seen = BTreeSet::new();
        for name in &self.names {
            let is_valid = !name.is_empty()
                && name.len() <= MAX_PLAN_NAME
                && name.trim() == name
                && !name.chars().any(char::is_control);
            if !is_valid {
                let advice = "use 1 to 128 bytes without control characters, and no blanks around them";
                return invalid("plans", &format!("has the name {name:?}"), advice);
            }
            if !seen.insert(name) {
                return invalid("plans", &format!("has two plans named `{name}`"), "rename one of them");
            }
        }
        if self.directory.is_empty()
            || self.directory.len() > MAX_DOCUMENT_NAME / 2
            || self.directory.ends_with('/')
            || self.directory.chars().any(char::is_control)
        {
            let advice = "use 1 to 256 bytes without control characters, and no slash at the end";
            return invalid("directory", &format!("is {:?}", self.directory), advice);
        }
        if self.settings.deadline.is_zero() {
            return invalid("deadline", "is 0ns", "use more than zero");
        }
        if self.max_users == 0 {
            return invalid("max_users", "is 0", "use at least 1");
        }
        Ok(())
    }
}

impl<C> fmt::Debug for PlansBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlansBuilder")
            .field("plans", &self.names)
            .field("default_plan", &self.default)
            .field("directory", &self.directory)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
