//! The picture of the README: a token bucket admits a burst, denies the rest of it, and then admits the limit's rate.

use std::fmt::Write as _;
use std::time::Duration;

use tollgate_core::{Limit, LimitError, Limiter, ManualClock};
use tollgate_store_memory::MemoryStore;

use crate::svg::COLOURS;

const RATE: u32 = 5;
const BURST: u32 = 10;
const SECONDS: u32 = 7;

/// Requests: when the first of them arrives in milliseconds, how many there are, and the milliseconds between them.
const ARRIVALS: [(u64, u64, u64); 4] = [(300, 15, 0), (1_500, 9, 0), (2_500, 20, 100), (4_900, 10, 200)];

const LABELS: [(u64, &str); 4] =
    [(300, "15 at once"), (1_500, "9 more"), (3_450, "10 per second"), (5_800, "5 per second: all pass")];

struct Request {
    millis: u64,
    /// How many requests arrived at the same instant before it.
    level: u64,
    allowed: bool,
    remaining: u32,
}

fn requests() -> Result<Vec<Request>, LimitError> {
    let (clock, api) = (ManualClock::default(), Limit::per_second(RATE).burst(BURST).build("api")?);
    let limiter = Limiter::with_clock(MemoryStore::new(), clock.clone());
    let (mut requests, mut now) = (Vec::new(), 0);
    for (start, count, apart) in ARRIVALS {
        for number in 0..count {
            let millis = start + number * apart;
            clock.advance(Duration::from_millis(millis - now));
            now = millis;
            let decision = limiter.check_now(&api, "user:42");
            let level = if apart == 0 { number } else { 0 };
            requests.push(Request {
                millis,
                level,
                allowed: decision.is_allowed(),
                remaining: decision.remaining(),
            });
        }
    }
    Ok(requests)
}

/// Draws the picture as SVG.
pub(crate) fn draw() -> Result<String, LimitError> {
    let requests = requests()?;
    let [.., denied, allowed, _] = COLOURS;
    let x = |millis: u64| 40 + millis * 700 / (u64::from(SECONDS) * 1_000);
    let mut svg = String::new();
    let mut add = |line: std::fmt::Arguments<'_>| writeln!(svg, "{line}").is_ok();
    add(format_args!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 250" font-family="sans-serif" font-size="12" fill="#333">"##
    ));
    add(format_args!(r##"<rect width="760" height="250" fill="#fff"/>"##));
    add(format_args!(
        r#"<text x="40" y="22" font-size="15">Limit::per_second({RATE}).burst({BURST}): each square is a request</text>"#
    ));
    add(format_args!(r#"<rect x="520" y="12" width="10" height="10" fill="{allowed}"/>"#));
    add(format_args!(r#"<text x="536" y="22">allowed</text>"#));
    add(format_args!(
        r#"<rect x="606" y="13" width="9" height="9" fill="none" stroke="{denied}" stroke-width="1.5"/>"#
    ));
    add(format_args!(r#"<text x="622" y="22">denied</text>"#));
    for second in 0..=u64::from(SECONDS) {
        let at = x(second * 1_000);
        add(format_args!(r##"<path d="M{at} 215v5" stroke="#999"/>"##));
        add(format_args!(r#"<text x="{at}" y="234" text-anchor="middle">{second} s</text>"#));
    }
    add(format_args!(r##"<path d="M40 215H740" stroke="#999"/>"##));
    for (millis, label) in LABELS {
        add(format_args!(
            r##"<text x="{}" y="52" text-anchor="middle" fill="#666">{label}</text>"##,
            x(millis)
        ));
    }
    for Request { millis, level, allowed: passes, remaining } in &requests {
        let (left, top) = (x(*millis) - 4, 204 - level * 10);
        if *passes {
            add(format_args!(
                r#"<rect x="{left}" y="{top}" width="8" height="8" fill="{allowed}"><title>allowed, {remaining} remaining</title></rect>"#
            ));
        } else {
            add(format_args!(
                r#"<rect x="{left}" y="{top}" width="7" height="7" fill="none" stroke="{denied}" stroke-width="1.5"><title>denied</title></rect>"#
            ));
        }
    }
    add(format_args!("</svg>"));
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_shows_a_burst_a_denial_and_the_rate() {
        let requests = requests().expect("a valid limit");
        let allowed = |range: std::ops::Range<usize>| requests[range].iter().filter(|it| it.allowed).count();
        assert_eq!((allowed(0..15), allowed(15..24)), (10, 6), "the burst, and 1.2 s of refill");
        assert_eq!(allowed(24..44), 14, "1 s of refill, and 5 per second");
        assert_eq!(allowed(44..54), 10, "all at the rate");
    }
}
