//! Explanations: which rules a request matches, which it does not and why, and what it is charged.
//!
//! - `rules`, `descriptors`: how the two forms are explained. `display`: as text.
//! - `patterns`: conditions as text.

mod descriptors;
mod display;
mod patterns;
mod rules;
#[cfg(test)]
mod tests;

use crate::attributes::Attributes;
use crate::matching::Descriptor;
use crate::rule_set::Domain;

/// Why a request is charged as it is. Values of secret attributes are not part of it.
///
/// `Display` writes it for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub(crate) domain: String,
    pub(crate) denied: bool,
    pub(crate) parts: Vec<ExplainedPart>,
}

/// What applies to one descriptor, or to the attributes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedPart {
    pub(crate) descriptor: Option<ExplainedDescriptor>,
    pub(crate) rules: Vec<ExplainedRule>,
    pub(crate) omitted: usize,
}

/// A rule of the form `rules`, and what it does to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedRule {
    pub(crate) name: String,
    pub(crate) outcome: RuleOutcome,
}

/// What a rule of the form `rules` does to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleOutcome {
    /// It applies, with these charges.
    Applies(Vec<ExplainedCharge>),
    /// It would apply, but others that do have a higher priority.
    Hidden {
        /// Its priority.
        priority: i32,
        /// That of the rules that apply.
        highest: i32,
    },
    /// All conditions hold, but the request lacks this attribute of `per`.
    Skipped {
        /// The attribute.
        attribute: String,
    },
    /// All conditions hold, but the attribute names none of the plans.
    NoPlan {
        /// The attribute that has the name of the plan.
        attribute: String,
        /// Its value.
        value: ShownValue,
    },
    /// A condition does not hold; the first one, if several do not.
    Failed {
        /// The attribute that it is about.
        attribute: String,
        /// The condition, such as `one of /api/**, /v1/**`.
        condition: String,
        /// The value of the attribute.
        value: ShownValue,
    },
}

/// A descriptor of a request, and what the rules of the form `descriptors` do to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedDescriptor {
    pub(crate) index: usize,
    pub(crate) entries: Vec<(String, ShownValue)>,
    pub(crate) path: String,
    pub(crate) outcome: DescriptorOutcome,
}

/// What the rules of the form `descriptors` do to a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescriptorOutcome {
    /// A limit applies.
    Applies(ExplainedCharge),
    /// Another limit replaces the one that matches.
    Replaced,
    /// What matches has no limit.
    NoLimit,
    /// Only the first entries match.
    Unmatched {
        /// How many.
        matched: usize,
    },
}

/// What a rule charges a request, or does instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedCharge {
    pub(crate) limit: Option<String>,
    pub(crate) meaning: String,
    pub(crate) key: String,
    pub(crate) cost: u32,
    pub(crate) shadow: bool,
    pub(crate) repeated: bool,
}

/// The value of an attribute, as an explanation may show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShownValue {
    /// The request does not have the attribute.
    Missing,
    /// It is a secret.
    Hidden,
    /// The value.
    Text(String),
}

/// How many rules that do not match are explained. Default of [`Domain::explain`].
const UNMATCHED: usize = 100;

impl Domain {
    /// Explains what [`match_attributes`](Self::match_attributes) does to a request. Of rules whose conditions do not
    /// hold, the first 100 are explained.
    pub fn explain(&self, attributes: &(impl Attributes + ?Sized)) -> Explanation {
        self.explain_with(attributes, UNMATCHED)
    }

    /// Explains what [`match_attributes`](Self::match_attributes) does to a request, with at most `unmatched` rules
    /// whose conditions do not hold.
    pub fn explain_with(&self, attributes: &(impl Attributes + ?Sized), unmatched: usize) -> Explanation {
        let matched = self.match_attributes(attributes);
        let (rules, omitted) = rules::explain(self, attributes, || matched.iter(), unmatched);
        let parts = vec![ExplainedPart { descriptor: None, rules, omitted }];
        Explanation { domain: self.name().to_owned(), denied: matched.denied(), parts }
    }

    /// Explains what [`match_descriptors`](Self::match_descriptors) does to a request. Per descriptor, the first 100
    /// rules whose conditions do not hold are explained.
    pub fn explain_descriptors(&self, descriptors: &[impl Descriptor]) -> Explanation {
        self.explain_descriptors_with(descriptors, UNMATCHED)
    }

    /// Explains what [`match_descriptors`](Self::match_descriptors) does to a request, with at most `unmatched` rules
    /// whose conditions do not hold per descriptor.
    pub fn explain_descriptors_with(&self, descriptors: &[impl Descriptor], unmatched: usize) -> Explanation {
        let matched = self.match_descriptors(descriptors);
        let part = |(index, descriptor)| {
            let explained = descriptors::explain(self, descriptor, index, || matched.of_descriptor(index));
            let attributes = crate::matching::Entries(descriptor);
            let (rules, omitted) =
                rules::explain(self, &attributes, || matched.of_descriptor(index), unmatched);
            ExplainedPart { descriptor: Some(explained), rules, omitted }
        };
        let parts = descriptors.iter().enumerate().map(part).collect();
        Explanation { domain: self.name().to_owned(), denied: matched.denied(), parts }
    }
}

impl Explanation {
    /// Returns the domain.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Returns whether the rules deny the request, whatever the store says.
    pub fn denied(&self) -> bool {
        self.denied
    }

    /// Returns one part per descriptor, or the only part of a request that was matched by its attributes.
    pub fn parts(&self) -> &[ExplainedPart] {
        &self.parts
    }
}

impl ExplainedPart {
    /// Returns the descriptor. `None` if the request was matched by its attributes.
    pub fn descriptor(&self) -> Option<&ExplainedDescriptor> {
        self.descriptor.as_ref()
    }

    /// Returns the rules of the form `rules`, in the order of the file.
    pub fn rules(&self) -> &[ExplainedRule] {
        &self.rules
    }

    /// Returns how many more rules have conditions that do not hold.
    pub fn omitted(&self) -> usize {
        self.omitted
    }
}

impl ExplainedRule {
    /// Returns the name of the rule.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what it does to the request.
    pub fn outcome(&self) -> &RuleOutcome {
        &self.outcome
    }
}

impl ExplainedDescriptor {
    /// Returns the index in the request.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns keys and values.
    pub fn entries(&self) -> &[(String, ShownValue)] {
        &self.entries
    }

    /// Returns the keys and values of the rule file that the first entries match.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns what the rules do to it.
    pub fn outcome(&self) -> &DescriptorOutcome {
        &self.outcome
    }
}

impl ExplainedCharge {
    /// Returns the name of the limit. `None` if nothing is counted.
    pub fn limit(&self) -> Option<&str> {
        self.limit.as_deref()
    }

    /// Returns what the limit allows, or what happens instead of counting.
    pub fn meaning(&self) -> &str {
        &self.meaning
    }

    /// Returns whom the limit counts, such as `user "alice"`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the cost.
    pub fn cost(&self) -> u32 {
        self.cost
    }

    /// Returns whether the request is counted but never denied.
    pub fn shadow(&self) -> bool {
        self.shadow
    }

    /// Returns whether an earlier descriptor leads to the same counter, which is charged once.
    pub fn repeated(&self) -> bool {
        self.repeated
    }
}
