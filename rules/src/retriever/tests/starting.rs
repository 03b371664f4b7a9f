//! At startup, with and without a source.

use std::time::Duration;

use super::*;

fn error(started: Result<Retriever<Texts>, RetrieveError>) -> String {
    started.expect_err("an error").to_string()
}

#[tokio::test]
async fn a_start_fails_without_valid_rules() {
    let bench = Bench::new();
    let none = "there is no document whose name starts with `rules/`; create one";
    assert_eq!(error(bench.builder().start().await), none);
    bench.store.write("rules/shop", "broken").await;
    let broken = bench.builder().start().await.expect_err("broken");
    assert!(matches!(broken, RetrieveError::Rules(_)), "{broken:?}");
    bench.store.fail();
    let down = "the source of the rules does not answer: no route";
    assert_eq!(error(bench.builder().start().await), down);
}

#[tokio::test]
async fn a_start_with_initial_rules_goes_on_with_those_of_the_source() {
    let bench = Bench::new();
    bench.store.fail();
    let retriever = bench.builder().or_start_with(Texts::new()).start().await.expect("with empty rules");
    assert_eq!(*retriever.load(), Texts::new());
    assert_eq!(bench.events.take(), ["rules/: stale for 0ns: no route"]);
    bench.clock.advance(Duration::from_secs(2));
    let status = retriever.status();
    assert_eq!((status.origin, status.stale_for), (RulesOrigin::Initial, Duration::from_secs(2)));
    assert!(matches!(status.error, Some(RetrieveError::Unavailable(_))));
    bench.store.recover();
    bench.store.write("rules/shop", "broken").await;
    assert!(retriever.refresh().await.is_err());
    bench.store.write("rules/shop", "one").await;
    assert!(retriever.refresh().await.expect("valid"));
    assert_eq!(retriever.status().origin, RulesOrigin::Source);
    assert_eq!(*retriever.load(), texts([("rules/shop", "one")]));
}

#[tokio::test]
async fn rules_that_are_broken_at_the_start_are_reported_once() {
    let bench = Bench::new();
    bench.store.write("rules/shop", "broken").await;
    let retriever = bench.builder().or_start_with(Texts::new()).start().await.expect("with empty rules");
    assert!(retriever.refresh().await.is_err());
    let events = bench.events.take();
    assert_eq!((events.len(), retriever.stats().rejections), (1, 1), "{events:?}");
    assert!(matches!(retriever.status().error, Some(RetrieveError::Rules(_))));
}

#[tokio::test]
async fn the_last_good_rules_survive_a_restart_without_their_source() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("last-good.json");
    let bench = Bench::new();
    let start = async || bench.builder().last_good_file(&file).or_start_with(Texts::new()).start().await;
    bench.store.write("rules/shop", "one \"quoted\"\n").await;
    let retriever = start().await.expect("valid");
    bench.store.write("rules/api", "größe").await;
    retriever.refresh().await.expect("valid");
    assert!(retriever.status().save_error.is_none());
    bench.store.write("rules/api", "broken").await;
    retriever.refresh().await.expect_err("not saved");
    let good = texts([("rules/api", "größe"), ("rules/shop", "one \"quoted\"\n")]);
    let digest = retriever.status().digest;
    drop(retriever);

    let again = start().await.expect("from the file: the source is broken");
    assert_eq!((&*again.load(), again.status().origin), (&good, RulesOrigin::LastGoodFile));
    assert!(matches!(again.status().error, Some(RetrieveError::Rules(_))));
    drop(again);
    bench.store.fail();
    let again = start().await.expect("from the file: the source is down");
    assert_eq!((&*again.load(), again.status().origin), (&good, RulesOrigin::LastGoodFile));
    assert_eq!((again.status().digest, again.status().documents.len()), (digest, 2));
    bench.store.recover();
    bench.store.erase("rules/api").await;
    assert!(again.refresh().await.expect("valid"));
    assert_eq!(again.load().len(), 1);
    drop(again);
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 1, "no temporary files");
}

#[tokio::test]
async fn a_damaged_file_of_last_good_rules_is_not_used() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("last-good.json");
    let bench = Bench::new();
    bench.store.fail();
    let half = r#"{"documents":[{"name":"rules/shop","version":1,"te"#;
    let no_text = r#"{"documents":[{"name":"rules/shop","version":1}]}"#;
    let broken = r#"{"documents":[{"name":"rules/shop","version":1,"text":"broken"}]}"#;
    for damaged in ["", half, "[]", no_text, broken] {
        std::fs::write(&file, damaged).expect("writable");
        let down = "the source of the rules does not answer: no route";
        assert_eq!(error(bench.builder().last_good_file(&file).start().await), down, "{damaged}");
    }
    std::fs::write(&file, broken.replace("broken", "good")).expect("writable");
    bench.builder().last_good_file(&file).start().await.expect("it is the damage that fails");
}

/// Such as one with a timeout of the caller's.
#[test]
fn a_poll_that_is_cancelled_does_not_overwrite_newer_rules() {
    for _ in 0..10 {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("last-good.json");
        let bench = Bench::new();
        // Waits for all writes when it is dropped.
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            bench.store.write("rules/shop", "first").await;
            let retriever = bench.builder().last_good_file(&file).start().await.expect("valid");
            bench.store.write("rules/shop", &"long".repeat(1_000_000)).await;
            let in_use = async {
                while retriever.load()["rules/shop"] == "first" {
                    tokio::task::yield_now().await;
                }
            };
            {
                let (refresh, in_use) = (std::pin::pin!(retriever.refresh()), std::pin::pin!(in_use));
                futures_util::future::select(refresh, in_use).await;
            }
            bench.store.write("rules/shop", "newest").await;
            assert!(retriever.refresh().await.expect("valid"));
        });
        drop(runtime);
        let saved = last_good::load(&file).expect("not damaged");
        assert!(saved.sources()[0].text() == "newest", "overwritten");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_reported_and_stops_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let bench = Bench::new();
    bench.store.write("rules/shop", "one").await;
    let file = directory.path().join("missing").join("last-good.json");
    let retriever = bench.builder().last_good_file(&file).start().await.expect("valid");
    let problem = retriever.status().save_error.expect("an error");
    assert!(problem.contains("last-good.json: "), "{problem}");
    std::fs::create_dir(directory.path().join("missing")).expect("writable");
    bench.store.write("rules/shop", "two").await;
    assert!(retriever.refresh().await.expect("valid"));
    assert!(retriever.status().save_error.is_none());
}

#[tokio::test]
async fn invalid_settings_are_rejected() {
    let bench = Bench::new();
    bench.store.write("rules/shop", "one").await;
    let zero = bench.builder().interval(Duration::ZERO).start().await;
    assert_eq!(error(zero), "`Retriever`: `interval` is 0ns; use more than zero");
    let zero = bench.builder().deadline(Duration::ZERO).start().await;
    assert_eq!(error(zero), "`Retriever`: `deadline` is 0ns; use more than zero");
    for jitter in [-0.1, 1.0, f64::NAN] {
        let message = error(bench.builder().jitter(jitter).start().await);
        assert_eq!(message, format!("`Retriever`: `jitter` is {jitter}; use at least 0 and less than 1"));
    }
    let unnamed = error(bench.builder().document("").start().await);
    assert!(unnamed.starts_with("`Retriever`: `document` is not the name of a document"), "{unnamed}");
    assert!(bench.events.take().is_empty());
}

#[test]
fn a_start_outside_of_a_runtime_is_an_error() {
    let start = std::pin::pin!(Bench::new().builder().start());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(started) = start.poll(&mut context) else { panic!("it waits") };
    assert!(error(started).contains("is called outside of a runtime; await it on a tokio runtime"));
}
