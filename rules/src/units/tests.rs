//! Short forms: what they mean, and what their errors say.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::model::OnStoreError;

const SECOND: Duration = Duration::from_secs(1);
const UNITS: &str =
    "units are `ms`, `s`, `m` (minutes), `h`, `d`, `w`, `month` (30 days) and `year` (365 days)";

fn wrong<T>(result: Result<T, Advice>) -> String {
    result.err().map_or_else(
        || "nothing is wrong".to_owned(),
        |Advice { message, advice }| format!("{message}; {advice}"),
    )
}

#[test]
fn durations() {
    let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
    for (text, expected) in [
        ("15m", 15 * 60 * SECOND),
        ("1.5h", 90 * 60 * SECOND),
        ("250ms", SECOND / 4),
        ("0.25s", SECOND / 4),
        ("90s", 90 * SECOND),
        ("1h30m", 90 * 60 * SECOND),
        (" 1h 30m ", 90 * 60 * SECOND),
        ("1d12h", days(1) + days(1) / 2),
        ("2d", days(2)),
        ("1w", days(7)),
        ("15 minutes", 15 * 60 * SECOND),
        ("1 second", SECOND),
        ("1 SECOND", SECOND),
        ("2 secs", 2 * SECOND),
        ("3 min", 180 * SECOND),
        ("2hr", 2 * 60 * 60 * SECOND),
        ("3 hours", 3 * 60 * 60 * SECOND),
        ("1 Day", days(1)),
        ("2 weeks", days(14)),
        ("1 month", days(30)),
        ("12months", days(360)),
        ("1 year", days(365)),
        ("366d", days(366)),
        ("1_000s", 1_000 * SECOND),
        ("7us", Duration::from_micros(7)),
        ("7µs", Duration::from_micros(7)),
        ("1.000000001s", Duration::from_nanos(1_000_000_001)),
    ] {
        assert_eq!(duration(text), Ok(expected), "{text}");
    }
}

#[test]
fn wrong_durations() {
    for (text, expected) in [
        ("", "the duration is empty; write a number and a unit, such as `15m`"),
        ("15", "`15` has no unit; add one: `15s`, `15m` (minutes) or `15h`"),
        ("1h30", "`30` has no unit; add one: `30s`, `30m` (minutes) or `30h`"),
        ("fast", "`fast` is not a duration; write a number and a unit, such as `15m` or `1h30m`"),
        ("s", "`s` is not a duration; write a number and a unit, such as `15m` or `1h30m`"),
        ("0s", "a duration of zero; write a duration above zero, such as `1s`"),
        ("-5s", "`-5s` is negative; write a number above 0"),
        ("- 5s", "`- 5s` is negative; write a number above 0"),
        ("5mn", "unknown unit `mn` of a duration; did you mean `min`?"),
        ("5 secnods", "unknown unit `secnods` of a duration; did you mean `second`?"),
        ("5M", "unknown unit `M` of a duration; did you mean `5m`?"),
        ("5x", &format!("unknown unit `x` of a duration; {UNITS}")),
        ("5MB", &format!("`5MB` is a size, not a duration; {UNITS}")),
        ("5/s", "`5/s` is a rate, not a duration; write a number and a unit, such as `15m`"),
        ("30m1h", "the units of `30m1h` are out of order; write each unit once, the largest first: `1h30m`"),
        ("1h1h", "the units of `1h1h` are out of order; write each unit once, the largest first: `1h30m`"),
        ("367d", "`367d` is too long; write at most `366d`"),
        ("999999999999999999y", &format!("unknown unit `y` of a duration; {UNITS}")),
        ("999999999999999999years", "`999999999999999999years` is too long; write at most `366d`"),
        (
            "1000000000000000000s",
            "`1000000000000000000` has too many digits; write at most 18 digits, and 9 after the point",
        ),
        ("0.5ns", "`0.5ns` is not a whole number of nanoseconds; write fewer digits"),
        ("1.s", "`1.` is not a number; write digits such as `1500`, `1_500` or `1.5`"),
        ("1.2.3s", "`1.2.3` is not a number; write digits such as `1500`, `1_500` or `1.5`"),
        ("1__0s", "`1__0` is not a number; write digits such as `1500`, `1_500` or `1.5`"),
    ] {
        assert_eq!(wrong(duration(text)), *expected, "{text}");
    }
}

#[test]
fn durations_in_words() {
    for (nanos, words, short) in [
        (15 * 60_000_000_000, "15 minutes", "15m"),
        (90_000_000_000, "90 seconds", "90s"),
        (1_000_000_000, "1 second", "1s"),
        (60_000_000_000, "1 minute", "1m"),
        (3_600_000_000_000, "1 hour", "1h"),
        (86_400_000_000_000, "1 day", "1d"),
        (7 * 86_400_000_000_000, "1 week", "1w"),
        (30 * 86_400_000_000_000, "30 days", "30d"),
        (365 * 86_400_000_000_000, "365 days", "365d"),
        (1_500_000_000, "1500 milliseconds", "1500ms"),
        (1, "1 nanosecond", "1ns"),
        (0, "0 seconds", "0s"),
    ] {
        let duration = Duration::from_nanos(nanos);
        assert_eq!((describe_duration(duration).as_str(), short_duration(duration).as_str()), (words, short));
    }
}

fn per(count: u32, period: Duration) -> Rate {
    Rate { count, period, bytes: false }
}

#[test]
fn rates() {
    for (text, expected) in [
        ("50/s", per(50, SECOND)),
        ("10000/day", per(10_000, 86_400 * SECOND)),
        ("5/min", per(5, 60 * SECOND)),
        ("100 per minute", per(100, 60 * SECOND)),
        ("100 per 90s", per(100, 90 * SECOND)),
        ("100 / 1h 30m", per(100, 90 * 60 * SECOND)),
        ("3/90s", per(3, 90 * SECOND)),
        ("1000/15m", per(1_000, 15 * 60 * SECOND)),
        ("1_000/s", per(1_000, SECOND)),
        ("10k/h", per(10_000, 3_600 * SECOND)),
        ("1.5k/s", per(1_500, SECOND)),
        ("2M/day", per(2_000_000, 86_400 * SECOND)),
        ("1/SECOND", per(1, SECOND)),
        ("1/month", per(1, 30 * 86_400 * SECOND)),
        ("2.0/s", per(2, SECOND)),
        ("1000000000/s", per(1_000_000_000, SECOND)),
        ("10MB/s", Rate { count: 10_000_000, period: SECOND, bytes: true }),
        ("512 KiB/10s", Rate { count: 524_288, period: 10 * SECOND, bytes: true }),
    ] {
        assert_eq!(rate(text), Ok(expected), "{text}");
        assert_eq!(short_limit(text), Ok(ShortLimit { rate: expected, burst: None }), "{text}");
    }
}

#[test]
fn wrong_rates() {
    const FORM: &str = "write a number and a period, such as `50/s` or `1000/15m`";
    for (text, expected) in [
        ("", format!("`` is not a rate; {FORM}")),
        ("fast", format!("`fast` is not a rate; {FORM}")),
        ("50", "`50` has no period; write `50/s`, `50/min`, `50/h` or `50/day`".into()),
        ("50/", "the period is missing; write `50/s`, `50/min`, `50/h` or `50/day`".into()),
        ("50 per", "the period is missing; write `50/s`, `50/min`, `50/h` or `50/day`".into()),
        ("/s", format!("`/s` has no count; {FORM}")),
        ("x/s", format!("`x` is not a number; {FORM}")),
        ("50s", "`50s` is a duration, not a rate; did you mean `50/s`?".into()),
        ("50rps", "`50rps` is not a rate; did you mean `50/s`?".into()),
        ("50 rpm", "`50 rpm` is not a rate; did you mean `50/min`?".into()),
        ("10MB", "`10MB` has no period; write `10MB/s`, `10MB/min`, `10MB/h` or `10MB/day`".into()),
        ("50/5", "`5` has no unit; add one: `5s`, `5m` (minutes) or `5h`".into()),
        ("50/s/s", format!("`s/s` is not a period; {FORM}")),
        ("50/mn", "unknown unit `mn` of a duration; did you mean `min`?".into()),
        ("50/M", "unknown unit `M` of a duration; did you mean `m`?".into()),
        ("50/x", format!("unknown unit `x` of a duration; {UNITS}")),
        ("50/0s", "a duration of zero; write a duration above zero, such as `1s`".into()),
        ("50/-1s", "`-1s` is negative; write a number above 0".into()),
        ("50/_5s", "`_5` is not a number; write digits such as `1500`, `1_500` or `1.5`".into()),
        ("50/2years", "`2years` is too long; write at most `366d`".into()),
        ("0/s", "a count of zero; write at least 1".into()),
        ("-5/s", "`-5` is negative; write a number above 0".into()),
        ("0.5/s", "`0.5` is not a whole number; write the same rate with a longer period: `1/2s`".into()),
        ("1.5/min", "`1.5` is not a whole number; write the same rate with a longer period: `3/2m`".into()),
        ("0.001/year", "`0.001` is not a whole number; write a whole number and a longer period".into()),
        ("1.0005k/s", "`1.0005k` is not a whole number; write a whole number, such as `100`".into()),
        (
            "2000000000/s",
            "the number is too large; write at most 1000000000, or count in larger units".into(),
        ),
        ("10GB/s", "the number is too large; write at most 1000000000, or count in larger units".into()),
        ("9000000TB/s", "the number is too large; write at most 1000000000, or count in larger units".into()),
        (
            "999999999999999999k/s",
            "the number is too large; write at most 1000000000, or count in larger units".into(),
        ),
        ("10K/s", "`10K` is not a number; did you mean `10k`?".into()),
        ("10mb/s", "unknown unit `mb` of a size; did you mean `10MB`? A lower-case `b` means bits".into()),
        ("10requests/s", "`10requests` is not a number; write only the number: `10/s`".into()),
        ("10s/s", "`10s` is not a number; this is a duration; write a whole number, such as `100`".into()),
        (
            "10x/s",
            "`10x` is not a number; write a whole number, such as `100`, `10k` (10,000) or `1M` (1,000,000)"
                .into(),
        ),
    ] {
        assert_eq!(wrong(rate(text)), expected, "{text}");
        assert_eq!(wrong(short_limit(text)), expected, "{text}");
    }
}

#[test]
fn short_limits() {
    let burst = |rate, burst| Ok(ShortLimit { rate, burst: Some(burst) });
    assert_eq!(short_limit("50/s burst 100"), burst(per(50, SECOND), 100));
    assert_eq!(short_limit(" 50 per second  burst 1_000 "), burst(per(50, SECOND), 1_000));
    assert_eq!(short_limit("50/1h 30m burst 2k"), burst(per(50, 90 * 60 * SECOND), 2_000));
    let bytes = Rate { count: 1_000_000, period: SECOND, bytes: true };
    assert_eq!(short_limit("1MB/s burst 5MB"), burst(bytes, 5_000_000));
    for (text, expected) in [
        ("50/s burst", "`burst` has no number; write how much may come at once, such as `burst 100`"),
        ("50/s brust 100", "unknown word `brust` after the rate; did you mean `burst`?"),
        ("50/s 100", "unknown word `100` after the rate; only `burst` may follow, as in `50/s burst 100`"),
        (
            "50/s per user",
            "unknown word `per` after the rate; only `burst` may follow, as in `50/s burst 100`",
        ),
        ("50/s burst 0", "a count of zero; write at least 1"),
        ("50/s burst -1", "`-1` is negative; write a number above 0"),
        ("50/s burst 1.5", "`1.5` is not a whole number; write a whole number, such as `100`"),
        ("50/s burst x", "`x` is not a number; write a whole number, such as `100`"),
        (
            "50/s burst 5MB",
            "`5MB` is not a number; sizes count only where the cost is a number of bytes, as in `10MB/s`",
        ),
        ("1MB/s burst 5", "`5` has no unit; add one: `5B`, `5kB` or `5MB`"),
        ("burst 100", "`` is not a rate; write a number and a period, such as `50/s` or `1000/15m`"),
    ] {
        assert_eq!(wrong(short_limit(text)), expected, "{text}");
    }
}

#[test]
fn counts_and_sizes() {
    assert_eq!(count("100"), Ok(100));
    assert_eq!(count(" 10_000 "), Ok(10_000));
    assert_eq!(count("1.5M"), Ok(1_500_000));
    assert_eq!(
        wrong(count("1000000001")),
        "the number is too large; write at most 1000000000, or count in larger units"
    );
    assert_eq!(wrong(count("")), "`` is not a number; write a whole number, such as `100`");
    assert_eq!(size("10MB"), Ok(10_000_000));
    assert_eq!(size("512KiB"), Ok(524_288));
    assert_eq!(size("1.5 kB"), Ok(1_500));
    assert_eq!(size("7B"), Ok(7));
    assert_eq!(size("1TiB"), Ok(1 << 40));
    for (text, expected) in [
        ("", "`` is not a size; write a number and a unit, such as `10MB`"),
        ("10", "`10` has no unit; add one: `10B`, `10kB` or `10MB`"),
        ("10M", "unknown unit `M` of a size; did you mean `10MB`?"),
        ("10Mb", "unknown unit `Mb` of a size; did you mean `10MB`? A lower-case `b` means bits"),
        ("10kib", "unknown unit `kib` of a size; did you mean `10KiB`? A lower-case `b` means bits"),
        ("10s", "`10s` is a duration, not a size; sizes are in `B`, `kB`, `MB`, `GB`, `KiB`, `MiB` or `GiB`"),
        (
            "10XB",
            "unknown unit `XB` of a size; units are `B`, `kB`, `MB`, `GB`, `TB`, `KiB`, `MiB`, `GiB` and `TiB`",
        ),
        ("0MB", "a size of zero; write at least `1B`"),
        ("-1MB", "`-1MB` is negative; write a number above 0"),
        ("0.5B", "`0.5B` is not a whole number of bytes; write fewer digits"),
        ("999999999TB", "`999999999TB` is too large; write at most `1000000TB`"),
    ] {
        assert_eq!(wrong(size(text)), expected, "{text}");
    }
}

#[test]
fn failure_policies() {
    const FORMS: &str = "write `allow`, `deny`, `share 1/10` or `allow for 30s, then deny`";
    const SHARE: &str = "write the part of one of the processes that share the limit, such as `share 1/10`";
    assert_eq!(failure_policy("allow"), Ok(OnStoreError::Allow));
    assert_eq!(failure_policy(" deny "), Ok(OnStoreError::Deny));
    assert_eq!(failure_policy("share 1/10"), Ok(OnStoreError::Share { of: 10 }));
    let allow_for = |seconds| Ok(OnStoreError::AllowFor(Duration::from_secs(seconds)));
    assert_eq!(failure_policy("allow for 30s, then deny"), allow_for(30));
    assert_eq!(failure_policy("allow for 1h 30m then deny"), allow_for(5_400));
    for (text, expected) in [
        ("", format!("unknown failure policy ``; {FORMS}")),
        ("alow", "unknown failure policy `alow`; did you mean `allow`?".into()),
        ("dney", "unknown failure policy `dney`; did you mean `deny`?".into()),
        ("open", format!("unknown failure policy `open`; {FORMS}")),
        ("allow 30s", format!("unknown failure policy `allow 30s`; {FORMS}")),
        ("allow forever", format!("unknown failure policy `allow forever`; {FORMS}")),
        ("allow for 30s", "`allow for 30s` does not say what follows; write `allow for 30s, then deny`".into()),
        ("allow for 30s, deny", "`allow for 30s, deny` does not say what follows; write `allow for 30s, then deny`".into()),
        ("allow for 30, then deny", "`30` has no unit; add one: `30s`, `30m` (minutes) or `30h`".into()),
        ("allow for , then deny", "the duration is empty; write a number and a unit, such as `15m`".into()),
        ("share", format!("`share` has no fraction; {SHARE}")),
        ("share 10%", format!("`10%` is not a fraction; {SHARE}")),
        ("share 2/10", "the share `2/10` does not start with `1/`; write `share 1/5`".into()),
        (
            "share 2/5",
            "the share `2/5` does not start with `1/`; write one part of the number of processes, such as `share 1/10`".into(),
        ),
        ("share 1/0", "a count of zero; write at least 1".into()),
        ("share 1/x", "`x` is not a number; write a whole number, such as `100`".into()),
    ] {
        assert_eq!(wrong(failure_policy(text)), expected, "{text}");
    }
}

/// Text like that of short forms, and any text.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,20}",
        "[-0-9._ ]{0,12}(ns|us|ms|s|m|min|h|d|w|month|year|k|M|MB|KiB|x|µs)?( ?(/|per) ?[0-9.]{0,3}[a-zµ]{0,7})?( burst [0-9kMB]{0,9})?",
        "(allow|deny|share|alow)( for)? ?[0-9a-z/]{0,6},?( then deny)?",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_096, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in texts()) {
        let errors = [
            duration(&text).err(),
            rate(&text).err(),
            short_limit(&text).err(),
            size(&text).err(),
            count(&text).err(),
            failure_policy(&text).err(),
        ];
        for Advice { message, advice } in errors.into_iter().flatten() {
            prop_assert!(!message.is_empty() && !advice.is_empty());
        }
        if let Ok(duration) = duration(&text) {
            prop_assert!(duration > Duration::ZERO && duration <= tollgate_core::Limit::MAX_PERIOD);
        }
        if let Ok(rate) = rate(&text) {
            prop_assert!((1..=tollgate_core::Limit::MAX_COUNT).contains(&rate.count) && rate.period > Duration::ZERO);
        }
    }

    #[test]
    fn described_durations_are_read_again(
        nanos in prop_oneof![1..2_000_000_000_u64, 1..=31_622_400_000_000_000_u64],
        unit in prop_oneof![Just(1_u64), Just(1_000_000), Just(1_000_000_000), Just(60_000_000_000), Just(86_400_000_000_000)],
    ) {
        let written = Duration::from_nanos((nanos / unit * unit).max(1));
        prop_assert_eq!(duration(&describe_duration(written)), Ok(written));
        prop_assert_eq!(duration(&short_duration(written)), Ok(written));
    }
}
