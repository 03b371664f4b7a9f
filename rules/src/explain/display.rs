//! Explanations as text for people.

use std::fmt;

use super::{
    DescriptorOutcome, ExplainedCharge, ExplainedDescriptor, ExplainedPart, ExplainedRule, Explanation,
    RuleOutcome, ShownValue,
};

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "domain {}{}", self.domain, if self.denied { ": denied by its rules" } else { "" })?;
        self.parts.iter().try_for_each(|part| write!(f, "{part}"))
    }
}

impl fmt::Display for ExplainedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(descriptor) = &self.descriptor {
            write!(f, "{descriptor}")?;
        }
        self.rules.iter().try_for_each(|rule| write!(f, "{rule}"))?;
        match self.omitted {
            0 => Ok(()),
            omitted => writeln!(f, "  {omitted} more rules have conditions that do not hold"),
        }
    }
}

impl fmt::Display for ExplainedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.outcome {
            RuleOutcome::Applies(charges) => {
                writeln!(f, "  rule {name}: applies")?;
                charges.iter().try_for_each(|charge| writeln!(f, "    {charge}"))
            }
            RuleOutcome::Hidden { priority, highest } => {
                writeln!(
                    f,
                    "  rule {name}: hidden, its priority is {priority} and rules with {highest} apply"
                )
            }
            RuleOutcome::Skipped { attribute } => {
                writeln!(f, "  rule {name}: skipped, the request has no {attribute}")
            }
            RuleOutcome::NoPlan { attribute, value } => {
                writeln!(f, "  rule {name}: skipped, {attribute} is {value}, which is no plan")
            }
            RuleOutcome::Failed { attribute, condition, value } => {
                writeln!(f, "  rule {name}: does not match, {attribute} is {value}; wanted: {condition}")
            }
        }
    }
}

impl fmt::Display for ExplainedDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  descriptor {}", self.index)?;
        for (index, (key, value)) in self.entries.iter().enumerate() {
            write!(f, "{} {key} {value}", if index == 0 { ":" } else { "," })?;
        }
        writeln!(f)?;
        let path = &self.path;
        match &self.outcome {
            DescriptorOutcome::Applies(charge) => writeln!(f, "    matches {path}\n    {charge}"),
            DescriptorOutcome::Replaced => writeln!(f, "    matches {path}, which another limit replaces"),
            DescriptorOutcome::NoLimit if path.is_empty() => writeln!(f, "    matches nothing"),
            DescriptorOutcome::NoLimit => writeln!(f, "    matches {path}, which has no limit"),
            DescriptorOutcome::Unmatched { matched: 0 } => writeln!(f, "    matches nothing"),
            DescriptorOutcome::Unmatched { matched } => {
                let entries = self.entries.len();
                writeln!(f, "    matches {path} with {matched} of its {entries} entries: no limit applies")
            }
        }
    }
}

impl fmt::Display for ExplainedCharge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, meaning, key, cost, shadow, repeated } = self;
        match limit {
            None => f.write_str(meaning)?,
            Some(limit) => write!(f, "charges {cost} to {limit} ({meaning}) for {key}")?,
        }
        f.write_str(if *shadow { ", in shadow mode" } else { "" })?;
        f.write_str(if *repeated { ", together with an earlier descriptor" } else { "" })
    }
}

impl fmt::Display for ShownValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("missing"),
            Self::Hidden => f.write_str("hidden"),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}
