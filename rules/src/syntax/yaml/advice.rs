//! What is wrong with the syntax of a YAML file, in plain words.

use std::ops::Range;

use granit_parser::{ErrorKind, ScanError};

use crate::diagnostic::quoted;
use crate::syntax::file::File;

/// Reports the parser's error.
pub(super) fn report(error: &ScanError, file: &mut File<'_>) {
    let mut start = error.marker().byte_offset().unwrap_or(file.text().len());
    let (message, advice) = words(error.kind());
    if message == TAB {
        // The parser may stop behind the blanks.
        let before = file.text().get(..start).unwrap_or_default();
        let text = before.trim_end_matches([' ', '\t']);
        start = before[text.len()..].find('\t').map_or(start, |tab| text.len() + tab);
        start = tab_after(file.text(), start).unwrap_or(start);
    }
    let before = file.text().get(..start).unwrap_or_default();
    if message == UNCLOSED
        && !file.text()[before.len()..].starts_with(QUOTES)
        && let Some(quote) = before.rfind(QUOTES)
    {
        // The parser stops where the text should have ended.
        start = quote;
    }
    let mut span = file.span(start..start);
    if let Some(character) =
        file.text()[span.start as usize..].chars().next().filter(|c| !matches!(c, '\n' | '\r'))
    {
        span.end += u32::try_from(character.len_utf8()).unwrap_or(1);
    }
    if *error.kind() == ErrorKind::RecursionLimitExceeded {
        file.too_deep(span);
        return;
    }
    let control = |character: &char| character.is_control() && !character.is_whitespace();
    if file.text()[span.start as usize..].chars().next().is_some_and(|first| control(&first)) {
        let advice = "remove it, or write it as an escape between double quotes, such as `\"\\0\"`";
        file.error(span, "a control character", advice);
        return;
    }
    if message == COLON
        && let Some((place, right)) = missing_blank(file.text(), start)
    {
        let span = file.span(place);
        file.error(span, "a blank is missing after `:`", format!("write {}", quoted(&right)));
        return;
    }
    let message = if message.is_empty() { error.info() } else { message.to_owned() };
    file.error(span, message, advice);
}

/// Returns the place of `domain:shop` in the line before, and what is right there.
fn missing_blank(text: &str, start: usize) -> Option<(Range<usize>, String)> {
    let line = text.get(..start)?.rfind('\n')?;
    let before = text[..line].trim_end();
    let entry = before[before.rfind('\n').map_or(0, |at| at + 1)..].trim_start_matches([' ', '-']);
    let (key, value) = entry.split_once(':')?;
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    let lacks_blank = is_key && !value.is_empty() && !value.starts_with([' ', '/']);
    lacks_blank.then(|| (before.len() - entry.len()..before.len(), format!("{key}: {value}")))
}

/// Returns where the next tab is that indents a line, if `start` is not a tab: text ends in front of it.
fn tab_after(text: &str, start: usize) -> Option<usize> {
    let rest = text.get(start..).filter(|rest| !rest.starts_with('\t'))?;
    let mut line = start;
    for content in rest.split_inclusive('\n') {
        let blanks = content.len() - content.trim_start_matches([' ', '\t']).len();
        if let Some(tab) = content[..blanks].find('\t') {
            return Some(line + tab);
        }
        line += content.len();
    }
    None
}

const COLON: &str = "`:` is not expected here";
const UNCLOSED: &str = "a quote is not closed";
const QUOTES: [char; 2] = ['"', '\''];
const TAB: &str = "a tab is used as indentation";
const OPEN: &str = "close every `[` with `]` and every `{` with `}`";
const INDENT: &str = "give all entries of a map, and all items of a list, the same number of blanks in front";
const QUOTE: &str = "put text with special characters between quotes";

/// Returns a message and advice. The parser's own message stays where it says enough.
fn words(kind: &ErrorKind) -> (&'static str, &'static str) {
    use ErrorKind as Kind;
    match kind {
        Kind::TabNotAllowed
        | Kind::TabInBlockIndentation
        | Kind::TabInIndentation
        | Kind::TabAtBlockScalarStart
        | Kind::TabInPlainScalar
        | Kind::InvalidBlockEntryWhitespace
        | Kind::InvalidMappingValueWhitespace => (TAB, "indent with blanks: YAML does not allow tabs there"),
        Kind::UnexpectedEofFlowSequence | Kind::UnclosedFlowCollection { open: '[' } => {
            ("a `[` is not closed", OPEN)
        }
        Kind::UnexpectedEofFlowMapping
        | Kind::UnexpectedEofImplicitFlowMapping
        | Kind::UnclosedFlowCollection { .. } => ("a `{` is not closed", OPEN),
        Kind::MismatchedFlowCollectionEnd { .. } => ("the bracket does not fit the one that it closes", OPEN),
        Kind::MisplacedFlowCollectionEnd => ("this bracket closes nothing", OPEN),
        Kind::ExpectedFlowMappingSeparator => {
            ("expected `,` or `}`", "separate the entries between `{` and `}` by `,`")
        }
        Kind::ExpectedFlowSequenceSeparator => {
            ("expected `,` or `]`", "separate the items between `[` and `]` by `,`")
        }
        Kind::UnexpectedEof | Kind::UnexpectedEofBlockSequence | Kind::UnexpectedEofBlockMapping => {
            ("the file ends in the middle of a value", "complete the last lines")
        }
        Kind::ExpectedNodeContent => {
            ("expected a value", "write a value here, or quote the text if this is one")
        }
        Kind::ExpectedBlockMappingKey => ("expected another `key: value` of the map above", INDENT),
        Kind::ExpectedBlockSequenceEntry => {
            ("expected another item of the list above, starting with `- `", INDENT)
        }
        Kind::InvalidIndentation | Kind::InvalidBlockScalarIndent | Kind::InvalidFlowScalarIndent => {
            ("the line is indented wrongly", INDENT)
        }
        Kind::BlockSequenceEntryNotAllowed => {
            ("a list item is not expected here", "start the list in a line of its own")
        }
        Kind::BlockEntryInFlowCollection => (
            "a list item with `-` is not expected between brackets",
            "separate the items by `,`, without `-`",
        ),
        Kind::SimpleKeyExpected | Kind::InvalidSimpleKey => {
            ("expected `:` after the key", "write `key: value`, with the key in one line")
        }
        Kind::MappingValueNotAllowed
        | Kind::InvalidColonPlacement
        | Kind::FlowMappingValueAdjacentCollection => {
            (COLON, "check the indentation and the brackets above, and quote text that contains `: `")
        }
        Kind::MappingKeyNotAllowed => ("a key is not expected here", INDENT),
        Kind::CommentNotSeparated | Kind::CommentInterceptedScalar => (
            "a comment is not expected here",
            "put a blank in front of `#`, and no comment into the middle of a text",
        ),
        Kind::ExpectedWhitespace => ("expected a blank", "put a blank after `:`, `-` and `,`"),
        Kind::ExpectedDocumentStart | Kind::InvalidDocumentEnd | Kind::MissingDocumentEndBeforeDirective => {
            ("text after the end of the document", INDENT)
        }
        Kind::BomInsideDocument => {
            ("a byte order mark inside of the file", "remove this invisible character")
        }
        // The type is open.
        other => words_of_text(other),
    }
}

/// The same for errors in text, anchors and tags.
fn words_of_text(kind: &ErrorKind) -> (&'static str, &'static str) {
    use ErrorKind as Kind;
    match kind {
        Kind::UnexpectedCharacter { .. } => ("text must not start with this character", QUOTE),
        Kind::PlainScalarStartsWithDashFlowIndicator | Kind::UnexpectedEndOfPlainScalar => {
            ("expected text", QUOTE)
        }
        Kind::UnclosedQuotedScalar
        | Kind::DocumentIndicatorInQuotedScalar
        | Kind::InvalidQuotedScalarIndent => {
            (UNCLOSED, "end the text with the quote that it starts with, or indent its further lines")
        }
        Kind::InvalidTrailingSingleQuotedScalar | Kind::InvalidTrailingDoubleQuotedScalar => (
            "text after a closing quote",
            "put all of the text between the quotes; a `'` between single quotes is written `''`",
        ),
        Kind::UnknownQuotedScalarEscape
        | Kind::InvalidQuotedScalarHexEscape
        | Kind::InvalidLowSurrogateHexEscape
        | Kind::InvalidLowSurrogate
        | Kind::MissingLowSurrogate
        | Kind::UnpairedLowSurrogate
        | Kind::InvalidUnicodeEscape => (
            "unknown escape after `\\`",
            "write `\\\\` for a backslash, or use single quotes, which have no escapes",
        ),
        Kind::MissingAnchorOrAliasName => {
            ("expected a name after `&` or `*`", "quote text that starts with `&` or `*`")
        }
        Kind::ExpectedTagBang
        | Kind::InvalidGlobalTagCharacter
        | Kind::InvalidTagTerminator
        | Kind::MissingTagUri
        | Kind::UnclosedVerbatimTag
        | Kind::InvalidTagEscape
        | Kind::UndeclaredTagHandle => ("unknown tag", "quote text that starts with `!`"),
        Kind::ZeroBlockScalarIndent | Kind::InvalidBlockScalarHeader => {
            ("expected a line break after `|` or `>`", "start the text in the next line, or quote it")
        }
        // Mostly directives, such as `%YAML`.
        _ => ("", "see the syntax of YAML 1.2"),
    }
}
