//! How a diagnostic is shown: the line of the source, with the place marked.

use std::fmt::{self, Write};

use super::{Diagnostic, Severity};

/// How many characters of a line are shown.
const WIDTH: usize = 100;

/// How many of them stand in front of the place, if the line is cut.
const CONTEXT: usize = 40;

/// What a tab is shown as.
const TAB: &str = "    ";

pub(super) fn render(diagnostic: &Diagnostic, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (line, column) = (diagnostic.line(), diagnostic.column());
    let severity = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    write!(f, "{severity}: ")?;
    write_visible(f, &diagnostic.message)?;
    let gutter = line.to_string().len();
    write!(f, "\n{:gutter$}--> ", "")?;
    write_visible(f, diagnostic.file())?;
    writeln!(f, ":{line}:{column}")?;

    let (shown, marked) = excerpt(diagnostic, column);
    writeln!(f, "{:gutter$} |", "")?;
    writeln!(f, "{}", format!("{line} | {shown}").trim_end())?;
    write!(f, "{:gutter$} | {:marked$}", "", "", marked = marked.start)?;
    write!(f, "{:^<1$}", "", marked.len().max(1))?;
    if !diagnostic.advice.is_empty() {
        f.write_str(" ")?;
        write_visible(f, &diagnostic.advice)?;
    }
    Ok(())
}

/// Returns the line that is shown, and which columns of it are marked.
fn excerpt(diagnostic: &Diagnostic, column: usize) -> (String, std::ops::Range<usize>) {
    let text = diagnostic.source.text();
    let place = text.get(diagnostic.span.start as usize..).unwrap_or_default();
    let marked = text.get(diagnostic.span.start as usize..diagnostic.span.end as usize).unwrap_or_default();
    let marked = marked.lines().next().unwrap_or_default().chars().count();
    let line = &diagnostic.before()[diagnostic.before().rfind('\n').map_or(0, |at| at + 1)..];
    let rest = place.lines().next().unwrap_or_default();

    let before = column - 1;
    let total = before + rest.chars().take(WIDTH + 1).count();
    let skipped = if total > WIDTH { before.saturating_sub(CONTEXT) } else { 0 };
    let mut shown = String::new();
    if skipped > 0 {
        shown.push('…');
    }
    let mut width = shown.chars().count();
    let mut range = width..width;
    for (index, character) in line.chars().chain(rest.chars()).enumerate().skip(skipped).take(WIDTH) {
        if index == before {
            range.start = width;
        }
        if character == '\t' {
            shown.push_str(TAB);
            width += TAB.len();
        } else {
            shown.push(visible(character));
            width += 1;
        }
        if index < before + marked {
            range.end = width;
        }
    }
    if range.start == 0 && before > 0 || range.end < range.start {
        // Behind the end of the line.
        range.start = range.end.max(width);
        range.end = range.start;
    }
    if total > skipped + WIDTH {
        shown.push('…');
    }
    (shown, range)
}

fn write_visible(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    text.chars().try_for_each(|character| f.write_char(visible(character)))
}

/// Returns what a character is shown as. Files of others must not send control sequences to a terminal, or reorder what
/// it shows.
fn visible(character: char) -> char {
    match character {
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(character)).unwrap_or('�'),
        '\x7f' => '␡',
        '\u{80}'..='\u{9f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}'
        | '\u{feff}' => '�',
        _ => character,
    }
}
