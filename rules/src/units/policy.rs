//! Failure policies: `allow`, `deny`, `share 1/10`, `allow for 30s, then deny`.

use super::Advice;
use super::duration::duration;
use super::number::{count, did_you_mean};
use crate::diagnostic::quoted;
use crate::model::OnStoreError;

const FORMS: &str = "write `allow`, `deny`, `share 1/10` or `allow for 30s, then deny`";

/// Returns what a policy says.
pub(crate) fn failure_policy(text: &str) -> Result<OnStoreError, Advice> {
    let text = text.trim();
    match text {
        "allow" => return Ok(OnStoreError::Allow),
        "deny" => return Ok(OnStoreError::Deny),
        _ => {}
    }
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match first {
        "share" => share(rest.trim()),
        "allow" => allow_for(rest.trim(), text),
        _ => {
            let message = format!("unknown failure policy {}", quoted(text));
            Err(Advice::new(message, did_you_mean(first, ["allow", "deny", "share"], FORMS)))
        }
    }
}

fn share(text: &str) -> Result<OnStoreError, Advice> {
    let Some((part, of)) = text.split_once('/') else {
        let message = if text.is_empty() {
            "`share` has no fraction".to_owned()
        } else {
            format!("{} is not a fraction", quoted(text))
        };
        return Err(Advice::new(
            message,
            "write the part of one of the processes that share the limit, such as `share 1/10`",
        ));
    };
    let (part, of) = (count(part)?, count(of)?);
    if part == 1 {
        return Ok(OnStoreError::Share { of });
    }
    let advice = if of.is_multiple_of(part) {
        format!("write `share 1/{}`", of / part)
    } else {
        "write one part of the number of processes, such as `share 1/10`".to_owned()
    };
    Err(Advice::new(format!("the share {} does not start with `1/`", quoted(text)), advice))
}

fn allow_for(rest: &str, text: &str) -> Result<OnStoreError, Advice> {
    let Some(rest) = rest.strip_prefix("for").filter(|rest| rest.starts_with(char::is_whitespace)) else {
        return Err(Advice::new(format!("unknown failure policy {}", quoted(text)), FORMS));
    };
    let (time, after) = match rest.split_once(',') {
        Some((time, after)) => (time, after),
        None => rest.find("then").map_or((rest, ""), |at| rest.split_at(at)),
    };
    let time = time.trim();
    let allowed = duration(time)?;
    if after.split_whitespace().eq(["then", "deny"]) {
        return Ok(OnStoreError::AllowFor(allowed));
    }
    let message = format!("{} does not say what follows", quoted(text));
    Err(Advice::new(message, format!("write `allow for {time}, then deny`")))
}
