//! What is loaded when, and what is reported.

use std::time::Duration;

use tollgate_core::documents::{Change, Document, DocumentError, Revision};

use super::*;

#[tokio::test]
async fn changes_are_loaded_and_unchanged_documents_are_not_read_again() {
    let bench = Bench::new();
    let retriever = bench.start().await;
    assert_eq!(*retriever.load(), texts([("rules/shop", "one")]));
    let reads = bench.store.reads();
    assert!(!retriever.refresh().await.expect("up"), "nothing has changed");
    assert_eq!(bench.store.reads(), reads);
    let kept = retriever.rules();
    bench.store.write("rules/shop", "two").await;
    bench.store.write("rules/api", "new").await;
    bench.store.write("plans/alice", "is not of these").await;
    assert!(retriever.refresh().await.expect("up"));
    assert_eq!(*retriever.load(), texts([("rules/api", "new"), ("rules/shop", "two")]));
    assert_eq!(bench.store.reads(), reads + 2);
    assert_eq!(*kept, texts([("rules/shop", "one")]), "whoever holds the old rules keeps them");
    bench.store.erase("rules/shop").await;
    assert!(retriever.refresh().await.expect("up"));
    assert_eq!(*retriever.load(), texts([("rules/api", "new")]));
    assert_eq!(bench.events.take(), ["rules/: loaded 2", "rules/: loaded 1"]);
    assert_eq!(bench.store.reads(), reads + 2, "a document is not read to be removed");
}

#[tokio::test]
async fn one_document_is_polled_by_its_version() {
    let bench = Bench::new();
    bench.store.write("rules/shop", "one").await;
    bench.store.write("rules/shop2", "another").await;
    let retriever = bench.builder().document("rules/shop").start().await.expect("valid");
    assert_eq!(*retriever.load(), texts([("rules/shop", "one")]));
    assert!(!retriever.refresh().await.expect("up"));
    bench.store.write("rules/shop", "two").await;
    assert!(retriever.refresh().await.expect("up"));
    assert_eq!(*retriever.load(), texts([("rules/shop", "two")]));
    assert_eq!(bench.store.lists(), 0);
    assert_eq!(bench.events.take(), ["rules/shop: loaded 1", "rules/shop: loaded 1"]);
    bench.store.erase("rules/shop").await;
    let missing = retriever.refresh().await.expect_err("deleted");
    assert_eq!(missing.to_string(), "there is no document `rules/shop`; create it");
    assert_eq!(*retriever.load(), texts([("rules/shop", "two")]));
}

#[tokio::test]
async fn the_source_is_polled_once_per_interval_until_the_retriever_is_dropped() {
    let bench = Bench::new();
    let retriever = bench.start().await;
    let settled = async || {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        assert_eq!(bench.clock.sleepers(), 1);
    };
    let lists = bench.store.lists();
    for poll in 0..5 {
        settled().await;
        bench.clock.advance(Duration::from_millis(999));
        settled().await;
        assert_eq!(bench.store.lists(), lists + poll);
        bench.clock.advance(Duration::from_millis(1));
        settled().await;
        assert_eq!(bench.store.lists(), lists + poll + 1);
    }
    bench.store.write("rules/shop", "two").await;
    bench.clock.advance(Duration::from_secs(1));
    until(|| *retriever.load() == texts([("rules/shop", "two")])).await;
    drop(retriever);
    until(|| bench.clock.sleepers() == 0).await;
}

#[tokio::test]
async fn intervals_differ_by_the_jitter_at_most() {
    let bench = Bench::new();
    bench.store.write("rules/shop", "one").await;
    let retriever = bench.builder().jitter(0.5).start().await.expect("valid");
    let mut gaps = Vec::new();
    for _ in 0..30 {
        let polls = retriever.stats().polls;
        let mut gap = 0;
        while retriever.stats().polls == polls {
            bench.clock.advance(Duration::from_millis(10));
            gap += 10;
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        }
        gaps.push(gap);
    }
    assert!(gaps.iter().all(|gap| (500..=1_510).contains(gap)), "{gaps:?}");
    assert!(gaps.iter().any(|gap| *gap != gaps[0]), "{gaps:?}");
}

#[tokio::test]
async fn broken_rules_are_rejected_once_and_the_old_ones_stay() {
    let bench = Bench::new();
    let retriever = bench.start().await;
    let before = retriever.status();
    bench.clock.advance(Duration::from_secs(60));
    bench.store.write("rules/shop", "broken").await;
    for _ in 0..3 {
        let rejected = retriever.refresh().await.expect_err("broken");
        assert_eq!(rejected.to_string().lines().next().expect("a line"), first_line_of_broken());
    }
    assert_eq!(*retriever.load(), texts([("rules/shop", "one")]));
    let events = bench.events.take();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(
        events[0].starts_with("rules/: rejected: ") && events[0].contains("this is broken"),
        "{events:?}"
    );
    let status = retriever.status();
    assert!(matches!(status.error, Some(RetrieveError::Rules(_))), "{status:?}");
    assert_eq!((status.documents, status.since), (before.documents, before.since));
    assert_eq!(retriever.stats().rejections, 1);
    bench.store.write("rules/shop", "still broken").await;
    assert!(retriever.refresh().await.is_err());
    assert_eq!((retriever.stats().rejections, bench.events.take().len()), (2, 1));
    bench.store.write("rules/shop", "two").await;
    assert!(retriever.refresh().await.expect("repaired"));
    let status = retriever.status();
    assert!(status.error.is_none());
    assert_eq!(status.documents, [("rules/shop".to_owned(), 4)]);
    assert_eq!(status.since, tollgate_core::Clock::now(&bench.clock));
    assert_eq!(bench.events.take(), ["rules/: loaded 1"]);
}

fn first_line_of_broken() -> String {
    let errors = compile(&[Source::new("rules/shop", "broken")]).expect_err("broken");
    errors.to_string().lines().next().expect("a line").to_owned()
}

#[tokio::test]
async fn rules_that_panic_the_compiler_are_rejected() {
    let store = Unreliable::new();
    store.write("rules/shop", "one").await;
    let compiler = |sources: Vec<Source>| {
        assert_ne!(sources[0].text(), "two", "a bug");
        Ok(sources.len())
    };
    let retriever = Retriever::with_compiler(store.shared(), compiler).clock(ManualClock::default());
    let retriever = retriever.start().await.expect("valid");
    store.write("rules/shop", "two").await;
    let rejected = retriever.refresh().await.expect_err("a panic").to_string();
    assert_eq!(rejected, "the rules made the compiler panic, which is a bug; undo the last change");
    store.write("rules/shop", "three").await;
    assert!(retriever.refresh().await.expect("valid"));
}

#[tokio::test]
async fn while_the_source_is_down_the_rules_stay_and_their_age_is_known() {
    let bench = Bench::new();
    let retriever = bench.start().await;
    bench.store.fail();
    bench.clock.advance(Duration::from_millis(500));
    let down = retriever.refresh().await.expect_err("down");
    assert_eq!(down.to_string(), "the source of the rules does not answer: no route");
    bench.clock.advance(Duration::from_millis(200));
    retriever.refresh().await.expect_err("down");
    assert_eq!(*retriever.load(), texts([("rules/shop", "one")]));
    let expected = ["rules/: stale for 500ms: no route", "rules/: stale for 700ms: no route"];
    assert_eq!(bench.events.take(), expected);
    bench.clock.advance(Duration::from_millis(100));
    let status = retriever.status();
    assert_eq!(status.stale_for, Duration::from_millis(800));
    assert!(matches!(status.error, Some(RetrieveError::Unavailable(_))));
    bench.store.recover();
    assert!(!retriever.refresh().await.expect("up"));
    let status = retriever.status();
    assert!(status.error.is_none() && status.stale_for.is_zero(), "{status:?}");
    let stats = retriever.stats();
    assert_eq!((stats.polls, stats.unavailable, stats.loads, stats.rejections), (4, 2, 1, 0));
}

#[tokio::test]
async fn rules_that_were_rejected_before_an_outage_are_rejected_after_it() {
    let bench = Bench::new();
    let retriever = bench.start().await;
    bench.store.write("rules/shop", "broken").await;
    retriever.refresh().await.expect_err("broken");
    bench.store.fail();
    retriever.refresh().await.expect_err("down");
    bench.store.recover();
    assert!(matches!(retriever.refresh().await, Err(RetrieveError::Rules(_))));
    assert!(matches!(retriever.status().error, Some(RetrieveError::Rules(_))));
    assert_eq!(retriever.stats().rejections, 1);
}

#[tokio::test]
async fn a_source_that_hangs_is_waited_for_until_the_deadline() {
    let bench = Bench::new();
    let retriever = bench.start().await;
    bench.store.hang();
    let advance = async {
        until(|| bench.clock.sleepers() == 2).await;
        bench.clock.advance(Duration::from_secs(1));
        until(|| bench.clock.sleepers() == 1).await;
        bench.clock.advance(Duration::from_secs(10));
    };
    let (polled, ()) = futures_util::future::join(retriever.refresh(), advance).await;
    let late = polled.expect_err("late").to_string();
    assert_eq!(late, "the source of the rules does not answer: no answer within 10s");
}

#[tokio::test]
async fn without_any_document_the_last_rules_stay() {
    let bench = Bench::new();
    let retriever = bench.start().await;
    bench.store.erase("rules/shop").await;
    for _ in 0..2 {
        let none = retriever.refresh().await.expect_err("nothing");
        let advice = "there is no document whose name starts with `rules/`; create one";
        assert_eq!(none.to_string(), advice);
    }
    assert_eq!(*retriever.load(), texts([("rules/shop", "one")]));
    assert_eq!(retriever.stats().rejections, 1);
    bench.store.write("rules/shop", "one").await;
    assert!(retriever.refresh().await.expect("there again"));
    assert_eq!(bench.events.take().len(), 2);
}

#[tokio::test]
async fn processes_with_the_same_texts_have_the_same_digest() {
    let (one, two) = (Bench::new(), Bench::new());
    let (first, second) = (one.start().await, two.start().await);
    two.store.write("rules/shop", "two").await;
    second.refresh().await.expect("valid");
    assert_ne!(first.status().digest, second.status().digest);
    two.store.write("rules/shop", "one").await;
    second.refresh().await.expect("valid");
    assert_eq!(first.status().digest, second.status().digest, "by the text, not by the version");
    // Where one text ends and the next name begins counts.
    one.store.write("rules/shopx", "y").await;
    two.store.write("rules/shop", "onerules/shopx").await;
    first.refresh().await.expect("valid");
    second.refresh().await.expect("valid");
    assert_ne!(first.status().digest, second.status().digest);
}

#[tokio::test]
async fn a_poll_that_panics_does_not_end_the_polls() {
    let bench = Bench::new();
    bench.store.write("rules/shop", "one").await;
    let observer = |event: Event<'_>| {
        assert!(!matches!(event, Event::RulesLoaded { documents: 2, .. }), "an observer's bug");
    };
    let retriever = bench.builder().observer(Arc::new(observer)).start().await.expect("valid");
    bench.store.write("rules/api", "new").await;
    until(|| bench.clock.sleepers() == 1).await;
    bench.clock.advance(Duration::from_secs(1));
    until(|| retriever.stats().panics == 1).await;
    bench.store.write("rules/third", "three").await;
    until(|| bench.clock.sleepers() == 1).await;
    bench.clock.advance(Duration::from_secs(1));
    until(|| retriever.load().len() == 3).await;
}

#[tokio::test]
async fn several_documents_are_read_as_they_were_at_one_moment() {
    let store = Moving(Unreliable::new());
    store.0.write("rules/a", "1").await;
    store.0.write("rules/b", "1").await;
    let retriever = Retriever::with_compiler(Arc::new(store.clone()), |sources| compile(&sources))
        .clock(ManualClock::default());
    let retriever = retriever.start().await.expect("valid");
    // `a` was read before the change, `b` after it: a mixture, unless `a` is read again.
    assert_eq!(*retriever.load(), texts([("rules/a", "moved"), ("rules/b", "moved")]));
}

/// A store of which both documents change after the first of them was read.
#[derive(Clone)]
struct Moving(Unreliable);

#[async_trait::async_trait]
impl DocumentStore for Moving {
    async fn get(&self, name: &str) -> Result<Option<Document>, DocumentError> {
        let read = self.0.get(name).await;
        if self.0.reads() == 1 {
            self.0.write("rules/a", "moved").await;
            self.0.write("rules/b", "moved").await;
        }
        read
    }

    async fn put(&self, _: &str, _: &str, _: Option<u64>, _: &Change) -> Result<Revision, DocumentError> {
        Err(DocumentError::ReadOnly)
    }

    async fn delete(&self, _: &str, _: u64, _: &Change) -> Result<Revision, DocumentError> {
        Err(DocumentError::ReadOnly)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>, DocumentError> {
        self.0.list(prefix).await
    }

    async fn history(&self, name: &str) -> Result<Vec<Revision>, DocumentError> {
        self.0.history(name).await
    }

    async fn get_version(&self, name: &str, version: u64) -> Result<Option<Document>, DocumentError> {
        self.0.get_version(name, version).await
    }
}
