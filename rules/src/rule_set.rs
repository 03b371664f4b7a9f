//! Rule sets: the compiled, immutable rules of all domains.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::attributes::Attributes;
use crate::diagnostic::{Diagnostic, Reporter, RuleErrors};
use crate::identifiers::Identifiers;
use crate::matching::{Descriptor, Matched, Matcher};
use crate::model::{DomainModel, OnStoreError, PlanLimit, RuleLimits};
use crate::read::{self, ReadOptions};
use crate::source::Source;

/// The compiled rules of all domains. Immutable, and shared by an `Arc`: a reload replaces the whole.
#[derive(Debug, Default)]
pub struct RuleSet {
    domains: BTreeMap<Arc<str>, Domain>,
    warnings: Vec<Diagnostic>,
}

/// The compiled rules of one domain.
#[derive(Debug)]
pub struct Domain {
    pub(crate) model: DomainModel,
    pub(crate) matcher: Matcher,
}

impl RuleSet {
    /// Reads and compiles rule files. An error has everything that is wrong with them, and nothing is loaded then. Two
    /// files of one domain are an error.
    ///
    /// ```
    /// use tollgate::rules::{RuleSet, Source};
    ///
    /// let file = Source::new("shop.yaml", "domain: shop\nrules: [{ name: api, limti: 50/s }]");
    /// let errors = RuleSet::from_sources([file]).expect_err("a misspelt field");
    /// assert!(errors.to_string().contains("did you mean `limit`?"), "{errors}");
    /// ```
    pub fn from_sources(sources: impl IntoIterator<Item = Source>) -> Result<Self, RuleErrors> {
        Self::read(&sources.into_iter().collect(), ReadOptions::default())
    }

    /// Reads and compiles rule files as [`from_sources`](Self::from_sources) does; files of one domain are merged.
    pub fn from_merged_sources(sources: impl IntoIterator<Item = Source>) -> Result<Self, RuleErrors> {
        Self::read(&sources.into_iter().collect(), ReadOptions { merge_domains: true })
    }

    fn read(sources: &Arc<[Source]>, options: ReadOptions) -> Result<Self, RuleErrors> {
        let mut reporter = Reporter::new(Arc::clone(sources));
        let models = read::read(sources, options, &mut reporter);
        let warnings = reporter.finish()?;
        Ok(Self { warnings, ..Self::compile(models) })
    }

    /// Adds identifiers that are configured in code to those of every domain. What a rule file says itself comes first:
    /// its address settings as a whole, and each of its names. What either of them marks as secret is secret.
    ///
    /// ```
    /// use tollgate::rules::{Identifiers, RuleSet, Source};
    ///
    /// let file = Source::new("shop.yaml", "domain: shop\nrules: [{ name: api, per: user, limit: 50/s }]");
    /// let identifiers = Identifiers::new().with_named("user", ["claim.sub", "header.x-user"])?;
    /// let rules = RuleSet::from_sources([file])?.with_identifiers(&identifiers);
    /// let shop = rules.domain("shop").ok_or("no such domain")?;
    /// assert_eq!(shop.match_attributes(&[("claim.sub", "alice")]).charges().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_identifiers(self, identifiers: &Identifiers) -> Self {
        let with_identifiers = |mut model: DomainModel| {
            model.identifiers.add_defaults(identifiers);
            model
        };
        let models = self.domains.into_values().map(|domain| with_identifiers(domain.model)).collect();
        Self { warnings: self.warnings, ..Self::compile(models) }
    }

    /// Returns what the reader warns of. [`check`](crate::check()) finds more.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Compiles the rules of domains, whose names differ.
    pub(crate) fn compile(models: Vec<DomainModel>) -> Self {
        let domain = |model: DomainModel| (Arc::clone(&model.name.value), Domain::compile(model));
        Self { domains: models.into_iter().map(domain).collect(), warnings: Vec::new() }
    }

    /// Returns the rules of a domain.
    pub fn domain(&self, name: &str) -> Option<&Domain> {
        self.domains.get(name)
    }

    /// Returns what decides while the store fails: the name of each limit whose rule says so, and what it says. For
    /// whoever calls the store: [`Matched::admit`] returns its errors.
    pub fn failure_policies(&self) -> impl Iterator<Item = (&str, OnStoreError)> {
        let rules = self.domains.values().flat_map(|domain| &domain.model.rules);
        rules.filter_map(|rule| Some((rule, rule.on_store_error?))).flat_map(|(rule, policy)| {
            let limits: Vec<&str> = match &rule.limits {
                RuleLimits::Unlimited => Vec::new(),
                RuleLimits::All(limits) => limits.iter().map(|model| model.limit.name()).collect(),
                // All plans have one limit's name.
                RuleLimits::Plan(plan) => {
                    let limited = plan.plans.iter().find_map(|(_, limit)| match limit {
                        PlanLimit::Limited(model) => Some(model.limit.name()),
                        PlanLimit::Unlimited => None,
                    });
                    limited.into_iter().collect()
                }
            };
            limits.into_iter().map(move |name| (name, policy))
        })
    }

    /// Returns all domains, sorted by name.
    pub fn domains(&self) -> impl Iterator<Item = &Domain> {
        self.domains.values()
    }
}

impl Domain {
    fn compile(model: DomainModel) -> Self {
        let matcher = Matcher::new(&model);
        Self { model, matcher }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.model.name.value
    }

    /// Returns how the attributes of an HTTP request are found.
    pub fn identifiers(&self) -> &Identifiers {
        &self.model.identifiers
    }

    /// Matches a request by its attributes: all rules of the form `rules` whose conditions hold. Of those that apply,
    /// only those with the highest priority count.
    ///
    /// Each attribute is asked for at most once, and only if a rule needs it.
    pub fn match_attributes(&self, attributes: &(impl Attributes + ?Sized)) -> Matched<'_> {
        self.matcher.match_attributes(self.name(), attributes)
    }

    /// Matches a request by its descriptors: for each of them, the rule of the form `descriptors` that the Envoy
    /// reference service would apply, and the rules of the form `rules`, for which the entries are attributes.
    ///
    /// A counter is charged once, even if several descriptors lead to it.
    pub fn match_descriptors(&self, descriptors: &[impl Descriptor]) -> Matched<'_> {
        self.matcher.match_descriptors(self.name(), descriptors)
    }
}
