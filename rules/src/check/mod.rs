//! Checks rule files, and says what each rule means.

mod implies;
mod sentence;
#[cfg(test)]
mod tests;
mod tighter;
mod warnings;

use std::fmt;
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Reporter, RuleErrors};
use crate::model::{DescriptorModel, DomainModel};
use crate::read::{self, ReadOptions};
use crate::source::Source;

/// What rule files mean, and what is strange about them: the result of [`check`].
///
/// `Display` shows all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    meanings: Vec<Meaning>,
    warnings: Vec<Diagnostic>,
}

/// What one rule or descriptor means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    domain: String,
    name: String,
    sentence: String,
}

impl Meaning {
    /// Returns the domain.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Returns the name of the rule; of a descriptor its keys and values, such as `key=value/key`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what it means, in plain sentences.
    pub fn sentence(&self) -> &str {
        &self.sentence
    }
}

impl CheckReport {
    /// Returns what each rule means, in the order of the files.
    pub fn meanings(&self) -> &[Meaning] {
        &self.meanings
    }

    /// Returns what the rules can say without an error, but probably do not mean.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut domain = None;
        for meaning in &self.meanings {
            if domain != Some(&meaning.domain) {
                writeln!(f, "domain {}", meaning.domain)?;
                domain = Some(&meaning.domain);
            }
            writeln!(f, "  {}: {}", meaning.name, meaning.sentence)?;
        }
        for warning in &self.warnings {
            writeln!(f, "\n{warning}")?;
        }
        Ok(())
    }
}

/// Checks rule files without loading them: returns what each rule means and what is strange about it, or everything that
/// is wrong.
///
/// Warnings are about rules that can never apply, limits that never deny anything because another one is tighter,
/// rules in shadow mode, and descriptors that are behind a wildcard or share a name.
///
/// ```
/// use tollgate::rules::{Source, check};
///
/// let file = "
/// domain: shop
/// rules:
///   - name: login
///     when: { path: /login, method: POST }
///     per: ip
///     limit: { rate: 5/min, block_for: 15m }
/// ";
/// let report = check([Source::new("shop.yaml", file)])?;
/// assert_eq!(
///     report.meanings()[0].sentence(),
///     "Requests whose `path` is `/login` and whose `method` is `POST` may take 5 per minute, and nothing for 15 \
///      minutes after a denial, counted per `ip` (IPv6 by /64). It does not apply to requests without `ip`."
/// );
/// # Ok::<(), tollgate::rules::RuleErrors>(())
/// ```
pub fn check(sources: impl IntoIterator<Item = Source>) -> Result<CheckReport, RuleErrors> {
    check_with(&sources.into_iter().collect(), ReadOptions::default())
}

/// Checks rule files as [`check`] does; files of one domain are merged, as
/// [`RuleSet::from_merged_sources`](crate::RuleSet::from_merged_sources) does.
pub fn check_merged(sources: impl IntoIterator<Item = Source>) -> Result<CheckReport, RuleErrors> {
    check_with(&sources.into_iter().collect(), ReadOptions { merge_domains: true })
}

fn check_with(sources: &Arc<[Source]>, options: ReadOptions) -> Result<CheckReport, RuleErrors> {
    let mut reporter = Reporter::new(Arc::clone(sources));
    let domains = read::read(sources, options, &mut reporter);
    if !reporter.has_errors() {
        for domain in &domains {
            warnings::warn(domain, &mut reporter);
        }
    }
    let warnings = reporter.finish()?;
    Ok(CheckReport { meanings: domains.iter().flat_map(meanings).collect(), warnings })
}

fn meanings(domain: &DomainModel) -> Vec<Meaning> {
    let meaning =
        |name: String, sentence: String| Meaning { domain: domain.name.value.to_string(), name, sentence };
    let mut meanings = Vec::new();
    for rule in &domain.rules {
        meanings.push(meaning(rule.name.value.to_string(), sentence::of_rule(rule, &domain.identifiers)));
    }
    // A stack of its own: nesting is bounded by the syntax, not by this thread's stack.
    let mut paths: Vec<Vec<&DescriptorModel>> =
        domain.descriptors.iter().rev().map(|node| vec![node]).collect();
    while let Some(path) = paths.pop() {
        let Some(node) = path.last().copied() else { continue };
        if let Some(limit) = &node.limit {
            let names: Vec<_> = path.iter().map(|node| node_name(node)).collect();
            meanings.push(meaning(names.join("/"), sentence::of_descriptor(&path, limit)));
        }
        for child in node.descriptors.iter().rev() {
            paths.push(path.iter().copied().chain([child]).collect());
        }
    }
    meanings
}

fn node_name(node: &DescriptorModel) -> String {
    match &node.value {
        Some(value) => format!("{}={value}", node.key.value),
        None => node.key.value.to_string(),
    }
}
