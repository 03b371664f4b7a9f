//! From trees to models: reads the fields of rule files, and reports everything that is wrong with them at once.
//!
//! - `fields`: the table of all fields, which the JSON Schema shares.
//! - `reader`, `section`, `scalar`: what all parts share.
//! - `rule`, `limit`, `numbers`, `options`, `plan`, `cost`, `condition`, `never`, `attribute`: the form `rules`.
//! - `descriptors`, `metadata`: the form `descriptors`.
//! - `identifiers`: the section of that name. `limit_name`: names of limits.

mod attribute;
mod condition;
mod cost;
mod descriptors;
pub(crate) mod fields;
mod identifiers;
mod limit;
mod limit_name;
pub(crate) mod metadata;
mod never;
mod numbers;
mod options;
mod plan;
mod reader;
mod rule;
mod scalar;
mod section;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use descriptors::Siblings;
use fields::FILE;
use identifiers::IdentifierPlaces;
use reader::Reader;
use rule::RuleNames;
use section::Section;

use crate::diagnostic::{Reporter, quoted};
use crate::identifiers::Identifiers;
use crate::model::DomainModel;
use crate::source::{Format, Source, Span, Spanned};
use crate::syntax;
use crate::syntax::tree::Node;

/// How several files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadOptions {
    /// Whether files with the same domain are merged into one. Default: false, they are an error.
    pub(crate) merge_domains: bool,
}

/// Reads rule files. With errors, what is returned is incomplete and not for use.
pub(crate) fn read(
    sources: &Arc<[Source]>,
    options: ReadOptions,
    reporter: &mut Reporter,
) -> Vec<DomainModel> {
    let mut trees = Vec::with_capacity(sources.len());
    for (index, source) in (0..).zip(sources.iter()) {
        let errors = reporter.error_count();
        let tree = syntax::parse(index, source, reporter);
        if tree.is_none() && reporter.error_count() == errors {
            let span = Span { source: index, start: 0, end: 0 };
            let advice = match source.format() {
                Format::Yaml => "write at least `domain: shop`",
                Format::Toml => "write at least `domain = \"shop\"`",
                Format::Json => "write at least `{ \"domain\": \"shop\" }`",
            };
            reporter.error(span, "the file is empty", advice);
        }
        trees.extend(tree);
    }
    let mut reader = Reader::new(sources, reporter);
    let mut domains: Vec<Domain<'_>> = Vec::new();
    for tree in &trees {
        reader.file(tree, options, &mut domains);
    }
    domains.into_iter().map(|domain| domain.model).collect()
}

/// A domain, and what its next file must not repeat.
struct Domain<'n> {
    model: DomainModel,
    rules: RuleNames,
    descriptors: Siblings<'n>,
    identifiers: IdentifierPlaces,
}

impl Reader<'_> {
    fn file<'n>(&mut self, tree: &'n Node, options: ReadOptions, domains: &mut Vec<Domain<'n>>) {
        let Some(section) = self.section(&FILE, "a rule file", tree) else { return };
        let name = self.required(&section, "domain").and_then(|name| self.printable(&name));
        // Without a name of its own, so that the rest is checked nonetheless.
        let valid_name = name.as_ref().map(|name| name.value);
        let span = name.as_ref().map_or(section.span, |name| name.span);
        let known = domains.iter().position(|domain| Some(&*domain.model.name.value) == valid_name);
        let index = match known {
            Some(known) if options.merge_domains => known,
            other => {
                if let Some(known) = other {
                    let place = self.place(domains[known].model.name.span, span);
                    let message =
                        format!("the domain {} exists already ({place})", quoted(valid_name.unwrap_or("")));
                    self.error(
                        span,
                        message,
                        "write its rules in one file, or switch on the merging of domains",
                    );
                }
                domains.push(Domain::new(valid_name.unwrap_or("domain"), span));
                domains.len() - 1
            }
        };
        self.sections(&section, &mut domains[index]);
    }

    fn sections<'n>(&mut self, section: &Section<'n>, domain: &mut Domain<'n>) {
        let name = Arc::clone(&domain.model.name.value);
        if let Some(identifiers) = section.get("identifiers") {
            self.identifiers(&identifiers, &mut domain.model.identifiers, &mut domain.identifiers);
        }
        if let Some(rules) = section.get("rules") {
            domain.model.rules.extend(self.rules(&rules, &name, &mut domain.rules));
        }
        if let Some(descriptors) = section.get("descriptors") {
            domain.model.descriptors.extend(self.descriptors(&descriptors, &name, &mut domain.descriptors));
        }
        let lacks = |name: &str| section.get(name).is_none() && !section.has_misspelt(name);
        if lacks("rules") && lacks("descriptors") {
            let advice = "add `rules`, or `descriptors`";
            self.warning(section.span, "the file has no rules", advice);
        }
    }
}

impl Domain<'_> {
    fn new(name: &str, span: Span) -> Self {
        let name = Spanned { value: name.into(), span };
        let (descriptors, rules) = (Vec::new(), Vec::new());
        let model = DomainModel { name, identifiers: Identifiers::default(), descriptors, rules };
        Self { model, rules: HashMap::new(), descriptors: HashMap::new(), identifiers: HashMap::new() }
    }
}
