//! How diagnostics look.

use super::*;

/// Returns an error about the first occurrence of `place`.
fn error(text: &str, place: &str) -> Diagnostic {
    let start = text.find(place).unwrap();
    let span = Span {
        source: 0,
        start: u32::try_from(start).unwrap(),
        end: u32::try_from(start + place.len()).unwrap(),
    };
    let mut reporter = Reporter::new(Arc::from([Source::new("shop.yaml", text)]));
    reporter.error(span, "unknown field", "did you mean `limit`?");
    reporter.finish().unwrap_err().diagnostics.remove(0)
}

/// Returns the shown line, without the gutter, and the marks under it.
fn shown(text: &str, place: &str) -> (String, String) {
    let shown = error(text, place).to_string();
    let mut lines = shown.lines().skip(3).map(|line| line.split_once(" | ").unwrap().1.to_owned());
    (lines.next().unwrap(), lines.next().unwrap().trim_end_matches(" did you mean `limit`?").to_owned())
}

#[test]
fn the_line_is_shown_with_the_place_marked() {
    let diagnostic = error("domain: shop\n\n\n\n\n  - name: a\n    limti: 50/s\n", "limti");
    assert_eq!(diagnostic.severity(), Severity::Error);
    assert_eq!((diagnostic.file(), diagnostic.line(), diagnostic.column()), ("shop.yaml", 7, 5));
    assert_eq!((diagnostic.message(), diagnostic.advice()), ("unknown field", "did you mean `limit`?"));
    let expected = "\
error: unknown field
 --> shop.yaml:7:5
  |
7 |     limti: 50/s
  |     ^^^^^ did you mean `limit`?";
    assert_eq!(diagnostic.to_string(), expected);
}

#[test]
fn columns_are_characters() {
    let diagnostic = error("größe: {ß: x}", "x");
    assert_eq!((diagnostic.line(), diagnostic.column()), (1, 12));
    assert_eq!(shown("größe: {ß: x}", "x").1, "           ^");
}

#[test]
fn tabs_are_shown_as_blanks() {
    assert_eq!(shown("\t\tlimti: 1", "limti"), ("        limti: 1".to_owned(), "        ^^^^^".to_owned()));
    assert_eq!(shown("a\tb", "\tb"), ("a    b".to_owned(), " ^^^^^".to_owned()));
}

#[test]
fn control_characters_are_visible() {
    let (line, marks) = shown("a: \x1b[31m\u{202e}\x7f\u{9b} b", "b");
    assert_eq!(line, "a: ␛[31m�␡� b");
    assert_eq!(marks, "            ^");
    let source = Source::new("shop\x1b.yaml", "a");
    let span = Span { source: 0, start: 0, end: 1 };
    let mut reporter = Reporter::new(Arc::from([source]));
    reporter.error(span, "no \x1b", "no\r\n\x1b");
    assert!(!reporter.finish().unwrap_err().to_string().contains(['\x1b', '\r']));
}

#[test]
fn long_lines_are_cut_around_the_place() {
    let text = format!("{}limti{}", "x".repeat(5_000), "y".repeat(5_000));
    let (line, marks) = shown(&text, "limti");
    assert_eq!(line, format!("…{}limti{}…", "x".repeat(40), "y".repeat(55)));
    assert_eq!(marks, format!("{}^^^^^", " ".repeat(41)));
    let (line, marks) = shown(&text, &text);
    assert_eq!(line, format!("{}…", "x".repeat(100)));
    assert_eq!(marks, "^".repeat(100));
}

#[test]
fn a_place_at_the_end_is_marked() {
    let end = |text: &str| {
        let mut diagnostic = error(text, text);
        diagnostic.span.start = diagnostic.span.end;
        diagnostic.to_string().lines().skip(3).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(end("limit: ["), "1 | limit: [\n  |         ^ did you mean `limit`?");
    assert_eq!(end("limit: [\n"), "2 |\n  | ^ did you mean `limit`?");
    assert_eq!(end(""), "1 |\n  | ^ did you mean `limit`?");
}

#[test]
fn a_place_of_several_lines_is_marked_in_the_first() {
    assert_eq!(shown("a:\r\n  b\r\n  c", "b\r\n  c"), ("  b".to_owned(), "  ^".to_owned()));
}

#[test]
fn the_first_hundred_are_shown_and_the_first_thousand_kept() {
    let mut reporter = Reporter::new(Arc::from([Source::new("a.yaml", "x".repeat(3_000))]));
    for start in 0..1_200 {
        let span = Span { source: 0, start, end: start + 1 };
        reporter.warning(span, "odd", "");
        reporter.warning(span, "strange", "");
    }
    for start in (0..1_500).rev() {
        reporter.error(Span { source: 0, start, end: start + 1 }, "wrong", "");
    }
    let errors = reporter.finish().unwrap_err();
    assert_eq!(errors.diagnostics().len(), 2_000);
    let shown = errors.to_string();
    assert_eq!(shown.matches(" --> a.yaml:").count(), 100);
    assert!(shown.ends_with("and 3800 more"), "{shown}");
}

#[test]
fn an_error_counts_although_all_kept_are_warnings() {
    let mut reporter = Reporter::new(Arc::from([Source::new("a.yaml", "x")]));
    let span = Span { source: 0, start: 0, end: 1 };
    for number in 0..2_000 {
        reporter.warning(span, number.to_string(), "");
    }
    assert!(!reporter.has_errors());
    reporter.error(span, "wrong", "");
    assert!(reporter.has_errors());
    let errors = reporter.finish().unwrap_err();
    assert!(errors.diagnostics().iter().any(|found| found.message() == "wrong"));
}

#[test]
fn what_aliases_repeat_is_reported_once() {
    let mut reporter = Reporter::new(Arc::from([Source::new("a.yaml", "x")]));
    let span = Span { source: 0, start: 0, end: 1 };
    for _ in 0..3 {
        reporter.error(span, "wrong", "right");
    }
    assert_eq!(reporter.finish().unwrap_err().diagnostics().len(), 1);
}
