//! Conditions that no request can meet, because other programs write them differently: regular expressions, methods in
//! one text, hosts with a port.

use super::reader::Reader;
use crate::diagnostic::quoted;
use crate::source::Span;

/// What other programs call conditions, and what would be right.
const OTHER_FIELDS: [(&[&str], &str); 6] = [
    (
        &["regex", "regexp", "pattern", "matches", "match", "glob", "like"],
        "there are no regular expressions: write text with `*`, such as `/api/**`",
    ),
    (
        &["in", "any", "any_of", "one_of", "values", "or"],
        "write a list in place of the map, such as `[GET, POST]`",
    ),
    (&["suffix", "ends_with", "contains"], "write text with `*` in place of the map, such as `\"*.png\"`"),
    (&["cidr", "network", "range", "subnet"], "write the network in place of the map, such as `10.0.0.0/8`"),
    (&["starts_with"], "did you mean `prefix`?"),
    (&["exists"], "did you mean `present`?"),
];

/// Returns what is right in place of a field of a condition that is none.
pub(super) fn other_field(name: &str) -> Option<&'static str> {
    OTHER_FIELDS.iter().find(|(names, _)| names.contains(&name)).map(|(_, advice)| *advice)
}

impl Reader<'_> {
    /// Warns of a text that no value of the attribute matches.
    pub(super) fn warn_of_text(&mut self, attribute: &str, text: &str, span: Span) {
        let found = match attribute {
            "path" | "route" => path(attribute, text),
            "method" => method(text),
            "host" | "header.host" => host(attribute, text),
            _ => None,
        };
        if let Some((message, advice)) = found {
            self.warning(span, message, advice);
        }
    }
}

fn path(attribute: &str, text: &str) -> Option<(String, String)> {
    if text.starts_with('^') || text.ends_with('$') || text.contains(".*") && !text.contains('/') {
        let message = format!("{} is compared as text: there are no regular expressions", quoted(text));
        let advice = "write `*` for a part of a segment, and `**` for any number of them: `/api/**`";
        return Some((message, advice.to_owned()));
    }
    if let Some((path, query)) = text.split_once('?') {
        let name = query.split(['=', '&']).next().filter(|name| !name.is_empty()).unwrap_or("page");
        let advice =
            format!("write {}, and a condition on {}", quoted(path), quoted(&format!("query.{name}")));
        return Some((format!("a {attribute} has no query, and {} has one", quoted(text)), advice));
    }
    let is_parameter =
        |segment: &str| segment.starts_with(':') || segment.starts_with('{') && segment.ends_with('}');
    if attribute == "path" && text.split('/').any(is_parameter) {
        let segments: Vec<&str> =
            text.split('/').map(|one| if is_parameter(one) { "*" } else { one }).collect();
        let advice = format!("write {}, or compare `route`", quoted(&segments.join("/")));
        return Some((format!("the path {} is compared as text, not as a template", quoted(text)), advice));
    }
    if !text.starts_with(['/', '*']) {
        let message = format!("the {attribute} {} does not begin with `/`", quoted(text));
        return Some((message, format!("write {}", quoted(&format!("/{text}")))));
    }
    None
}

fn method(text: &str) -> Option<(String, String)> {
    let separators = [',', '|', ' ', '/', ';'];
    text.contains(separators).then(|| {
        let methods: Vec<&str> = text.split(separators).filter(|method| !method.is_empty()).collect();
        let advice = format!("write a list: {}", quoted(&format!("[{}]", methods.join(", "))));
        (format!("{} is not one method", quoted(text)), advice)
    })
}

fn host(attribute: &str, text: &str) -> Option<(String, String)> {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or(rest);
    // The header has what the client sent, a port included.
    let port = host.rsplit_once(':').filter(|(host, port)| {
        attribute == "host"
            && !host.ends_with(':')
            && !port.is_empty()
            && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    let right = port.map_or(host, |(host, _)| host);
    if right == text || right.is_empty() || right.contains(':') && !right.starts_with('[') {
        return None;
    }
    let message = format!("{} is more than a host", quoted(text));
    Some((message, format!("write {}: hosts are compared without scheme, port and path", quoted(right))))
}
