//! Rate limit rules for Tollgate: one file says who may do how much. YAML, TOML or JSON rules, Envoy rate limit
//! descriptors, plans, and client identifiers such as users, API keys and addresses behind proxies.
//!
//! ```
//! use std::sync::Arc;
//! use tollgate::rules::{RuleSet, Source};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = "
//! domain: shop
//! rules:
//!   - name: api
//!     when: { path: /api/** }
//!     per: user
//!     limit: [50/s burst 100, 10000/day]
//! ";
//! let rules = RuleSet::from_sources([Source::new("shop.yaml", file)])?;
//! let limiter = Arc::new(tollgate::in_memory());
//!
//! let shop = rules.domain("shop").ok_or("no such domain")?;
//! let matched = shop.match_attributes(&[("path", "/api/items"), ("user", "alice")]);
//! assert!(matched.admit(&limiter).await?.is_allowed());
//! # Ok(())
//! # }
//! ```
//!
//! # Layout
//!
//! From a file to a rule set:
//!
//! - [`Source`] (`source`): a text; `syntax`: YAML, TOML and JSON as one kind of tree; `units`: short forms such as
//!   `50/s`; `nearest`: the nearest right word.
//! - `read`: a tree as a `model`, by one table of fields, from which [`json_schema`] (`schema`) is generated, too.
//! - [`Diagnostic`], [`RuleErrors`] (`diagnostic`): what is wrong, where, and what would be right.
//! - [`check`](fn@check) (`check`): what each rule means, and what is strange about it.
//!
//! From a request to a decision:
//!
//! - [`Attributes`] (`attributes`): what is known about a request; [`HttpRequest`], [`ClientIp`], [`Identifiers`]
//!   (`identifiers`): of an HTTP request, behind proxies; how values become keys.
//! - [`RuleSet`], [`Domain`] (`rule_set`): compiled rules; [`Matched`] (`matching`): what a request matches, and what it
//!   is charged; `admit`: the decision; [`Explanation`] (`explain`): why.
//!
//! At run time:
//!
//! - [`Retriever`] (`retriever`): keeps rules current while their documents change; [`PlainFiles`]: a file or directory
//!   that an operator edits.
//! - [`FileDocuments`], `HttpDocuments` (`documents`): where documents are stored that are not on a server.
//! - [`Plans`] (`plans`): users on subscription plans, such as free, standard and pro.

mod admit;
mod attributes;
mod check;
mod deadline;
mod diagnostic;
mod documents;
mod explain;
mod identifiers;
mod matching;
mod model;
mod nearest;
mod plans;
mod read;
mod retriever;
mod rule_set;
mod schema;
mod source;
mod syntax;
mod units;
#[cfg(test)]
mod unreliable;

pub use attributes::Attributes;
pub use check::{CheckReport, Meaning, check, check_merged};
pub use diagnostic::{Diagnostic, RuleErrors, Severity};
pub use documents::FileDocuments;
#[cfg(feature = "http")]
pub use documents::{HttpDocuments, HttpDocumentsBuilder};
pub use explain::{
    DescriptorOutcome, ExplainedCharge, ExplainedDescriptor, ExplainedPart, ExplainedRule, Explanation,
    RuleOutcome, ShownValue,
};
pub use identifiers::{ClientIp, ForwardedHeader, HttpRequest, IdentifierError, Identifiers};
pub use matching::{Descriptor, Effect, Match, Matched};
pub use model::{Missing, OnStoreError};
pub use plans::{Assignment, PlanError, PlanSource, Plans, PlansBuilder, UserPlan, WithPlan};
pub use retriever::{
    PlainFiles, RetrieveError, Retriever, RetrieverBuilder, RetrieverStats, RetrieverStatus, RulesGuard,
    RulesOrigin,
};
pub use rule_set::{Domain, RuleSet};
pub use schema::json_schema;
pub use source::Source;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
