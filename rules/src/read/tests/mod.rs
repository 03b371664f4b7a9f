//! Tests of the reader: what files mean, and what is wrong with others.

mod attribute_errors;
mod descriptor_errors;
mod descriptors;
mod design;
mod hostile;
mod limit_errors;
mod page;
mod rule_errors;
mod several_files;

use std::sync::Arc;

use super::{ReadOptions, read};
use crate::diagnostic::{Diagnostic, Reporter, RuleErrors, Severity};
use crate::model::DomainModel;
use crate::source::Source;

/// Models, and warnings about them.
pub(super) type Read = Result<(Vec<DomainModel>, Vec<Diagnostic>), RuleErrors>;

pub(super) fn read_files(files: &[(&str, &str)], options: ReadOptions) -> Read {
    let sources: Arc<[Source]> = files.iter().map(|(name, text)| Source::new(*name, *text)).collect();
    let mut reporter = Reporter::new(Arc::clone(&sources));
    let domains = read(&sources, options, &mut reporter);
    reporter.finish().map(|warnings| (domains, warnings))
}

/// Reads one YAML file that is right.
#[track_caller]
pub(super) fn domain(text: &str) -> DomainModel {
    let (mut domains, warnings) = match read_files(&[("rules.yaml", text)], ReadOptions::default()) {
        Ok(read) => read,
        Err(errors) => panic!("{errors}"),
    };
    assert!(warnings.is_empty(), "{}", warnings[0]);
    assert_eq!(domains.len(), 1);
    domains.remove(0)
}

/// Returns the errors of one YAML file.
#[track_caller]
pub(super) fn errors(text: &str) -> Vec<Diagnostic> {
    let read = read_files(&[("rules.yaml", text)], ReadOptions::default());
    let errors = read.expect_err("this file has errors").diagnostics().to_vec();
    errors.into_iter().filter(|diagnostic| diagnostic.severity() == Severity::Error).collect()
}

/// Asserts that a file has one error, at the `§` in its text, with this message, and with this in its advice.
#[track_caller]
pub(super) fn assert_error(marked: &str, message: &str, advice: &str) {
    let found = errors(&marked.replace('§', ""));
    assert_found(marked, &found, message, advice);
}

/// Asserts that a file has one warning, likewise.
#[track_caller]
pub(super) fn assert_warning(marked: &str, message: &str, advice: &str) {
    let text = marked.replace('§', "");
    let (_, found) = read_files(&[("rules.yaml", &text)], ReadOptions::default()).expect("only a warning");
    assert_found(marked, &found, message, advice);
}

#[track_caller]
fn assert_found(marked: &str, found: &[Diagnostic], message: &str, advice: &str) {
    let before = &marked[..marked.find('§').expect("a mark")];
    let line = before.lines().count().max(1) + usize::from(before.ends_with('\n'));
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let [one] = found else {
        let all: Vec<_> = found.iter().map(ToString::to_string).collect();
        panic!("{} diagnostics:\n{}", all.len(), all.join("\n"));
    };
    assert_eq!(one.message(), message);
    assert!(one.advice().contains(advice), "{one}\n\nexpected: {advice}");
    assert_eq!((one.line(), one.column()), (line, column), "{one}");
    assert_eq!(one.file(), "rules.yaml");
}

/// Returns a rule with these lines, indented by four.
pub(super) fn rule(lines: &str) -> String {
    let lines: Vec<_> = lines.lines().map(|line| format!("    {line}")).collect();
    format!("domain: shop\nrules:\n  - name: api\n{}\n", lines.join("\n"))
}

/// Returns the models as text, without places.
pub(super) fn without_places(domains: &[DomainModel]) -> String {
    let text = format!("{domains:#?}");
    let mut kept = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("span: Span {") {
            lines.by_ref().take_while(|line| line.trim() != "},").for_each(drop);
        } else {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}
